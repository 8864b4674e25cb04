"""Bytes of an arena that are uploaded while later ones are still being copied into it."""

import math
import threading
import time

from holdfast_train.errors import StorageError

__all__ = ["ArrivingBytes"]


class ArrivingBytes:
    """The bytes of `view`, which another process copies from front to back.

    `ended_at`: when the trainer ended, in seconds of time.monotonic(); infinite while it runs. `sums`: of the trainer's
    `Sample`, once all bytes are copied.
    """

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.sums = ""
        self._ready = 0
        self._abandoned = ""
        self.ended_at = math.inf
        self._changed = threading.Condition()

    def mark_ready(self, size: int, sums: str = "") -> None:
        """The first `size` bytes are copied."""
        with self._changed:
            self.sums = sums
            self._ready = max(self._ready, size)
            self._changed.notify_all()

    def abandon(self, why: str) -> None:
        """The missing bytes will not come."""
        with self._changed:
            self._abandoned = why
            self._changed.notify_all()

    def mark_trainer_ended(self) -> None:
        """The trainer has ended and copies nothing more. If all bytes are copied, the upload goes on."""
        self.ended_at = time.monotonic()
        if self._ready < len(self.view):
            self.abandon("the training process ended before its state was copied")

    def wait_for(self, size: int) -> None:
        """Return when the first `size` bytes are copied. StorageError if they will not come."""
        with self._changed:
            self._changed.wait_for(lambda: self._abandoned or self._ready >= size)
            if self._abandoned:
                raise StorageError(f"the checkpoint was given up: {self._abandoned}")
