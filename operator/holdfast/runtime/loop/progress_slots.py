"""Who may write progress to status, and when: a bounded number of jobs a second over the whole cluster, in turn."""

from collections.abc import Callable, Iterable
from time import monotonic


class ProgressSlots:
    """`rate` slots a second, at most `burst` unused ones are saved up. A job that finds none queues for the next."""

    def __init__(self, rate: float, burst: float = 10.0, clock: Callable[[], float] = monotonic) -> None:
        self._interval = 1 / rate
        self._saved = burst * self._interval
        self._clock = clock
        self._next = clock() - self._saved
        self._queued: dict[str, float] = {}

    def open(self, uid: str) -> bool:
        """True if this job may write progress now."""
        now = self._clock()
        due = self._queued.get(uid)
        return due <= now if due is not None else self._next <= now

    def queued(self, uid: str) -> bool:
        """True if the job waits for its slot, so that new progress need not wake it."""
        return self._queued.get(uid, 0.0) > self._clock()

    def used(self, uid: str) -> None:
        """The job wrote progress."""
        if self._queued.pop(uid, None) is None:
            self._advance()

    def queue(self, uid: str) -> float:
        """Put the job in the line; how many seconds until its slot."""
        now = self._clock()
        if uid not in self._queued:
            self._queued[uid] = self._advance()
        return max(0.0, self._queued[uid] - now)

    def leave(self, uid: str) -> None:
        """The job has nothing to write any more, or is gone."""
        self._queued.pop(uid, None)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget jobs that are gone."""
        for uid in self._queued.keys() - set(uids):
            del self._queued[uid]

    def _advance(self) -> float:
        slot = max(self._next, self._clock() - self._saved)
        self._next = slot + self._interval
        return slot
