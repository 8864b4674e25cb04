"""`run_with_folder`: the program of a job with `checkpoint.folder`, and the process that saves what it writes there.

The writer needs Python 3.11 and the library, which the init container copies beside the launcher: the image needs
neither. It gets no signal: the launcher tells it when the program has ended.
"""

from __future__ import annotations

import json
import math
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Protocol

from holdfast_protocol import reasons, variables
from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_protocol.verdict import WRITER_SECONDS

from .library import library_command
from .program import MISCONFIGURED, Beside, Program, refusal
from .timings import USUAL, Timings
from .verdict import End
from .verdict_files import read_rank_verdicts, say

ENDED = "the process that saves checkpoint.folder ends each time that it is started: the last checkpoints are not saved"
REGROUPED = "checkpoint.folder was not saved on all nodes when the next attempt began"
AGAIN = "again"  # to a writer that takes the place of one that has ended, beside the program
AGAIN_MOST = 60.0  # the longest pause before that, in seconds


class Run(Protocol):
    """Runs a program, and calls `on_start` when it runs."""

    def __call__(self, *, on_start: Callable[[], None]) -> End:
        """How the program ended."""


def run_with_folder(program: Program, environment: dict[str, str], folder: str | None, run: Run | None = None) -> End:
    """Put the newest checkpoint back, run the program, and commit what it wrote. Must run in the main thread.

    `run` runs the program, which is `program.run` if it is not given. With several nodes, the writers of all nodes put
    back together, and commit together.
    """
    program.listen()
    program.beside = writer = FolderWriter(environment, on_leave=program.leave)
    try:
        end = writer.start(folder, program.given_up)
        if end is not None:
            return end
        if writer.newest:
            program.inform(variables.NEWEST_CHECKPOINT, writer.newest)
        writer.pass_on(lambda: program.signalled_at)
        run = run or partial(program.run, folder)
        end = run(on_start=lambda: writer.on_fenced(program.end_left))
        latest = math.inf
        if end.code != 0 and end.signalled_at is None and variables.has_several_nodes(environment):
            latest = time.monotonic() + WRITER_SECONDS  # the operator, and the other nodes, do not know of the end yet
        writer.finish(end, lambda: min(program.deadline, latest) - time.monotonic())
    finally:
        writer.kill()
        program.beside = Beside()
    ranks = read_rank_verdicts(folder)
    if end.code == 0 and all(rank.result == "running" for rank in ranks):
        if program.leaves_since is not None:  # it may have come after the end of the program
            return end._replace(ranks=ranks, signalled_at=program.leaves_since)
        saved = max((rank.saved_step for rank in ranks if rank.saved_step is not None), default=None)
        reason, why = ("FolderWriterEnded", ENDED) if program.ordered_at is None else (reasons.REGROUPED, REGROUPED)
        ranks = (RankVerdict(0, "failed", reason, why, None, saved, time.time()),)
    return end._replace(ranks=ranks)


class FolderWriter(Beside):
    """The writer process. If it ends while the program runs, another one takes its place."""

    def __init__(
        self, environment: dict[str, str], *, on_leave: Callable[[], None] = lambda: None, timings: Timings = USUAL
    ) -> None:
        """`on_leave` is called when the program has to leave: the operator, or another node, has told the writer."""
        self._environment = environment
        self._on_leave = on_leave
        self._timings = timings
        # Not a SimpleQueue: before Python 3.13 its `get` never ends if a handler of signals outlasts the timeout.
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._end_program: Callable[[], None] = lambda: None
        self._is_fenced = False
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()  # of the process and the command: every process gets the command
        self._command = ""
        self._has_ended = threading.Event()  # the program
        self._is_over = False  # no other process takes the place of this one
        self._pids: set[int] = set()  # of all processes that there were
        self.newest = ""  # the path of the checkpoint that is there when the program starts

    def processes(self) -> tuple[int, ...]:
        process = self._process
        return () if process is None or process.returncode is not None else (process.pid,)

    def has_written(self, verdict: RankVerdict) -> bool:
        return verdict.pid in self._pids

    def unchanged(self) -> AbstractContextManager[object]:
        return self._lock

    def start(self, folder: str | None, given_up: Callable[[], End | None]) -> End | None:
        """Start the writer, and wait until the program may start: None. Otherwise the end without a program.

        `given_up`: the end if the program must not start any more.
        """
        process = self._open()
        self._take(process)
        threading.Thread(target=self._keep, args=(process,), name="holdfast-folder", daemon=True).start()
        state: str | None = ""
        while state != "ready":
            with suppress(queue.Empty):
                state = self._lines.get(timeout=self._timings.folder_writer_look)
                if state != "ready":
                    return self._refused(process.wait(), folder)
            if (end := given_up()) is not None:
                self.kill()
                return end
        return None

    def _take(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._pids.add(process.pid)

    def _open(self, *arguments: str) -> subprocess.Popen[str]:
        # The writer inherits that these signals wait, until it ignores them: they are for the program.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        try:
            return subprocess.Popen(
                library_command("holdfast_train.folder.writer", *arguments),
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _refused(self, code: int, folder: str | None) -> End:
        ranks = read_rank_verdicts(folder)
        if ranks:
            return End(code, None, None, ranks)
        why = (
            f"the process that saves checkpoint.folder ended with exit code {code} before the program started; "
            f"python3 of the image must be 3.11 or newer, for Linux with glibc (this one is {sys.version.split()[0]})"
        )
        return refusal(MISCONFIGURED, "FolderWriterNotStarted", why)

    def on_fenced(self, end_program: Callable[[], None]) -> None:
        """Call `end_program` when another attempt has the fence, or has it already."""
        self._end_program = end_program
        if self._is_fenced:
            end_program()

    def finish(self, end: End, seconds_left: Callable[[], float]) -> None:
        """Let the writer commit what is complete, and wait for it as long as there is time."""
        left = seconds_left()
        command: dict[str, Any] = {"do": "finish", "signalledAt": end.signalled_at, "code": end.code}
        command["seconds"] = None if left == float("inf") else max(0.0, left)
        with self._lock:
            self._command = json.dumps(command) + "\n"
            self._tell(self._command)
        self._has_ended.set()
        while seconds_left() > 0:
            try:
                state = self._lines.get(timeout=self._timings.folder_writer_look)
            except queue.Empty:
                continue
            if state is None and not self._is_fenced:
                say(ENDED)
            if state in ("done", None):
                break
        else:
            say("the time is over before the last checkpoint of checkpoint.folder is saved")
        self.kill()

    def kill(self) -> None:
        """Kill the writer, if there is one. No other process takes its place."""
        with self._lock:
            self._is_over = True
            if self._process is not None:
                self._process.kill()

    def pass_on(self, signalled_at: Callable[[], float | None]) -> None:
        """Tell the writer when the program has got the signal to leave: the programs of all nodes have to."""
        threading.Thread(target=self._pass_on, args=(signalled_at,), name="holdfast-notice", daemon=True).start()

    def _pass_on(self, signalled_at: Callable[[], float | None]) -> None:
        while signalled_at() is None:
            if self._has_ended.wait(self._timings.folder_writer_look):
                return
        with self._lock:
            if not self._command and not self._is_over:
                self._tell(json.dumps({"do": "leave", "signalledAt": signalled_at()}) + "\n")

    def _tell(self, command: str) -> None:
        """Send a command, if it is not empty, to the process; if that has ended, the next one gets the last one."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(command)
            self._process.stdin.flush()

    def _keep(self, process: subprocess.Popen[str]) -> None:
        """Read what the writer says. If it ends too early, start another one; after the program's end only once."""
        says = self._read(process)
        pause, tries = self._timings.folder_writer_pause, 2 if "ready" in says else 0
        while tries > 0 and says[-1] not in ("fenced", "done"):
            process.wait()
            say("the process that saves checkpoint.folder has ended too early: another one takes its place")
            self._has_ended.wait(pause)
            started = time.monotonic()
            with self._lock:
                if self._is_over:
                    break
                tries -= bool(self._command)
                try:
                    process = self._open(AGAIN)
                    self._take(process)
                    self._tell(self._command)
                except OSError as error:  # the container is at its limit of processes, or of memory
                    say(f"it cannot be started ({error}); the next try follows")
            says = self._read(process)  # nothing more of one that has ended
            was_long = time.monotonic() - started > AGAIN_MOST
            pause = self._timings.folder_writer_pause if was_long else min(2 * pause, AGAIN_MOST)
        self._lines.put(None)

    def _read(self, process: subprocess.Popen[str]) -> list[str]:
        """Pass on what one process says until it ends: its states."""
        assert process.stdout is not None
        says = [""]
        for line in process.stdout:
            try:
                told = json.loads(line)
            except ValueError:  # it was killed inside of a line
                break
            if told["state"] == "leave":
                self._on_leave()
                continue
            says.append(told["state"])
            self.newest = told.get("newest", "")
            if says[-1] == "fenced":
                self._is_fenced = True
                self._end_program()
            self._lines.put(says[-1])
        return says
