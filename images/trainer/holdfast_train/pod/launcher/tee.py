"""`Tee`: what the program prints goes on to the container's log, and its last lines are kept.

`plain`: text of a program as people read it, without what a terminal does with it.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import os
import re
import select
import struct
import termios
import threading
import time
from collections.abc import Callable
from typing import Any

OnData = Callable[[bytes], None]
PAUSE = 0.005  # seconds between two looks whether a pipe is empty
LINE_END = 128  # of a longer line: a command that failed may be long, and its exit code comes after it
LINES, LINE_BYTES = 400, 512  # enough for the report of torchrun, and before it for a traceback of each rank of a node
# Colours and movements of the cursor, titles of windows, other sequences, and control characters but the tab. The zeros
# of UTF-16 go too, so its Latin letters can be read.
_NOT_SHOWN = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|\x1b[@-Z\\^_]"
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)


def plain(text: str) -> str:
    """`text` without sequences and characters that a terminal does not show."""
    return _NOT_SHOWN.sub("", text)


class Tee:
    """Copies a pipe to a file descriptor and keeps its last lines, in bounded memory."""

    def __init__(self, source: Any, target: int, on_data: OnData | None = None) -> None:
        """`on_data` gets all that is read, in the thread that passes it on, and must not block. It may be replaced."""
        self.lines: collections.deque[str] = collections.deque(maxlen=LINES)
        self._source, self._target = source, target
        self.on_data = on_data
        self._partial = b""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, args=(source,), name=f"tee-{target}", daemon=True)
        self._thread.start()

    def _run(self, source: Any) -> None:
        waiting = select.poll()
        waiting.register(source, select.POLLIN)
        with contextlib.suppress(OSError):
            while True:
                waiting.poll()
                with self._lock:  # so that what was read is kept, or is still in the pipe
                    data = os.read(source.fileno(), 65536)
                    self._keep(data)
                if not data:
                    break
                if (on_data := self.on_data) is not None:
                    on_data(data)
                with contextlib.suppress(OSError):  # the output has no reader any more: the program must not stop
                    while data:
                        data = data[os.write(self._target, data) :]

    def _keep(self, data: bytes) -> None:
        # A progress line is rewritten with "\r": each rewrite replaces the one before it.
        *complete, rest = (self._partial + data).split(b"\n")
        for line in complete:
            self._append(line)
        self._partial = rest if len(rest) <= 4 * LINE_BYTES else rest[: 3 * LINE_BYTES] + rest[-LINE_BYTES:]

    def _append(self, line: bytes) -> None:
        data = line.rstrip(b"\r").split(b"\r")[-1]
        if len(data) > 4 * LINE_BYTES:
            data = data[: 3 * LINE_BYTES] + data[-LINE_BYTES:]
        text = plain(data.decode("utf-8", "replace")).rstrip()
        if len(text) > LINE_BYTES:
            text = text[: LINE_BYTES - LINE_END - 1] + "…" + text[-LINE_END:]
        if text:
            self.lines.append(text)

    def recent(self) -> tuple[str, ...]:
        """The last complete lines. Any thread may call this."""
        with self._lock:
            return tuple(self.lines)

    def turn_page(self, seconds: float) -> tuple[str, ...]:
        """The last lines of a program that is stopped, within `seconds`; they do not count again after that."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self._lock:
                (waiting,) = struct.unpack("i", fcntl.ioctl(self._source, termios.FIONREAD, bytes(4)))
            if not waiting:
                break
            time.sleep(PAUSE)
        with self._lock:
            self._append(self._partial)
            self._partial, found = b"", tuple(self.lines)
            self.lines.clear()
            return found

    def finish(self, seconds: float) -> tuple[str, ...]:
        """The last lines, after the end of the pipe or after `seconds`; an unfinished line counts."""
        self._thread.join(seconds)
        self._append(self._partial)
        return tuple(self.lines)
