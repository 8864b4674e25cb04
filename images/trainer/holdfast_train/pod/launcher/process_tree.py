"""The processes below the launcher: all of them end before the program is started again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

PAUSE = 0.01  # seconds between two rounds of SIGKILL
_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def adopt_orphans() -> None:
    """Become the parent of every process below that loses its own. PID 1 is that already."""
    if os.getpid() != 1:
        import ctypes  # noqa: PLC0415 - a container does not need it

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(parent: int, without: Collection[int] = ()) -> list[int]:
    """The processes below `parent` that have not ended, each after those above it.

    Children in `without` are left out, with those below them.
    """
    below: dict[int, list[int]] = {}
    ended = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended since
            state, upper = path.read_text(errors="replace").rpartition(")")[2].split()[:2]
            pid = int(path.parent.name)
            below.setdefault(int(upper), []).append(pid)
            if state in "ZX":
                ended.add(pid)
    found = [pid for pid in below.get(parent, ()) if pid not in without]
    for pid in found:  # grows meanwhile
        found += below.get(pid, ())
    return [pid for pid in found if pid not in ended]


class State(NamedTuple):
    """A process: the letter of its state in /proc (T: stopped), its parent, and its start in seconds since the boot."""

    letter: str
    parent: int
    started_at: float


def state_of(pid: int) -> State | None:
    """The state of the process. None if it has ended and is collected."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return State(words[0], int(words[1]), int(words[19]) / os.sysconf("SC_CLK_TCK"))
    except OSError:
        return None


def letter_of(pid: int) -> str:
    """The letter of the process's state in /proc; empty if it has ended and is collected."""
    found = state_of(pid)
    return "" if found is None else found.letter


def runs(pid: int) -> bool:
    """True if the process has not ended. One that is stopped has not."""
    return letter_of(pid) not in ("", *"ZX")


def send(pid: int, number: int) -> None:
    """Signal the process; nothing if it has ended, or belongs to another user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def parent_of(pid: int) -> int:
    """The parent of the process; 0 if it has ended."""
    found = state_of(pid)
    return 0 if found is None else found.parent


def started_at(pid: int) -> float:
    """When the process started, in seconds since 1970; 0 if it has ended."""
    found = state_of(pid)
    return 0.0 if found is None else time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + found.started_at


def end_descendants(seconds: float, without: Collection[int] = (), *, but: int = 0) -> list[int]:
    """Kill all processes below this one, and collect them. Those that have not ended after `seconds`.

    Children in `without` go on, with those below them. The process `but` goes on; those below it end.
    """
    deadline = time.monotonic() + seconds
    while True:
        collect()
        left = [pid for pid in descendants(os.getpid(), without) if pid != but]
        if not left or time.monotonic() > deadline:
            return left
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE)


def names_of_left(seconds: float, without: Collection[int] = ()) -> tuple[str, ...]:
    """The names of the processes below this one that have not ended after `seconds`, each once, in order.

    Children in `without` are left out, with those below them. A command line may have secrets, so it is not looked at.
    """
    deadline, was_empty = time.monotonic() + seconds, False
    while True:
        collect()
        left = descendants(os.getpid(), without)
        if (not left and was_empty) or time.monotonic() > deadline:
            break
        was_empty = not left  # one that forks and ends during a look can be missed with its child
        time.sleep(PAUSE)
    names = set()
    for pid in left:
        with contextlib.suppress(OSError):  # the process has ended since
            names.add(Path(f"/proc/{pid}/comm").read_text(errors="replace").strip())
    return tuple(sorted(names))


def end_tree(root: int) -> None:
    """Kill a child of this process that is not collected, and all processes below it."""
    for pid in (root, *descendants(root)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def collect() -> None:
    """Collect the children of this process that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
