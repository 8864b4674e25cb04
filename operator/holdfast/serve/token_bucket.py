"""Token buckets: how often something may happen."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic


class TokenBucket:
    """At most `rate` tokens a second in the long run, and at most `burst` at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._filled = clock()

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

    async def acquire(self) -> None:
        """Take a token. Callers wait for theirs in the order in which they came."""
        self._fill()
        self._tokens -= 1
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._rate)


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
