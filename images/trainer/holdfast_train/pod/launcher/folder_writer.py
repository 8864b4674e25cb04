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
from pathlib import Path
from typing import Any

from .program import MISCONFIGURED, Program, refusal
from .verdict import End, RankVerdict
from .verdict_files import read_rank_verdicts, say

LIBRARY = "library"  # the folder beside the launcher
ENDED = "the process that saves checkpoint.folder ended before the program: its last checkpoints are not saved"
OVER = ("refused", "fenced", "done")  # the last word of the writer
LOOK_SECONDS = 0.2  # between two looks whether a signal came
START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from holdfast_train.folder.writer import main; sys.exit(main())"
)


def run_with_folder(program: Program, environment: dict[str, str], folder: str | None) -> End:
    """Put the newest checkpoint back, run the program, and commit what it wrote. Must run in the main thread."""
    program.listen()
    writer = FolderWriter(environment)
    refused = writer.start(folder, lambda: program.signalled_at)
    if refused is not None:
        return refused
    end = program.run(folder, on_start=lambda: writer.on_fenced(program.end_left))
    writer.finish(end, lambda: program.deadline - time.monotonic())
    ranks = read_rank_verdicts(folder)
    if end.code == 0 and end.signalled_at is None and all(rank.result == "running" for rank in ranks):
        saved = max((rank.saved_step for rank in ranks if rank.saved_step is not None), default=None)
        ranks = (RankVerdict(0, "failed", "FolderWriterEnded", ENDED, None, saved, time.time()),)
    return end._replace(ranks=ranks)


class FolderWriter:
    """The writer process."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._end_program: Callable[[], None] = lambda: None
        self._is_fenced = False
        self._process: subprocess.Popen[str] | None = None

    def start(self, folder: str | None, signalled_at: Callable[[], float | None]) -> End | None:
        """Start the writer, and wait until the program may start: None. Otherwise the end without a program."""
        library = str(Path(sys.argv[0]).resolve().parent / LIBRARY)
        # The writer inherits that these signals wait, until it ignores them: they are for the program.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, library],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        threading.Thread(target=self._read, name="holdfast-folder", daemon=True).start()
        while True:
            try:
                state = self._lines.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if (at := signalled_at()) is not None:
                    self._process.kill()
                    return End(None, signal.SIGTERM, at)
                continue
            if state == "ready":
                return None
            return self._refused(folder)

    def _refused(self, folder: str | None) -> End:
        assert self._process is not None
        code = self._process.wait()
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
        assert self._process is not None
        assert self._process.stdin is not None
        left = seconds_left()
        command: dict[str, Any] = {"signalledAt": end.signalled_at, "code": end.code}
        command["seconds"] = None if left == float("inf") else max(0.0, left)
        try:
            self._process.stdin.write(json.dumps({"do": "finish", **command}) + "\n")
            self._process.stdin.flush()
        except OSError:
            say(ENDED)
            return
        while seconds_left() > 0:
            try:
                if self._lines.get(timeout=LOOK_SECONDS) in ("done", None):
                    break
            except queue.Empty:
                continue
        else:
            say("the grace is over before the last checkpoint of checkpoint.folder is saved")
        self._process.kill()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        is_over = False
        for line in self._process.stdout:
            state = json.loads(line)["state"]
            if state == "fenced":
                self._is_fenced = True
                self._end_program()
            self._lines.put(state)
            is_over = state in OVER
        if not is_over:
            say("the process that saves checkpoint.folder has ended: the program runs on, and is not saved")
        self._lines.put(None)
