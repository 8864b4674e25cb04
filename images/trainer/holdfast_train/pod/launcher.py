"""holdfast-run: PID 1 of a training container.

It starts the user's command, passes SIGTERM on as "save and leave", and a second one as "leave now", reaps orphans, and
writes one JSON line to the termination log that says why the program ended. Exit codes alone cannot say that: torchrun
always ends with 1.

The init container copies this one file into images that know nothing of Holdfast, so it uses the standard library
only and runs on Python 3.9 and later (annotations are never evaluated, and there is no `match`).
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VERDICT_BYTES = 4096  # kubelet cuts a container's termination message here
LINES_KEPT = 20
LINES_BYTES = 2048
LINE_BYTES = 512
MESSAGE_CHARACTERS = 600
WRITER_SECONDS = 60.0  # how long a checkpoint that is on its way may still take after the program has ended,
MARGIN_SECONDS = 1.0  # and how long before the end of the grace it has to be over
NOW_SECONDS = 5.0  # from the second SIGTERM on, for the program and then for a checkpoint that is on its way
SETTLE_SECONDS = 1.0  # signals that come together are one: who stops a whole group tells its first process once more
LEAVE_NOW = "leave-now"  # a file beside the verdicts: told twice. Whoever counts signals may have been told by several
DRAIN_SECONDS = 2.0  # how long output of the program's orphans is still read after the program ended
NOT_FOUND = 127
NOT_EXECUTABLE = 126

_OUT_OF_MEMORY = re.compile(
    r"\bMemoryError\b|\bOutOfMemoryError\b|CUDA out of memory|can't allocate memory", re.IGNORECASE
)


class RankVerdict(NamedTuple):
    """What one rank wrote about its end. `at`: seconds since 1970.

    `result`: saved, left, completed, failed, fenced or misconfigured.
    """

    rank: int
    result: str
    reason: str
    message: str
    step: int | None
    saved_step: int | None
    at: float


class End(NamedTuple):
    """How the program ended. `code`: its exit code, None if a signal ended it; `told_at`: when SIGTERM came."""

    code: int | None
    signal: int | None
    told_at: float | None
    ranks: tuple[RankVerdict, ...]
    last_lines: tuple[str, ...]
    start_error: tuple[str, str] | None = None

    @property
    def exit_code(self) -> int:
        """The code as a shell would give it: 128 + N for signal N."""
        if self.code is not None:
            return self.code
        return 128 + (self.signal or 0)


def classify(end: End) -> dict[str, Any]:
    """The verdict for `end`, without the limits of `encode`. Pure."""
    outcome, reason, message = _judge(end)
    steps = [v.step for v in end.ranks if v.step is not None]
    saved = [v.saved_step for v in end.ranks if v.saved_step is not None]
    return {
        "v": 1,
        "outcome": outcome,
        "reason": reason,
        "message": message,
        "exitCode": end.code,
        "signal": end.signal,
        "step": max(steps) if steps else None,
        "savedStep": max(saved) if saved else None,
        "lastLines": list(end.last_lines) if outcome in ("failed", "misconfigured") else [],
    }


def _judge(end: End) -> tuple[str, str, str]:
    by_result: dict[str, RankVerdict] = {}
    for verdict in sorted(end.ranks):
        by_result.setdefault(verdict.result, verdict)
    if end.start_error is not None:
        return "misconfigured", end.start_error[0], end.start_error[1]
    for result in ("fenced", "misconfigured"):
        if result in by_result:
            return result, by_result[result].reason, by_result[result].message
    if "completed" in by_result:  # the `complete` record is in the log: that stands, whatever came afterwards
        return "completed", by_result["completed"].reason or "Completed", by_result["completed"].message
    failure = by_result.get("failed")
    failed_before = failure is not None and (end.told_at is None or failure.at < end.told_at)
    left = "saved" in by_result or "left" in by_result
    if (end.told_at is not None or left) and not (failed_before and not left):
        return _drained(end, by_result)
    if end.code == 0:
        return "completed", "Completed", "the program ended with exit code 0"
    return _failed(end, failure)


def _drained(end: End, by_result: dict[str, RankVerdict]) -> tuple[str, str, str]:
    if "saved" in by_result:
        return "drained", "SavedAndLeft", by_result["saved"].message or "told to leave: saved and left"
    if "left" in by_result:
        return "drained", "LeftWithoutSaving", by_result["left"].message or "told to leave: left without saving"
    how = f"exit code {end.code}" if end.code is not None else f"signal {end.signal}"
    message = f"told to leave: the program ended with {how}; it did not say that it saved"
    return "drained", "LeftWithoutSaving", message


def _failed(end: End, failure: RankVerdict | None) -> tuple[str, str, str]:
    text = "\n".join(end.last_lines)
    if failure is not None and failure.reason not in ("", "UserException"):
        return "failed", failure.reason, failure.message
    if _OUT_OF_MEMORY.search(text):
        lines = [line for line in end.last_lines if _OUT_OF_MEMORY.search(line)]
        return "failed", "OutOfMemory", lines[-1].strip()
    if failure is not None:
        return "failed", failure.reason or "UserException", failure.message
    if end.signal is not None:
        return "failed", f"Signal{end.signal}", f"the program was ended by {_signal_name(end.signal)}"
    message = f"the program ended with exit code {end.code}"
    if end.last_lines:
        message += ": " + end.last_lines[-1].strip()
    return "failed", "UserException", message


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def encode(verdict: dict[str, Any]) -> bytes:
    """One line of JSON of at most VERDICT_BYTES: the message is cut first, then the oldest lines go."""
    small = dict(verdict)
    small["message"] = str(small.get("message") or "").replace("\n", " ")[:MESSAGE_CHARACTERS]
    lines = list(small.get("lastLines") or [])[-LINES_KEPT:]
    while sum(len(line.encode("utf-8", "replace")) + 1 for line in lines) > LINES_BYTES:
        lines.pop(0)
    while True:
        small["lastLines"] = lines
        data = json.dumps(small, separators=(",", ":")).encode("ascii") + b"\n"
        if len(data) <= VERDICT_BYTES:
            return data
        if lines:
            lines.pop(0)
        else:
            small["message"] = small["message"][: len(small["message"]) // 2]


def write_verdict(path: str | None, verdict: dict[str, Any]) -> None:
    """Write the line with one system call. The file is a bind mount in a pod, so it cannot be replaced by a rename."""
    if not path:
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        sys.stderr.write(f"holdfast-run: cannot write the verdict to {path}: {error}\n")
        return
    try:
        os.write(descriptor, encode(verdict))
    finally:
        os.close(descriptor)


def read_rank_verdicts(folder: str | None) -> tuple[RankVerdict, ...]:
    """The files `rank-<r>.json` that the library wrote; one that cannot be read is left out."""
    found: list[RankVerdict] = []
    for name in sorted(os.listdir(folder)) if folder and os.path.isdir(folder) else []:  # noqa: PTH112, PTH208
        match = re.fullmatch(r"rank-(\d+)\.json", name)
        if match is None or folder is None:
            continue
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123
                data = json.load(file)
            rank = RankVerdict(
                rank=int(match.group(1)),
                result=str(data["result"]),
                reason=str(data.get("reason") or ""),
                message=str(data.get("message") or ""),
                step=None if data.get("step") is None else int(data["step"]),
                saved_step=None if data.get("savedStep") is None else int(data["savedStep"]),
                at=float(data.get("at") or 0.0),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.stderr.write(f"holdfast-run: cannot read {name}: {error}\n")
            continue
        found.append(rank)
    return tuple(found)


def shutdown_timeout(grace: float) -> int:
    """Whole seconds that torchrun waits for its workers: the grace less a fifth, at most 10 s less. At least 1."""
    return max(1, int(grace - min(10.0, 0.2 * grace)))


class Tee:
    """Passes a pipe on to a file descriptor and keeps its last lines, in bounded memory."""

    def __init__(self, source: IO[bytes], target: int) -> None:
        self.lines: collections.deque[str] = collections.deque(maxlen=LINES_KEPT)
        self._source = source
        self._target = target
        self._partial = b""
        self._thread = threading.Thread(target=self._run, name=f"tee-{target}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        descriptor = self._source.fileno()
        while True:
            try:
                data = os.read(descriptor, 65536)
            except OSError:
                break
            if not data:
                break
            self._pass_on(data)
            self._keep(data)

    def _pass_on(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._target, view) :]
            except OSError:  # nobody reads our output any more: the program must not stop for that
                return

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
        """Wait for the end of the pipe, at most `seconds`; the lines kept, the unfinished one included."""
        self._thread.join(seconds)
        if self._partial:
            self._append(self._partial)
            self._partial = b""
        return tuple(self.lines)


class Launcher:
    """Runs one command to its end. `told_at` is set when SIGTERM or SIGINT came.

    The first is passed on, and the program has the grace. A second one means now: it is passed on as SIGTERM, with the
    file LEAVE_NOW beside the verdicts, and after NOW_SECONDS the program is killed. A commit that is on its way may use
    what is left of them: it is what the grace was for, and it ends by itself where storage answers.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str], grace: float = 30.0) -> None:
        self._command = list(command)
        self._grace = grace
        self._environment = environment
        self._pid: int | None = None
        self._leave_now: str | None = None
        self._heard_at = 0.0
        self._kill_at: float | None = None
        self.told_at: float | None = None

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.told_at is None:
            self.told_at, self._heard_at = time.time(), now
            self._forward(number)
        elif self._kill_at is None and now - self._heard_at >= SETTLE_SECONDS:
            self._kill_at = now + NOW_SECONDS
            self._say_now()
            self._forward(signal.SIGTERM)
            signal.setitimer(signal.ITIMER_REAL, NOW_SECONDS)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        self._forward(signal.SIGKILL)

    def _say_now(self) -> None:
        """Before the signal: torchrun and others pass on signals of their own, so a rank cannot go by their number."""
        if self._leave_now is not None:
            try:
                os.close(os.open(self._leave_now, os.O_CREAT | os.O_WRONLY, 0o644))
            except OSError as error:
                sys.stderr.write(f"holdfast-run: cannot say that it has to leave now: {error}\n")

    def _forward(self, number: int) -> None:
        # To this one process only, as a kubelet does: the program decides how its own children are told.
        if self._pid is not None:
            try:
                os.kill(self._pid, number)
            except ProcessLookupError:
                return

    def run(self, verdict_folder: str | None) -> End:
        """Start the command, wait for its end and read what it left. Must be called from the main thread."""
        if verdict_folder is not None:
            self._leave_now = os.path.join(verdict_folder, LEAVE_NOW)  # noqa: PTH118
            with contextlib.suppress(FileNotFoundError):  # of a launcher before us, where the folder is not our own
                os.remove(self._leave_now)  # noqa: PTH107
        signal.signal(signal.SIGALRM, self._on_alarm)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if self.told_at is not None:
            return End(None, int(signal.SIGTERM), self.told_at, (), ())
        try:
            child = subprocess.Popen(
                self._command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except OSError as error:
            return self._not_started(error)
        assert child.stdout is not None
        assert child.stderr is not None
        self._pid = child.pid
        if self.told_at is not None:  # came between the handler and the start: nobody has passed it on yet
            self._forward(signal.SIGTERM)
        out, err = Tee(child.stdout, 1), Tee(child.stderr, 2)
        status = _wait_and_reap(child.pid)
        self._pid = None
        begun = time.monotonic()
        wait_for_writers(verdict_folder, lambda: self._seconds_left(begun))
        # Popen must not wait for a process that is reaped already.
        child.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        deadline = time.monotonic() + DRAIN_SECONDS
        lines = err.finish(DRAIN_SECONDS)
        rest = out.finish(max(0.0, deadline - time.monotonic()))
        return End(
            code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            told_at=self.told_at,
            ranks=read_rank_verdicts(verdict_folder),
            last_lines=lines or rest,
        )

    def _seconds_left(self, begun: float) -> float:
        """How long a checkpoint that is on its way may still take; it has been waited for since `begun`."""
        left = begun + WRITER_SECONDS - time.monotonic()
        if self._kill_at is not None:
            left = min(left, self._kill_at - time.monotonic())
        if self.told_at is not None:
            left = min(left, self.told_at + self._grace - MARGIN_SECONDS - time.time())
        return left

    def _not_started(self, error: OSError) -> End:
        name = self._command[0]
        if isinstance(error, FileNotFoundError):
            path = self._environment.get("PATH", "")
            text = f"command {name!r} was not found in the image; set trainer.command to a program on PATH ({path})"
            return End(NOT_FOUND, None, self.told_at, (), (), ("CommandNotFound", text))
        text = f"command {name!r} cannot be started: {error.strerror or error}"
        return End(NOT_EXECUTABLE, None, self.told_at, (), (), ("CommandNotExecutable", text))


def _wait_and_reap(pid: int) -> int:
    """The wait status of `pid`. As PID 1 we inherit every orphan of the container, so all ends are collected."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return status


def wait_for_writers(folder: str | None, seconds_left: Callable[[], float]) -> None:
    """Return when no checkpoint is on its way, or no second is left: a writer locks a file here while one is.

    It may outlive a program that has crashed; but when we end, as PID 1, it ends too.
    """
    if folder is None:
        return
    for path in glob.glob(os.path.join(folder, "writer-*")):  # noqa: PTH118, PTH207
        with open(path, "rb") as file:  # noqa: PTH123
            while seconds_left() > 0:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.05)


def _verdict_folder(environment: dict[str, str]) -> tuple[str | None, bool]:
    """The folder for rank verdicts, and whether it is ours to delete. Images may have a read-only root."""
    given = environment.get("HOLDFAST_VERDICT_DIR")
    if given:
        return given, False
    for parent in (None, os.path.dirname(os.path.abspath(__file__)), "/dev/shm"):  # noqa: PTH100, PTH120, S108
        try:
            return tempfile.mkdtemp(prefix="holdfast-verdict-", dir=parent), True
        except OSError:
            continue
    return None, False


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command after `--`; the exit code is the program's, but 0 where it completed or saved and left."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    environment = dict(os.environ)
    log = environment.get("HOLDFAST_TERMINATION_LOG")
    if not arguments:
        error = ("CommandNotFound", "no command was given; usage: holdfast-run -- COMMAND [ARGUMENT ...]")
        sys.stderr.write(f"holdfast-run: {error[1]}\n")
        write_verdict(log, classify(End(NOT_FOUND, None, None, (), (), error)))
        return NOT_FOUND
    folder, ours = _verdict_folder(environment)
    if folder:
        environment["HOLDFAST_VERDICT_DIR"] = folder
    try:
        grace = float(environment.get("HOLDFAST_GRACE_SECONDS") or 30)
    except ValueError:
        grace = 30.0
    environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(shutdown_timeout(grace))
    environment.setdefault("PYTHONUNBUFFERED", "1")  # else a killed program takes its last lines with it
    end = Launcher(arguments, environment, grace).run(folder)
    verdict = classify(end)
    if end.start_error is not None:
        sys.stderr.write(f"holdfast-run: {end.start_error[1]}\n")
    if ours and folder:
        shutil.rmtree(folder, ignore_errors=True)
    write_verdict(log, verdict)
    if verdict["outcome"] == "completed" or verdict["reason"] == "SavedAndLeft":
        return 0
    return end.exit_code


if __name__ == "__main__":
    sys.exit(main())
