"""Detached processes that are found again later, and never confused with another process that got their number."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import psutil
from pydantic import BaseModel

# A process is known by its number, its start time and its command line. The start time that psutil computes can move by
# a second when the clock is set, so it is compared with this tolerance.
_START_TOLERANCE = 2.0
_KILL_TIMEOUT = 10.0  # seconds
_POLL = 0.01  # seconds

# Children of this very process have to be reaped by it, or they stay as zombies.
_children: dict[int, subprocess.Popen[bytes]] = {}


class ProcessState(StrEnum):
    """What a recorded process is doing."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class ProcessRecord(BaseModel):
    """A process that was started: enough to find it, end it, or start it again in the same way.

    `env` None is the environment of the starting process, which is not stored: it may contain secrets of the user.
    `create_time` is in seconds since the epoch.
    """

    name: str
    argv: list[str]
    env: dict[str, str] | None = None
    log: Path
    pid: int = 0
    create_time: float = 0.0


def start(record: ProcessRecord) -> ProcessRecord:
    """Start the process in a session of its own, output appended to its log. Returns the record with its identity."""
    record.log.parent.mkdir(parents=True, exist_ok=True)
    with record.log.open("ab") as log:
        child = subprocess.Popen(
            record.argv, env=record.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            cwd=record.log.parent, start_new_session=True,
        )  # fmt: skip
    _children[child.pid] = child
    try:
        created = psutil.Process(child.pid).create_time()
    except psutil.NoSuchProcess:
        created = 0.0  # dead already; `state` says so
    return record.model_copy(update={"pid": child.pid, "create_time": created})


def find(record: ProcessRecord) -> psutil.Process | None:
    """The living process of a record, or None if it has ended, also if its number belongs to another one now."""
    if record.pid <= 0:
        return None
    _reap(record.pid)
    try:
        process = psutil.Process(record.pid)
        with process.oneshot():
            same = (
                process.status() != psutil.STATUS_ZOMBIE
                and abs(process.create_time() - record.create_time) < _START_TOLERANCE
                and _runs(process.cmdline(), record.argv)
            )
    except psutil.Error:
        return None
    return process if same else None


def state(record: ProcessRecord) -> ProcessState:
    """Whether the process runs, is paused (SIGSTOP), or has ended."""
    process = find(record)
    try:
        if process is None:
            return ProcessState.DEAD
        return ProcessState.PAUSED if process.status() == psutil.STATUS_STOPPED else ProcessState.RUNNING
    except psutil.NoSuchProcess:
        return ProcessState.DEAD


def send(record: ProcessRecord, number: signal.Signals) -> bool:
    """Send a signal. False if the process has ended."""
    process = find(record)
    if process is None:
        return False
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def end(records: Sequence[ProcessRecord], grace: float) -> list[str]:
    """End processes: SIGTERM, and SIGKILL to those that are left after `grace` seconds (at once if it is 0).

    Returns the names of the processes that were alive.
    """
    remaining = living = [record for record in records if find(record)]
    if grace > 0:
        for record in living:
            send(record, signal.SIGTERM)
            send(record, signal.SIGCONT)  # a paused process cannot see SIGTERM
        remaining = _wait(living, grace)
    for record in remaining:
        send(record, signal.SIGKILL)
    _wait(remaining, _KILL_TIMEOUT)
    return [record.name for record in living]


def log_tail(record: ProcessRecord, lines: int) -> list[str]:
    """The last lines of the process's log; empty if there is none."""
    try:
        with record.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - 65536))
            text = log.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The little that a server needs of the user's environment, and `extra`. No secret gets in by chance."""
    names = ("PATH", "HOME", "TMPDIR", "LANG", "TZ", "GOGC")  # the last: how much memory Go takes to save CPU
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, **(extra or {})}


def _runs(command_line: list[str], argv: list[str]) -> bool:
    """Whether a command line is that of `argv`. An interpreter may stand before it, and the path may differ."""
    arguments = argv[1:]
    # For a moment after exec a process has no command line yet; on a busy machine that moment is seen.
    return not command_line or command_line[len(command_line) - len(arguments) :] == arguments


def _wait(records: Sequence[ProcessRecord], timeout: float) -> list[ProcessRecord]:
    """Wait until the processes have ended, and return those that have not.

    A zombie has ended: its parent may be slow to reap it, and psutil's own wait would wait for that too.
    """
    deadline, pause = time.monotonic() + timeout, threading.Event()
    while (remaining := [record for record in records if not _gone(record)]) and time.monotonic() < deadline:
        pause.wait(_POLL)
    return remaining


def _gone(record: ProcessRecord) -> bool:
    """Whether the process has ended and its last thread with it: until then its ports and file locks are taken."""
    child = _children.get(record.pid)
    if child is not None:
        return child.poll() is not None
    if find(record):
        return False
    try:
        same = abs(psutil.Process(record.pid).create_time() - record.create_time) < _START_TOLERANCE
        return not same or len(list(Path(f"/proc/{record.pid}/task").iterdir())) <= 1
    except (psutil.Error, OSError):
        return True


def _reap(pid: int) -> None:
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]
