"""The work queue: every key at most once, one worker a key, later is possible, errors back off.

A key that is added while it is being worked on is worked on once more afterwards, however often it was added. What is
calm goes last, so that in a burst new jobs get their pods before the status of old ones is brought up to date. All
methods but `get` return at once; use the queue inside one event loop.
"""

import asyncio
import heapq
import random
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_DELAY = 0.05  # seconds
LONGEST_DELAY = 60.0
CALM_WAIT = 5.0  # seconds that a calm key waits behind others at most


class WorkQueue(Generic[K]):
    """Keys that wait for a worker. `clock` gives seconds and never goes back; `seed` makes the jitter repeatable."""

    def __init__(self, clock: Callable[[], float] = monotonic, seed: int | None = None) -> None:
        self._clock = clock
        self._random = random.Random(seed)  # noqa: S311 - jitter, not a secret
        self._waiting: dict[K, float] = {}  # in the order of arrival; when it became due
        self._calm: dict[K, float] = {}  # the same, for keys that are not urgent
        self._busy: dict[K, float | None] = {}  # being worked on; when it became dirty meanwhile
        self._failures: dict[K, int] = {}
        self._later: dict[tuple[K, bool], float] = {}  # by key and calm: when it is due
        self._heap: list[tuple[float, int, K, bool]] = []
        self._count = 0
        self._wake = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._calm)

    @property
    def scheduled(self) -> int:
        """How many keys are to come back later."""
        return len({key for key, _ in self._later})

    @property
    def busy(self) -> int:
        """How many keys are being worked on."""
        return len(self._busy)

    @property
    def oldest(self) -> float:
        """How long the key that has waited longest has waited, in seconds; 0 if none waits."""
        now = self._clock()
        return max((now - next(iter(line.values())) for line in (self._waiting, self._calm) if line), default=0.0)

    def add(self, key: K) -> None:
        """Work on this key as soon as a worker is free."""
        now = self._clock()
        if key in self._busy:
            if self._busy[key] is None:
                self._busy[key] = now
        elif key not in self._waiting:
            self._waiting[key] = self._calm.pop(key, now)
            self._wake.set()

    def after(self, key: K, delay: float, *, calm: bool = False) -> None:
        """Work on this key in `delay` seconds, or earlier if it is already due earlier.

        A `calm` key then lets others pass, for `CALM_WAIT` seconds at most.
        """
        if delay <= 0:
            self.add(key)
            return
        due = self._clock() + delay
        if due < self._later.get((key, calm), float("inf")):
            self._later[key, calm] = due
            self._count += 1
            heapq.heappush(self._heap, (due, self._count, key, calm))
            self._wake.set()

    async def get(self) -> K | None:
        """The next key; it stays with the caller until `done` or `failed`. None once the queue is closed."""
        while not self._closed:
            self._promote()
            if line := self._line():
                key = next(iter(line))
                del line[key]
                self._busy[key] = None
                if len(self):
                    self._wake.set()
                return key
            self._wake.clear()
            timeout = max(0.0, self._heap[0][0] - self._clock()) if self._heap else None
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                continue
        return None

    def done(self, key: K) -> None:
        """The work on this key succeeded."""
        self._failures.pop(key, None)
        self._free(key)

    def failed(self, key: K, at_least: float = 0.0) -> float:
        """The work failed: it comes back after a delay, in seconds and returned, that doubles with every failure."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = min(LONGEST_DELAY, FIRST_DELAY * float(2 ** min(count, 20))) * self._random.uniform(0.75, 1.25)
        delay = max(delay, at_least)
        dirty = self._busy.pop(key, None)
        # What made it dirty must not skip the back-off, or a hot object would turn every error into a busy loop.
        self.after(key, delay if dirty is None or at_least else min(delay, 1.0))
        return delay

    def close(self) -> None:
        """No further key is given out; waiting workers get None."""
        self._closed = True
        self._wake.set()

    def _line(self) -> dict[K, float]:
        """The line whose first key is next."""
        calm = self._calm and self._clock() - next(iter(self._calm.values())) >= CALM_WAIT
        return self._calm if calm or not self._waiting else self._waiting

    def _free(self, key: K) -> None:
        dirty = self._busy.pop(key, None)
        if dirty is not None:
            self._waiting[key] = dirty
            self._wake.set()

    def _promote(self) -> None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            due, _, key, calm = heapq.heappop(self._heap)
            if self._later.get((key, calm)) == due:
                del self._later[key, calm]
                if not calm or key in self._busy:
                    self.add(key)
                elif key not in self._waiting:
                    self._calm.setdefault(key, now)
