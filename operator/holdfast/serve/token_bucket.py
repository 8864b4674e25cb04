"""Token buckets: how often something may happen."""

import asyncio
from collections.abc import Callable
from time import monotonic


class TokenBucket:
    """At most `rate` a second in the long run, and at most `burst` at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._filled = clock()

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
        self._filled = now

    @property
    def available(self) -> bool:
        """True if `try_acquire` would succeed now."""
        self._fill()
        return self._tokens >= 1

    def try_acquire(self) -> bool:
        """Take a token if there is one."""
        if not self.available:
            return False
        self._tokens -= 1
        return True

    def charge(self) -> None:
        """Take a token even if there is none: what follows pays for it."""
        self._fill()
        self._tokens -= 1

    async def acquire(self) -> None:
        """Take a token, waiting for it in the order of the callers."""
        self.charge()
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._rate)
