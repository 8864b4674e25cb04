"""Token buckets: how often something may happen."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic

from holdfast.serve.fair_line import Waiters


class TokenBucket:
    """At most `rate` tokens a second in the long run, and at most `burst` at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)  # with less, there would never be a whole token
        self._clock = clock
        self._tokens = self._burst
        self._filled = clock()
        self._waiters = Waiters()

    def _fill(self) -> None:
        now = self._clock()
        # A wall clock may go back: that takes no tokens away.
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._filled) * self._rate)
        self._filled = now

    def try_acquire(self) -> bool:
        """Take a token; False if there is none."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """Put back a token that `try_acquire` took."""
        self._tokens = min(self._burst, self._tokens + 1)

    async def acquire(self, group: Hashable = None, *, first: bool = False) -> None:
        """Take a token; wait if there is none. Groups take turns; within a group, what is `first` goes before the rest,
        and otherwise the first that came is the next.
        """
        if not len(self._waiters) and self.try_acquire():
            return
        if not len(self._waiters):
            self._alarm()
        await self._waiters.wait(group, self.give_back, first=first)

    def _alarm(self) -> None:
        """Look again when there is a token."""
        seconds = max(0.0, 1 - self._tokens) / self._rate
        asyncio.get_running_loop().call_later(seconds, self._hand_out)

    def _hand_out(self) -> None:
        while len(self._waiters) and self.try_acquire():
            self._waiters.wake()
        if len(self._waiters):
            self._alarm()


class TokenBuckets:
    """One bucket for each key. At most `remembered` buckets are kept: the one unused for longest is dropped first."""

    def __init__(self, rate: float, burst: float, remembered: int, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._remembered = remembered
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def give_back(self, key: str) -> None:
        """Put back a token that `try_acquire` took."""
        if bucket := self._buckets.get(key):
            bucket.give_back()

    def try_acquire(self, key: str) -> bool:
        """Take a token of this key; False if it has none."""
        bucket = self._buckets.pop(key, None) or TokenBucket(self._rate, self._burst, self._clock)
        self._buckets[key] = bucket
        if len(self._buckets) > self._remembered:
            self._buckets.popitem(last=False)
        return bucket.try_acquire()
