"""`KeptLog`: the log of this container beside the checkpoints of its job, where it outlives the pod and its node.

All that the processes of the container write passes through a pipe, which a thread reads: it goes on to the container's
log, and its last lines are kept. A process of the library stores them: when the launcher ends, and meanwhile now and
then if there is something new, so that a node that is lost without a notice takes only its last minutes along.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from holdfast_protocol import settings, variables
from holdfast_protocol.rank_verdict import RankVerdict

from .kept_lines import KeptLines, compressed
from .library import ask_library
from .program import MARGIN_SECONDS, Log
from .room import has_room
from .timings import USUAL, Timings
from .verdict_files import read_rank_verdicts, say

MODULE = "holdfast_train.pod.kept_logs"
NOT_KEPT = "the log of this pod is not kept beside the checkpoints"
STREAMS = (1, 2)
DRAIN_SECONDS = 1.0  # for what is still in the pipes at the end
LAST_SECONDS = 10.0  # for the last storing: the end of the pod waits for it
NEXT_SECONDS = 60.0  # for one beside the program
PROCESS_BYTES = 256 << 20  # of memory that the process may take beside the program


class KeptLog(Log):
    """Keeps what the container writes inside of a `with` block, and stores it at the end."""

    def __init__(self, environment: Mapping[str, str], timings: Timings = USUAL) -> None:
        self._environment = dict(environment)
        self._timings = timings
        self._lines = KeptLines()
        self._folder: str | None = None
        self._python = ""  # of a rank with the library
        self._deadline = math.inf
        # SIGTERM may come meanwhile, and then its grace has to be enough.
        self._last_seconds = min(LAST_SECONDS, settings.read(environment).grace - MARGIN_SECONDS)
        self._container: dict[int, int] = {}  # by stream: where it goes
        self._threads: list[threading.Thread] = []
        self._storing = threading.Thread(target=self._store_now_and_then, daemon=True)
        self._is_over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._stored = 0  # how many bytes had been written when they were stored last

    def __enter__(self) -> KeptLog:
        over, self._over = os.pipe()
        for stream in STREAMS:
            source, sink = os.pipe()
            self._container[stream] = os.dup(stream)
            os.dup2(sink, stream)
            os.close(sink)
            self._threads.append(threading.Thread(target=self._copy, args=(stream, source, over), daemon=True))
        for thread in (*self._threads, self._storing):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream, container in self._container.items():
            os.dup2(container, stream)
        self._is_over.set()
        os.close(self._over)
        for thread in self._threads:
            thread.join(DRAIN_SECONDS)
        if (process := self._process) is not None:
            process.kill()  # what it stores is older, and would replace what is stored now
        self._storing.join(DRAIN_SECONDS)
        try:
            self._store(min(self._last_seconds, self._deadline - time.monotonic()))
        except OSError as error:
            say(f"{NOT_KEPT}: {error}")

    def begins(self, folder: str | None) -> None:
        self._folder = folder

    def ends(self, ranks: Sequence[RankVerdict], deadline: float) -> None:
        self._folder = None
        self._deadline = deadline
        self._note_python(ranks)

    def processes(self) -> tuple[int, ...]:
        process = self._process
        return () if process is None else (process.pid,)

    def _note_python(self, ranks: Sequence[RankVerdict]) -> None:
        self._python = next((rank.python for rank in ranks if rank.python), self._python)

    def _copy(self, stream: int, source: int, over: int) -> None:
        """Pass on what is written to a stream until it is closed, or `over` is and nothing is left."""
        waiting = select.poll()
        waiting.register(source, select.POLLIN)
        waiting.register(over, select.POLLIN)
        while source in dict(waiting.poll()):
            data = os.read(source, 65536)
            if not data:
                break
            self._lines.add(stream, data)
            with contextlib.suppress(OSError):  # the log has no reader any more: the program must not stop
                while data:
                    data = data[os.write(self._container[stream], data) :]

    def _store_now_and_then(self) -> None:
        while not self._is_over.wait(self._timings.log_pause):
            if self._lines.count > self._stored and has_room(PROCESS_BYTES):
                self._note_python(read_rank_verdicts(self._folder))
                try:
                    self._store(NEXT_SECONDS)
                except OSError as error:
                    if not self._is_over.is_set():
                        say(f"{NOT_KEPT} now: {error}")

    def _store(self, seconds: float) -> None:
        """Store the lines that there are, within so many seconds. OSError, in words, if that fails."""
        count = self._lines.count
        header = {"v": 1, "pod": self._environment.get(variables.POD_NAME, ""), "cut": self._lines.is_cut}
        body = compressed(json.dumps(header).encode() + b"\n") + self._lines.content()
        try:
            ask_library(MODULE, body, self._python, self._environment, seconds=seconds, on_start=self._note_process)
            self._stored = count
        finally:
            self._process = None

    def _note_process(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
