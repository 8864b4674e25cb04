"""The work queue: every key at most once, one worker a key, later is possible, errors back off.

A key that is added while it is being worked on is worked on once more afterwards, however often it was added. All
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


class WorkQueue(Generic[K]):
    """Keys that wait for a worker. `clock` gives seconds and never goes back; `seed` makes the jitter repeatable."""

    def __init__(self, clock: Callable[[], float] = monotonic, seed: int | None = None) -> None:
        self._clock = clock
        self._random = random.Random(seed)  # noqa: S311 - jitter, not a secret
        self._waiting: dict[K, float] = {}  # in the order of arrival; when it became due
        self._busy: dict[K, float | None] = {}  # being worked on; when it became dirty meanwhile
        self._failures: dict[K, int] = {}
        self._later: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._wake = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def scheduled(self) -> int:
        """How many keys are to come back later."""
        return len(self._later)

    @property
    def busy(self) -> int:
        """How many keys are being worked on."""
        return len(self._busy)

    @property
    def oldest(self) -> float:
        """How long the key that has waited longest has waited, in seconds; 0 if none waits."""
        return max(0.0, self._clock() - next(iter(self._waiting.values()))) if self._waiting else 0.0

    def add(self, key: K) -> None:
        """Work on this key as soon as a worker is free."""
        now = self._clock()
        if key in self._busy:
            if self._busy[key] is None:
                self._busy[key] = now
        elif key not in self._waiting:
            self._waiting[key] = now
            self._wake.set()

    def after(self, key: K, delay: float) -> None:
        """Work on this key in `delay` seconds, or earlier if it is already due earlier."""
        if delay <= 0:
            self.add(key)
            return
        due = self._clock() + delay
        if due < self._later.get(key, float("inf")):
            self._later[key] = due
            self._count += 1
            heapq.heappush(self._heap, (due, self._count, key))
            self._wake.set()

    async def get(self) -> K | None:
        """The next key; it stays with the caller until `done` or `failed`. None once the queue is closed."""
        while not self._closed:
            self._promote()
            if self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                self._busy[key] = None
                if self._waiting:
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

    def forget(self, key: K) -> None:
        """Nothing more is to be done for this key, now or later."""
        self._waiting.pop(key, None)
        self._later.pop(key, None)
        self._failures.pop(key, None)
        if key in self._busy:
            self._busy[key] = None

    def close(self) -> None:
        """No further key is given out; waiting workers get None."""
        self._closed = True
        self._wake.set()

    def _free(self, key: K) -> None:
        dirty = self._busy.pop(key, None)
        if dirty is not None:
            self._waiting[key] = dirty
            self._wake.set()

    def _promote(self) -> None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._later.get(key) == due:
                del self._later[key]
                self.add(key)
