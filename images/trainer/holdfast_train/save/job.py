"""The saves that a writer has to do: their bytes, what is done of them, and which one is next."""

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast_train.errors import StorageError
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.save.messages import Save
from holdfast_train.save.plan import Plan
from holdfast_train.storage import checksums
from holdfast_train.timings import USUAL, Timings

_JITTER: Final = random.SystemRandom()  # not the global generator, as in `storage.retrying`


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
        """The missing bytes will not come, or the checkpoint is not wanted any more."""
        with self._changed:
            self._abandoned = why
            self._changed.notify_all()

    def mark_trainer_ended(self) -> None:
        """The trainer has ended and copies nothing more. If all bytes are copied, the upload goes on."""
        self.ended_at = time.monotonic()
        if self._ready < len(self.view):
            self.abandon("the training process ended before its state was copied")

    def wait_for(self, size: int) -> None:
        """Return when the first `size` bytes are copied. StorageError if the checkpoint is abandoned."""
        with self._changed:
            self._changed.wait_for(lambda: self._abandoned or self._ready >= size)
            if self._abandoned:
                raise StorageError(f"the checkpoint was given up: {self._abandoned}")


class Job:
    """One save as its writer does it. What a try has done stays done: the next try continues.

    `parts`: the uploaded ones, by number. `manifest`: of the first try that had all parts; later tries write the same
    bytes, because the log may already name them. `is_prepared`: the storage is ready for its data. `is_told`: rank 0
    may have read this rank's fragment. `tries`: how many have begun. `is_kept`: the last try found the storage
    unreachable, and another one follows. `is_dropped`: none follows.
    """

    def __init__(self, save: Save, plan: Plan, arriving: ArrivingBytes) -> None:
        self.save = save
        self.plan = plan
        self.arriving = arriving
        self.parts: dict[int, Part] = {}
        self._summed: dict[int, Part] = {}
        self.manifest: Manifest | None = None
        self.is_prepared = self.is_told = self.is_kept = self.is_dropped = False
        self.tries = 0

    def part(self, number: int, key: str, piece: memoryview) -> Part:
        """Part `number`, with the checksums of `piece`, which are computed once. May be called in any thread."""
        found = self._summed.get(number)
        if found is None:
            found = Part(key, len(piece), checksums.CHUNK_BYTES, checksums.chunk_sums(piece))
        return self._summed.setdefault(number, found)

    def check(self) -> None:
        """StorageError if the checkpoint is abandoned."""
        self.arriving.wait_for(0)

    def drop(self) -> None:
        """Give up this save, also in the middle of a try. May be called in any thread."""
        self.is_dropped = True
        self.arriving.abandon("a newer save takes its place, or the run is over")


class Jobs:
    """The jobs of a writer, in the order in which they came.

    At most one is kept: it is tried again `Timings.retry` after each failure. A newer job and `drop` end it, because a
    newer state is worth more than an older one, and because the trainer may need its arena.
    """

    def __init__(self, timings: Timings = USUAL, clock: Callable[[], float] = time.monotonic) -> None:
        self._timings = timings
        self._clock = clock
        self._waiting: deque[Job] = deque()
        self._kept: Job | None = None
        self._retry_at = 0.0
        self._has_ended = False
        self._changed = threading.Condition()

    def add(self, job: Job) -> None:
        """`job` is to be done after those before it. It takes the place of the kept one."""
        with self._changed:
            self._waiting.append(job)
            self._drop_kept()

    def drop(self, name: CheckpointName) -> None:
        """End the kept job if it is the save `name`."""
        with self._changed:
            if self._kept is not None and self._kept.save.name == name:
                self._drop_kept()

    def end(self) -> None:
        """No job will be added: the trainer has ended. The kept one is tried once more, at once."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def keep(self, job: Job) -> None:
        """`job`, the last one that `next` returned, has to be tried again."""
        with self._changed:
            self._kept = job
            # Random times prevent a thousand jobs from returning to a recovering store in one wave.
            self._retry_at = self._clock() + self._timings.retry * _JITTER.uniform(0.8, 1.2)
            if self._waiting:
                self._drop_kept()

    def finish(self, job: Job) -> None:
        """`job`, the last one that `next` returned, is over."""
        with self._changed:
            if self._kept is job:
                self._kept = None

    def next(self) -> Job | None:
        """Wait for the next job: the kept one if its time has come or if it was dropped. None after the last one."""
        with self._changed:
            while True:
                kept, left = self._kept, self._retry_at - self._clock()
                if kept is not None and (kept.is_dropped or self._has_ended or left <= 0):
                    return kept
                if kept is None and self._waiting:
                    return self._waiting.popleft()
                if kept is None and self._has_ended:
                    return None
                self._changed.wait(None if kept is None else left)

    def _drop_kept(self) -> None:
        if self._kept is not None:
            self._kept.drop()
        self._changed.notify_all()
