"""The work queue: each key at most once, one worker per key, delays, and back-off after errors.

Groups of keys (namespaces) take turns and share the workers, so that a group with many keys does not hold up the
others. A key that is added while a worker has it is worked on once more afterwards, however often it was added. A calm
key is a key that may wait: it is given out only in a lull, when no urgent key waits, is worked on, or was a moment ago.
So in a burst all new jobs get their pods before the status of old jobs is updated. All methods except `get` return at
once; use the queue inside one event loop.
"""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

from holdfast.serve.fair_line import FairLine, Places

K = TypeVar("K", bound=Hashable)

FIRST_DELAY = 0.05  # seconds
LONGEST_DELAY = 60.0
LULL = 0.1  # seconds without an urgent key until a calm key is given out
CALM_WAIT = 5.0  # the longest time in seconds that a calm key waits behind urgent ones


@dataclass(slots=True)
class _Work:
    """A key that a worker has, and when the key was added again since then: as urgent (`dirty`) or as calm."""

    urgent: bool
    dirty: float | None = None
    calm: float | None = None


class WorkQueue(Generic[K]):
    """Keys that wait for a worker.

    `clock` returns seconds and never goes back; `seed` makes the jitter repeatable; `group_of` has the group of a key:
    without it, all keys are one group. `workers`: how many there are, if groups share them.
    """

    def __init__(
        self,
        clock: Callable[[], float] = monotonic,
        seed: int | None = None,
        group_of: Callable[[K], Hashable] = lambda key: None,
        workers: float = float("inf"),
    ) -> None:
        self._clock = clock
        self._random = random.Random(seed)  # noqa: S311 - jitter, not a secret
        self._group_of = group_of
        self._workers = Places(workers)
        self._waiting: FairLine[K] = FairLine(group_of)  # urgent keys, since they became due
        self._calm: FairLine[K] = FairLine(group_of)
        self._busy: dict[K, _Work] = {}
        self._urgent = 0  # how many of the busy keys are urgent
        self._lull_since = float("-inf")  # when the last urgent key was done
        self._failures: dict[K, int] = {}
        self._later: dict[tuple[K, bool], float] = {}  # (key, calm) -> when it is due
        self._heap: list[tuple[float, int, K, bool]] = []
        self._calm_next = False
        self._taken_at = float("-inf")  # when the last key was given out
        self._count = 0
        self._sleepers: deque[asyncio.Future[None]] = deque()
        self._alarm: tuple[float, asyncio.TimerHandle] | None = None  # when a sleeper must wake even without a new key
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._calm)

    @property
    def scheduled(self) -> int:
        """Number of keys that are scheduled for later."""
        return len({key for key, _ in self._later})

    @property
    def busy(self) -> int:
        """Number of keys that workers have."""
        return len(self._busy)

    @property
    def urgent(self) -> bool:
        """True while an urgent key waits or is worked on."""
        return bool(len(self._waiting) or self._urgent)

    @property
    def oldest(self) -> float:
        """The longest wait of a key in seconds; 0 if none waits."""
        now = self._clock()
        return max(0.0, now - min(self._waiting.oldest(), self._calm.oldest()))

    @property
    def stalled(self) -> float:
        """For how many seconds keys wait and none was given out; 0 if none waits."""
        return min(self.oldest, self._clock() - self._taken_at)

    def add(self, key: K) -> None:
        """Work on this key as soon as a worker is free."""
        now = self._clock()
        if work := self._busy.get(key):
            work.dirty = now if work.dirty is None else work.dirty
        elif key not in self._waiting:
            since = self._calm.remove(key)
            self._waiting.put(key, now if since is None else since)
            self._rouse()

    def after(self, key: K, delay: float, *, calm: bool = False) -> None:
        """Work on this key in `delay` seconds, or earlier if it is already due earlier.

        A `calm` key then lets urgent keys pass, for at most `CALM_WAIT` seconds.
        """
        if delay <= 0:
            self.add(key)
            return
        due = self._clock() + delay
        if due < self._later.get((key, calm), float("inf")):
            self._later[key, calm] = due
            self._count += 1
            heapq.heappush(self._heap, (due, self._count, key, calm))
            self._rouse()

    async def get(self) -> K | None:
        """The next key; it stays with the caller until `done` or `failed`. None once the queue is closed."""
        while not self._closed:
            self._promote()
            line = self._line()
            if line is not None:
                key = line.take(self._workers.may_take)
                self._workers.take(self._group_of(key))
                urgent = line is self._waiting
                self._busy[key] = _Work(urgent)
                self._taken_at = self._clock()
                self._urgent += urgent
                self._calm_next = urgent
                self._rouse()
                return key
            await self._sleep()
        return None

    async def _sleep(self) -> None:
        """Wait until there may be work for this worker. Only one worker is woken at a time."""
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        self._rouse()
        try:
            await sleeper
        except asyncio.CancelledError:
            if not sleeper.cancelled():  # it was woken for work that another worker must do now
                self._rouse()
            raise

    def _rouse(self) -> None:
        """Wake one sleeping worker: now if there is work for it, otherwise when there will be."""
        at, now = self._next(), self._clock()
        if at <= now:
            self._wake_one()
        elif at < float("inf") and not (self._alarm and self._alarm[0] <= at):
            if self._alarm:
                self._alarm[1].cancel()
            self._alarm = (at, asyncio.get_running_loop().call_later(at - now, self._ring))

    def _wake_one(self) -> None:
        while self._sleepers:
            sleeper = self._sleepers.popleft()
            if not sleeper.done():  # a cancelled worker leaves its future in the line
                sleeper.set_result(None)
                return

    def _ring(self) -> None:
        self._alarm = None
        self._rouse()

    def done(self, key: K) -> None:
        """Record that the work on this key succeeded."""
        self._failures.pop(key, None)
        self._free(key)

    def failed(self, key: K, at_least: float = 0.0) -> float:
        """Record that the work failed, and return the delay in seconds until the next try; each failure doubles it."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = min(LONGEST_DELAY, FIRST_DELAY * float(2 ** min(count, 20))) * self._random.uniform(0.75, 1.25)
        delay = max(delay, at_least)
        work = self._release(key)
        # A key that was added again must not skip the back-off: an object that changes often would loop on its error.
        self.after(key, delay if work.dirty is None or at_least else min(delay, 1.0))
        return delay

    def close(self) -> None:
        """Give out no more keys; waiting workers get None."""
        self._closed = True
        if self._alarm:
            self._alarm[1].cancel()
        while self._sleepers:
            self._wake_one()

    def _line(self) -> FairLine[K] | None:
        """The line that has the next key, None if no key is given out now. If a calm key has waited for too long, the
        two lines take turns.
        """
        urgent = self._waiting.has_next(self._workers.may_take)
        if self._calm.has_next(self._workers.may_take) and self._calm_at() <= self._clock():
            return self._calm if self._calm_next or not urgent else self._waiting
        return self._waiting if urgent else None

    def _calm_due(self) -> float:
        """When the first calm key has waited for `CALM_WAIT`; infinite if none waits."""
        return self._calm.oldest() + CALM_WAIT

    def _calm_at(self) -> float:
        """When a calm key may be given out if no urgent key comes."""
        return self._calm_due() if self.urgent else min(self._lull_since + LULL, self._calm_due())

    def _next(self) -> float:
        """When there will be work if no key is added before; infinite if never."""
        if self._waiting.has_next(self._workers.may_take):
            return float("-inf")
        later = self._heap[0][0] if self._heap else float("inf")
        return min(later, self._calm_at()) if self._calm.has_next(self._workers.may_take) else later

    def _release(self, key: K) -> _Work:
        """Take the key from its worker."""
        work = self._busy.pop(key)
        self._workers.leave(self._group_of(key))
        self._urgent -= work.urgent
        if work.urgent:
            self._lull_since = self._clock()
        self._rouse()
        return work

    def _free(self, key: K) -> None:
        work = self._release(key)
        if work.dirty is not None:
            self._waiting.put(key, work.dirty)
        elif work.calm is not None:
            self._calm.put(key, work.calm)
        else:
            return
        self._rouse()

    def _promote(self) -> None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            due, _, key, calm = heapq.heappop(self._heap)
            if self._later.get((key, calm)) == due:
                del self._later[key, calm]
                if not calm:
                    self.add(key)
                elif work := self._busy.get(key):
                    work.calm = now if work.calm is None else work.calm
                elif key not in self._waiting:
                    self._calm.put(key, now)
