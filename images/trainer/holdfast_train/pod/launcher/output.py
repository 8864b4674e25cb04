"""`Tee`: what the program prints goes on to the container's log, and its last lines are kept."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from typing import Any

LINES, LINE_BYTES = 120, 512  # enough for the report of torchrun, and for what the program has written before it


class Tee:
    """Copies a pipe to a file descriptor and keeps its last lines, in bounded memory."""

    def __init__(self, source: Any, target: int) -> None:
        self.lines: collections.deque[str] = collections.deque(maxlen=LINES)
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
