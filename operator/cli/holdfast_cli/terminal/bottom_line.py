"""One line that stays below the lines of a log on a terminal, and is rewritten in place."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rich.text import Text

from holdfast_cli.terminal.console import console

PERIOD: Final = 0.25  # seconds between two drawings; what is written meanwhile waits for the next one
MOST_WAITING: Final = 1024 * 1024  # bytes that wait; more of them are written at once
# The cursor rests at the start of the line. So the erasing also finds a line that a narrower terminal has wrapped.
_ERASE: Final = b"\r\x1b[J"
# The terminal keeps the cursor and the colours that the program has set, and has them again after the line.
_KEEP, _PLAIN, _BACK = b"\x1b7", b"\x1b[m", b"\x1b8"


class BottomLine:
    """Takes whole lines for standard output, and shows `words` below them. None shows nothing.

    The bytes of the lines are not changed. They come at most PERIOD seconds later, and at the same time as the line.
    """

    def __init__(self, words: Callable[[], Text | None]) -> None:
        self._words = words
        self._out = sys.stdout.buffer
        self._console = console()
        self._waiting = bytearray()
        self._drawn = b""
        self._due = 0.0  # by the monotonic clock

    def write(self, lines: bytes) -> None:
        """Take lines, each with its end."""
        self._waiting += lines
        if len(self._waiting) > MOST_WAITING:
            self.clear()

    def flush(self) -> None:
        """Show what was taken, and the line as it is now, unless both were drawn just now."""
        now = time.monotonic()
        if now >= self._due and ((line := self._line()) != self._drawn or self._waiting):
            self._due = now + PERIOD
            self._draw(line)

    def clear(self) -> None:
        """Show what was taken, without the line."""
        self._draw(b"")

    def close(self, *, stays: bool) -> None:
        """Show what was taken. The line becomes the last one of the log if it `stays`; otherwise it is erased."""
        line = self._line() if stays else b""
        self._draw(line and line + b"\n")

    def _line(self) -> bytes:
        """The bytes that draw the line, cut at the width that the terminal has now."""
        words = self._words()
        if words is None:
            return b""
        with suppress(OSError):  # COLUMNS may be of another terminal
            self._console.width = os.get_terminal_size(self._out.fileno()).columns or self._console.width
        with self._console.capture() as shown:
            self._console.print(words, end="", no_wrap=True, overflow="ellipsis")
        return _KEEP + _PLAIN + shown.get().encode() + _BACK

    def _draw(self, line: bytes) -> None:
        data = (_ERASE if self._drawn else b"") + self._waiting + line
        self._waiting, self._drawn = bytearray(), line
        self._out.write(data)
        self._out.flush()


def has_bottom_line() -> bool:
    """True if standard output and standard error are the same terminal, and it can move its cursor."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()) or console().is_dumb_terminal:
        return False
    return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
