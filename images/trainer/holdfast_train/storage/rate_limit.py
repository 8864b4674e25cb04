"""A limit on bytes per second, so that an upload during training leaves network bandwidth to the training."""

import threading
import time
from collections.abc import Callable


class RateLimit:
    """A token bucket. It starts full, holds `burst` bytes and fills by `limit` bytes per second; None means no limit.

    Threads that share one instance keep the limit together. `limit` may be set at any time. With None, for example when
    a notice makes the upload urgent, all waiting threads continue at once.
    """

    def __init__(
        self,
        limit: float | None,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        if (limit is not None and limit <= 0) or burst <= 0:
            raise ValueError(
                f"limit is {limit} bytes/s and burst is {burst} bytes; allowed: more than 0, for limit also None"
            )
        self._limit = limit
        self._burst = burst
        self._clock = clock
        self._sleep = sleep or self._until_lifted
        self._changed = threading.Condition()
        self._left = float(burst)
        self._taken = 0  # bytes in all
        self._at = clock()

    @property
    def limit(self) -> float | None:
        """Bytes per second, None if there is no limit."""
        return self._limit

    @limit.setter
    def limit(self, limit: float | None) -> None:
        with self._changed:
            self._limit = limit
            self._changed.notify_all()

    @property
    def passed(self) -> int:
        """Bytes that were allowed to pass so far. While a caller waits, it grows with the time."""
        with self._changed:
            debt = 0.0 if self._limit is None else -self._left - (self._clock() - self._at) * self._limit
            return self._taken - max(0, int(debt))

    def take(self, size: int, now: float) -> float:
        """Take `size` bytes out of the bucket at the time `now`. Return the seconds to wait before sending them.

        The level may become negative: a caller that takes more than the bucket has waits, and later callers wait
        longer. So a piece of any size passes, and callers keep their order.
        """
        with self._changed:
            self._taken += size
            limit = self._limit
            if limit is None:
                self._left, self._at = float(self._burst), now
                return 0.0
            self._left = min(self._burst, self._left + max(0.0, now - self._at) * limit) - size
            self._at = max(now, self._at)
            return max(0.0, -self._left / limit)

    def wait(self, size: int) -> None:
        """Return when `size` more bytes may be sent."""
        pause = self.take(size, self._clock())
        if pause > 0:
            self._sleep(pause)

    def _until_lifted(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._limit is None, seconds)
