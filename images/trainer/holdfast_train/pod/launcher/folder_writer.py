"""`run_with_folder`: the program of a job with `checkpoint.folder`, and the process that saves what it writes there.

The writer needs Python 3.11 and the library, which the init container copies beside the launcher: the image needs
neither. It gets no signal: the launcher tells it when the program has ended.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast_protocol import variables
from holdfast_protocol.rank_verdict import RankVerdict

from .library import library_command
from .program import MISCONFIGURED, Program, refusal
from .timings import USUAL, Timings
from .verdict import End
from .verdict_files import read_rank_verdicts, say

ENDED = "the process that saves checkpoint.folder ends each time that it is started: the last checkpoints are not saved"
AGAIN = "again"  # to a writer that takes the place of one that has ended, beside the program
AGAIN_MOST = 60.0  # the longest pause before that, in seconds


def run_with_folder(program: Program, environment: dict[str, str], folder: str | None) -> End:
    """Put the newest checkpoint back, run the program, and commit what it wrote. Must run in the main thread."""
    program.listen()
    writer = FolderWriter(environment)
    refused = writer.start(folder, lambda: program.signalled_at)
    if refused is not None:
        return refused
    if writer.newest:
        program.inform(variables.NEWEST_CHECKPOINT, writer.newest)
    program.not_of_it = writer.processes
    end = program.run(folder, on_start=lambda: writer.on_fenced(program.end_left))
    writer.finish(end, lambda: program.deadline - time.monotonic())
    ranks = read_rank_verdicts(folder)
    if end.code == 0 and end.signalled_at is None and all(rank.result == "running" for rank in ranks):
        saved = max((rank.saved_step for rank in ranks if rank.saved_step is not None), default=None)
        ranks = (RankVerdict(0, "failed", "FolderWriterEnded", ENDED, None, saved, time.time()),)
    return end._replace(ranks=ranks)


class FolderWriter:
    """The writer process. If it ends while the program runs, another one takes its place."""

    def __init__(self, environment: dict[str, str], *, timings: Timings = USUAL) -> None:
        self._environment = environment
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
        self.newest = ""  # the path of the checkpoint that is there when the program starts

    def processes(self) -> tuple[int, ...]:
        """The writer."""
        return () if self._process is None else (self._process.pid,)

    def start(self, folder: str | None, signalled_at: Callable[[], float | None]) -> End | None:
        """Start the writer, and wait until the program may start: None. Otherwise the end without a program."""
        self._process = process = self._open()
        threading.Thread(target=self._keep, args=(process,), name="holdfast-folder", daemon=True).start()
        while True:
            try:
                state = self._lines.get(timeout=self._timings.folder_writer_look)
            except queue.Empty:
                if (at := signalled_at()) is not None:
                    process.kill()
                    return End(None, signal.SIGTERM, at)
                continue
            if state == "ready":
                return None
            return self._refused(process.wait(), folder)

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
            self._tell()
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
            say("the grace is over before the last checkpoint of checkpoint.folder is saved")
        with self._lock:
            self._is_over = True
            assert self._process is not None
            self._process.kill()

    def _tell(self) -> None:
        """Send the command, if there is one, to the process; if that has ended, the next one gets it."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(self._command)
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
                    self._process = process = self._open(AGAIN)
                    self._tell()
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
            says.append(told["state"])
            self.newest = told.get("newest", "")
            if says[-1] == "fenced":
                self._is_fenced = True
                self._end_program()
            self._lines.put(says[-1])
        return says
