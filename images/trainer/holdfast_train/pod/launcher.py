"""holdfast-run: PID 1 of a training container.

It starts the user's command. It passes the first SIGTERM on as "save and leave", and a second one as "leave now". It
reaps orphans, and writes one JSON line to the termination log that says why the program ended. Exit codes alone cannot
say that: torchrun always ends with 1.

The init container copies this one file into images that do not contain Holdfast. So it uses the standard library only
and runs on Python 3.9 and later (annotations are never evaluated, and there is no `match`).
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

VERDICT_BYTES = 4096  # kubelet cuts a container's termination message here
LINES_KEPT = 20
LINE_BYTES = 512
MESSAGE_CHARACTERS = 600
WRITER_SECONDS = 60.0  # how long a checkpoint that is on its way may take after the end of the program,
MARGIN_SECONDS = 1.0  # and how long before the end of the grace it has to end
NOW_SECONDS = 5.0  # from the second SIGTERM on, for the program and then for a checkpoint that is on its way
SETTLE_SECONDS = 1.0  # signals within this window count once: stopping a process group signals its leader twice
LEAVE_NOW = "leave-now"  # a file beside the verdicts: the second SIGTERM came. Ranks get too many signals to count them
DRAIN_SECONDS = 1.0  # how long each output of the program's orphans is read after the end of the program
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit codes, as of a shell

_OUT_OF_MEMORY = re.compile(r"(?i)\bMemoryError\b|\bOutOfMemoryError\b|CUDA out of memory|can't allocate memory")


class RankVerdict(NamedTuple):
    """What one rank wrote last: `result` is running, saved, left, completed, failed, fenced or misconfigured."""

    rank: int
    result: str
    reason: str
    message: str
    step: int | None
    saved_step: int | None
    at: float  # in seconds since 1970


class End(NamedTuple):
    """How the program ended. `code`: its exit code, None if a signal ended it.

    `signalled_at`: when the launcher got SIGTERM or SIGINT, in seconds since 1970; None if it got neither.
    """

    code: int | None
    signal: int | None
    signalled_at: float | None
    ranks: tuple[RankVerdict, ...] = ()
    last_lines: tuple[str, ...] = ()
    start_error: tuple[str, str] | None = None


def classify(end: End) -> dict[str, Any]:
    """The verdict for `end`, without the limits of `encode`. Pure."""
    outcome, reason, message = _judge(end)
    return {
        "v": 1,
        "outcome": outcome,
        "reason": reason,
        "message": message,
        "exitCode": end.code,
        "signal": end.signal,
        "step": max((v.step for v in end.ranks if v.step is not None), default=None),
        "savedStep": max((v.saved_step for v in end.ranks if v.saved_step is not None), default=None),
        "lastLines": list(end.last_lines) if outcome in ("failed", "misconfigured") else [],
    }


def _judge(end: End) -> tuple[str, str, str]:
    """Outcome, reason and message."""
    if end.start_error is not None:
        return "misconfigured", end.start_error[0], end.start_error[1]
    by_result = {verdict.result: verdict for verdict in sorted(end.ranks, reverse=True)}  # of the lowest rank
    drained = (("saved", "SavedAndLeft"), ("left", "LeftWithoutSaving"))
    for result, reason in (("fenced", ""), ("misconfigured", ""), *drained):
        if found := by_result.get(result):
            return result if not reason else "drained", reason or found.reason, found.message or "notice to leave"
    done, failure = by_result.get("completed"), by_result.get("failed")
    if done is not None and end.code == 0:  # after the end of training the program may export a model, and fail
        return "completed", done.reason or "Completed", done.message
    if end.signalled_at is not None and (failure is None or failure.at >= end.signalled_at):
        how = f"signal {end.signal}" if end.code is None else f"exit code {end.code}"
        how = f"notice to leave: the program ended with {how}"
        if done is not None:
            return "drained", "SavedAndLeft", f"{done.message}; {how} after that"
        return "drained", "LeftWithoutSaving", f"{how}; it did not say that it saved"
    if end.code == 0 and not (failure := failure or by_result.get("running")):
        return "completed", "Completed", "the program ended with exit code 0"
    reason, message = _failure(end, failure)
    message += "; the program then ended with exit code 0, but its training is not complete" if end.code == 0 else ""
    return "failed", reason, message if done is None else f"{done.message}, then the program failed: {message}"


def _failure(end: End, failure: RankVerdict | None) -> tuple[str, str]:
    """Reason and message. `failure`: what a rank wrote."""
    if failure is not None and failure.reason not in ("", "UserException"):
        return failure.reason, failure.message
    out_of_memory = [line for line in end.last_lines if _OUT_OF_MEMORY.search(line)]
    if out_of_memory:
        return "OutOfMemory", out_of_memory[-1].strip()
    if failure is not None:
        return failure.reason or "UserException", failure.message
    if end.signal is not None:
        name = next((known.name for known in signal.Signals if known == end.signal), f"signal {end.signal}")
        return f"Signal{end.signal}", f"the program was ended by {name}"
    last = f": {end.last_lines[-1].strip()}" if end.last_lines else ""
    return "UserException", f"the program ended with exit code {end.code}{last}"


def encode(verdict: dict[str, Any]) -> bytes:
    """One line of JSON of at most VERDICT_BYTES. If it is too long, the oldest lines go, then half of the message."""
    small = dict(verdict)
    small["message"] = str(small.get("message") or "").replace("\n", " ")[:MESSAGE_CHARACTERS]
    lines = small["lastLines"] = list(small.get("lastLines") or [])[-LINES_KEPT:]
    while len(data := json.dumps(small, separators=(",", ":")).encode("ascii") + b"\n") > VERDICT_BYTES:
        if lines:
            lines.pop(0)
        else:
            small["message"] = small["message"][: len(small["message"]) // 2]
    return data


def write_verdict(path: str | None, verdict: dict[str, Any]) -> None:
    """Write the line with one system call. The file is a bind mount in a pod, so a rename cannot replace it."""
    if not path:
        return
    try:
        Path(path).write_bytes(encode(verdict))
    except OSError as error:
        complain(f"cannot write the verdict to {path}: {error}")


def complain(text: str) -> None:
    """Write one line to stderr."""
    sys.stderr.write(f"holdfast-run: {text}\n")


def read_rank_verdicts(folder: str | None) -> tuple[RankVerdict, ...]:
    """The contents of the files `rank-<r>.json` in `folder`. A file that cannot be read is left out."""
    found: list[RankVerdict] = []
    for path in sorted(Path(folder).glob("rank-*.json")) if folder else ():
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            step, saved_step = (None if data.get(n) is None else int(data[n]) for n in ("step", "savedStep"))
            reason, message = (str(data.get(name) or "") for name in ("reason", "message"))
            rank, at = int(path.stem[len("rank-") :]), float(data.get("at") or 0.0)
            found.append(RankVerdict(rank, str(data["result"]), reason, message, step, saved_step, at))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            complain(f"cannot read {path.name}: {error}")
    return tuple(found)


def shutdown_timeout(grace: float) -> int:
    """Whole seconds that torchrun waits for its workers: the grace less a fifth (at most 10 s less), at least 1."""
    return max(1, int(grace - min(10.0, 0.2 * grace)))


class Tee:
    """Copies a pipe to a file descriptor and keeps its last lines, in bounded memory."""

    def __init__(self, source: Any, target: int) -> None:
        self.lines: collections.deque[str] = collections.deque(maxlen=LINES_KEPT)
        self._target = target
        self._partial = b""
        self._thread = threading.Thread(target=self._run, args=(source,), name=f"tee-{target}", daemon=True)
        self._thread.start()

    def _run(self, source: Any) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(source.fileno(), 65536):
                self._keep(data)
                with contextlib.suppress(OSError):  # the output has no reader any more: the program must not stop
                    while data:
                        data = data[os.write(self._target, data) :]

    def _keep(self, data: bytes) -> None:
        # A progress line is rewritten with "\r": each rewrite replaces the one before it.
        *complete, rest = (self._partial + data).split(b"\n")
        for line in complete:
            self._append(line)
        self._partial = rest[-4 * LINE_BYTES :]

    def _append(self, line: bytes) -> None:
        text = line.rstrip(b"\r").split(b"\r")[-1][:LINE_BYTES].decode("utf-8", "replace").rstrip()
        if text:
            self.lines.append(text)

    def finish(self, seconds: float) -> tuple[str, ...]:
        """The last lines, after the end of the pipe or after `seconds`; an unfinished line counts."""
        self._thread.join(seconds)
        self._append(self._partial)
        return tuple(self.lines)


def receivers(parent: int, number: int) -> list[int]:
    """The processes below `parent` that the signal `number` has to reach, each before those below it.

    These are the first process of each line of descent that handles the signal (it decides about its own children), and
    those above it: a shell that waits for a trainer would start its next command. All others are left alone: `tee` has
    to outlive the trainer whose output it reads.
    """
    above: dict[int, int] = {}
    handling = set()
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, KeyError, ValueError):  # the process has ended since
            lines = dict(line.split(":", 1) for line in path.read_text(errors="replace").splitlines() if ":" in line)
            pid = int(path.parent.name)
            above[pid] = int(lines["PPid"])
            if (int(lines["SigCgt"], 16) | int(lines["SigBlk"], 16)) >> (number - 1) & 1:  # blocked: it uses sigwait
                handling.add(pid)
    found: dict[int, None] = {}
    for pid in sorted(handling):
        line = [pid]
        while (upper := above.get(line[0], 0)) not in (0, parent):
            line.insert(0, upper)
        if upper == parent and handling.isdisjoint(line[:-1]):
            found.update(dict.fromkeys(line))
    return list(found)


class Launcher:
    """Runs one command to its end. `signalled_at` is set when SIGTERM or SIGINT came.

    The first signal is passed on, and the program has the grace. A second one means now: the program gets SIGTERM, with
    the file LEAVE_NOW beside the verdicts, and is killed after NOW_SECONDS, which a commit that is on its way may use.
    If the command is a shell, the signal ends the shell; its trainer gets the signal too, and has the grace.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str], grace: float = 30.0) -> None:
        self._command = list(command)
        self._grace = grace
        self._environment = environment
        self._running: dict[int, None] = {}  # the command, and what was signalled; each before those below it
        self._leave_now: Path | None = None
        self._first_signal, self._deadline = 0.0, math.inf
        self.signalled_at: float | None = None

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signalled_at is None:
            self.signalled_at, self._first_signal = time.time(), now
            self._deadline = now + self._grace - MARGIN_SECONDS
            self._forward(number)
        elif now - self._first_signal >= SETTLE_SECONDS:
            self._first_signal, self._deadline = math.inf, min(self._deadline, now + NOW_SECONDS)  # no third one
            try:  # before the signal: torchrun and others add signals, so a rank cannot count them
                if self._leave_now is not None:
                    self._leave_now.touch(0o644)
            except OSError as error:
                complain(f"cannot make {self._leave_now}: {error}")
            self._forward(signal.SIGTERM)
            signal.setitimer(signal.ITIMER_REAL, NOW_SECONDS)

    def _forward(self, number: int, *, again: bool = True) -> None:
        """Signal the command and `receivers`. `again`: those too that were signalled before."""
        fresh = [pid for pid in receivers(os.getpid(), number) if pid not in self._running]
        for pid in [*self._running, *fresh] if again else fresh:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        self._running.update(dict.fromkeys(fresh))

    def run(self, verdict_folder: str | None) -> End:
        """Start the command, wait for its end and read what it left. Must be called from the main thread."""
        if verdict_folder is not None:
            self._leave_now = Path(verdict_folder) / LEAVE_NOW
            self._leave_now.unlink(missing_ok=True)  # an earlier launcher may have left it in a shared folder
        signal.signal(signal.SIGALRM, lambda *_: self._forward(signal.SIGKILL))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            child = subprocess.Popen(
                self._command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except OSError as error:
            return self._not_started(error)
        self._running[child.pid] = None
        if self.signalled_at is not None:  # the signal came before the start: pass it on now
            self._forward(signal.SIGTERM)
        out, err = Tee(child.stdout, 1), Tee(child.stderr, 2)
        ended = status = 0
        while ended != child.pid:  # PID 1 inherits every orphan, so the end of each child is collected here
            ended, status = os.waitpid(-1, 0)
            self._running.pop(ended, None)
        child.returncode = code = os.waitstatus_to_exitcode(status)  # Popen must not wait for a reaped process
        self._wait_for_orphans(verdict_folder)
        ended_at = time.monotonic()
        wait_for_writers(verdict_folder, lambda: min(ended_at + WRITER_SECONDS, self._deadline) - time.monotonic())
        lines, rest = err.finish(DRAIN_SECONDS), out.finish(DRAIN_SECONDS)
        by_code, by_signal = (code, None) if code >= 0 else (None, -code)
        return End(by_code, by_signal, self.signalled_at, read_rank_verdicts(verdict_folder), lines or rest)

    def _wait_for_orphans(self, folder: str | None) -> None:
        """Wait, inside the grace, for what was signalled: a trainer that saves outlives the shell that started it."""
        while True:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            for pid in list(self._running):
                if not Path(f"/proc/{pid}").exists():
                    del self._running[pid]
            if self.signalled_at is not None and all(v.result == "running" for v in read_rank_verdicts(folder)):
                self._forward(signal.SIGTERM, again=False)  # a shell may handle the signal and not pass it on
            if not self._running or time.monotonic() >= self._deadline:
                return
            time.sleep(0.05)

    def _not_started(self, error: OSError) -> End:
        name, path = self._command[0], self._environment.get("PATH", "")
        if isinstance(error, FileNotFoundError):
            text = f"command {name!r} was not found in the image; set trainer.command to a program on PATH ({path})"
            return End(NOT_FOUND, None, self.signalled_at, start_error=("CommandNotFound", text))
        text = f"command {name!r} cannot be started: {error.strerror or error}"
        return End(NOT_EXECUTABLE, None, self.signalled_at, start_error=("CommandNotExecutable", text))


def wait_for_writers(folder: str | None, seconds_left: Callable[[], float]) -> None:
    """Return when no checkpoint is on its way, or no second is left: a writer then locks a file in `folder`.

    A writer may outlive a program that has crashed; but when the launcher ends, as PID 1, the writer ends too.
    """
    for path in Path(folder).glob("writer-*") if folder else ():
        with path.open("rb") as file:
            while seconds_left() > 0:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.05)


@contextlib.contextmanager
def verdict_folder(environment: dict[str, str]) -> Iterator[str | None]:
    """The folder for rank verdicts, a temporary one if the environment names none. The root may be read-only."""
    if given := environment.get("HOLDFAST_VERDICT_DIR"):
        yield given
        return
    folder = None
    for parent in (None, Path(__file__).resolve().parent, "/dev/shm"):  # noqa: S108
        with contextlib.suppress(OSError):
            folder = tempfile.mkdtemp(prefix="holdfast-verdict-", dir=parent)
            break
    yield folder
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command after `--`. Its exit code, as of a shell; 0 if it completed or saved, not 0 if it failed."""
    command = list(sys.argv[1:] if argv is None else argv)
    if command[:1] == ["--"]:
        command = command[1:]
    environment = dict(os.environ)
    end = _run(command, environment)
    verdict = classify(end)
    if end.start_error is not None:
        complain(end.start_error[1])
    write_verdict(environment.get("HOLDFAST_TERMINATION_LOG"), verdict)
    for number in (signal.SIGTERM, signal.SIGINT):  # the verdict is written: a late signal must not change the code
        signal.signal(number, signal.SIG_IGN)
    if verdict["outcome"] == "completed" or verdict["reason"] == "SavedAndLeft":
        return 0
    return (128 + (end.signal or 0) if end.code is None else end.code) or int(verdict["outcome"] != "drained")


def _run(command: Sequence[str], environment: dict[str, str]) -> End:
    if not command:
        text = "no command was given; usage: holdfast-run -- COMMAND [ARGUMENT ...]"
        return End(NOT_FOUND, None, None, start_error=("CommandNotFound", text))
    text = environment.get("HOLDFAST_GRACE_SECONDS", "")
    grace = float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else 30.0
    environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(shutdown_timeout(grace))
    environment.setdefault("PYTHONUNBUFFERED", "1")  # otherwise a killed program loses its last lines
    with verdict_folder(environment) as folder:
        if folder:
            environment["HOLDFAST_VERDICT_DIR"] = folder
        return Launcher(command, environment, grace).run(folder)


if __name__ == "__main__":
    sys.exit(main())
