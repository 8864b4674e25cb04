"""Bytes that are still being copied into the arena while others are uploaded."""

import math
import threading
import time

from holdfast_train.errors import (
    StorageError,
)

__all__ = ["Source"]


class Source:
    """Bytes that become ready from the front on, while somebody copies them."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self._ready = 0
        self._gone = ""
        self.ended_at = math.inf
        self._changed = threading.Condition()

    def has(self, size: int) -> None:
        """The first `size` bytes are there."""
        with self._changed:
            self._ready = max(self._ready, size)
            self._changed.notify_all()

    def abandon(self, why: str) -> None:
        """The rest will not come."""
        with self._changed:
            self._gone = why
            self._changed.notify_all()

    def end(self) -> None:
        """Training has ended, and nobody copies any more: if all is there, that does not matter."""
        self.ended_at = time.monotonic()
        if self._ready < len(self.view):
            self.abandon("its training has ended before its state was copied")

    def wait_for(self, size: int) -> None:
        """Return when the first `size` bytes are there. StorageError if they will not come."""
        with self._changed:
            self._changed.wait_for(lambda: self._gone or self._ready >= size)
            if self._gone:
                raise StorageError(f"the checkpoint was given up: {self._gone}")
