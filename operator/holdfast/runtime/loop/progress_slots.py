"""Turns for writing progress into status: a bounded number of jobs per second over the whole cluster."""

from collections.abc import Callable, Iterable
from time import monotonic


class ProgressSlots:
    """`rate` slots per second; at most `burst` unused slots are saved. A job that finds no slot queues for the next."""

    def __init__(self, rate: float, burst: float = 10.0, clock: Callable[[], float] = monotonic) -> None:
        self._interval = 1 / rate
        self._saved = burst * self._interval
        self._clock = clock
        self._next = clock() - self._saved
        self._queued: dict[str, float] = {}

    def may_write(self, uid: str) -> bool:
        """True if this job may write progress now."""
        now = self._clock()
        due = self._queued.get(uid)
        return due <= now if due is not None else self._next <= now

    def is_queued(self, uid: str) -> bool:
        """True if the job waits for its slot, so that new progress need not enqueue it."""
        return self._queued.get(uid, 0.0) > self._clock()

    def record_write(self, uid: str) -> None:
        """Record that the job wrote progress."""
        if self._queued.pop(uid, None) is None:
            self._advance()

    def enqueue(self, uid: str) -> float:
        """Put the job in the line, if it is not in it, and return the seconds until its slot."""
        now = self._clock()
        if uid not in self._queued:
            self._queued[uid] = self._advance()
        return max(0.0, self._queued[uid] - now)

    def leave(self, uid: str) -> None:
        """Take the job out of the line, because it has nothing to write."""
        self._queued.pop(uid, None)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget all other jobs."""
        for uid in self._queued.keys() - set(uids):
            del self._queued[uid]

    def _advance(self) -> float:
        slot = max(self._next, self._clock() - self._saved)
        self._next = slot + self._interval
        return slot
