"""A progress bar on a terminal, and nothing elsewhere."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Final, Self

WIDTH: Final = 30
EVERY: Final = 0.1  # seconds between two updates


def format_size(count: float) -> str:
    """`1.5 GiB`."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while count >= 1023.95 and len(units) > 1:
        count /= 1024
        units.pop(0)
    return f"{count:.0f} B" if units[0] == "B" else f"{count:.1f} {units[0]}"


def format_count(count: float) -> str:
    """`12,000`."""
    return f"{count:,.0f}"


class ProgressBar:
    """Shows on standard error how much is done. Any thread may call `advance`.

    `shown`: how an amount is written, by default in bytes.
    """

    def __init__(self, what: str, shown: Callable[[float], str] = format_size) -> None:
        self._what = what
        self._format = shown
        self._total = 1
        self._done = 0
        self._began = self._shown_at = 0.0
        self._lock = threading.Lock()
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("\r\x1b[K")

    def begin(self, total: int | None, what: str = "") -> Callable[[int], None]:
        """Begin at 0 of `total`, once more if the first checkpoint was corrupt. Return `advance`.

        `total`: None if it is not known. `what`: another name of what is done now.
        """
        self._what = what or self._what
        self._total, self._done, self._began = 0 if total is None else max(total, 1), 0, time.monotonic()
        return self.advance

    def advance(self, count: int) -> None:
        """`count` more is done."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if not self._is_shown or now < self._shown_at + EVERY:
                return
            self._shown_at = now
            done, rate = self._format(self._done), self._format(self._done / max(now - self._began, 1e-3))
            part = min(self._done / self._total, 1.0) if self._total else 0.0
            filled = f"{'━' * round(part * WIDTH):<{WIDTH}} {part:4.0%}  " if self._total else ""
            self._write(f"\r\x1b[K{self._what} {filled}{done}  {rate}/s")

    def _write(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(text)
            sys.stderr.flush()
