"""A bar of bytes on a terminal, and nothing elsewhere."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Final, Self

__all__ = ["Bar", "size_of"]

WIDTH: Final = 30
EVERY: Final = 0.1  # seconds


def size_of(count: float) -> str:
    """`1.5 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


class Bar:
    """Shows on standard error how many of some bytes are done. `advance` may be called in any thread."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._total = 1
        self._done = 0
        self._began = self._shown_at = 0.0
        self._lock = threading.Lock()
        self._shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("\r\x1b[K")

    def begin(self, total: int) -> Callable[[int], None]:
        """From nothing, also if there was something: what was done may have been for nothing. Gives `advance`."""
        self._total, self._done, self._began = max(total, 1), 0, time.monotonic()
        return self.advance

    def advance(self, count: int) -> None:
        """`count` more bytes are done."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if not self._shown or now < self._shown_at + EVERY:
                return
            self._shown_at = now
            part = min(self._done / self._total, 1.0)
            rate = self._done / max(now - self._began, 1e-3)
            filled = "━" * round(part * WIDTH)
            self._write(f"\r\x1b[K{self._what} {filled:<{WIDTH}} {part:4.0%}  {size_of(self._done)}  {size_of(rate)}/s")

    def _write(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(text)
            sys.stderr.flush()
