"""Whether this process may write: only while it holds the lease."""

from collections.abc import Callable
from time import monotonic

from holdfast.runtime.errors import ApiError


class NotLeadingError(ApiError):
    """A write was attempted while the lease was not certainly ours. Nothing was sent."""

    def __init__(self) -> None:
        super().__init__(0, "NotLeading", "this operator does not hold the lease now; nothing was written", 1.0)


class Gate:
    """Open until a moment that every renewal of the lease pushes on."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._opened = float("-inf")

    @property
    def open(self) -> bool:
        """True if writing is allowed now."""
        return self._clock() < self._until

    @property
    def shut_for(self) -> float:
        """Seconds since it fell shut by itself, 0 while it is open, infinite if it was never open or was shut."""
        return max(0.0, self._clock() - self._until)

    @property
    def open_for(self) -> float:
        """Seconds since it was opened, 0 while it is shut."""
        return self._clock() - self._opened if self.open else 0.0

    def keep_open(self, until: float) -> None:
        """Allow writing until this reading of the clock."""
        if not self.open:
            self._opened = self._clock()
        self._until = until

    def shut(self) -> None:
        """Forbid writing."""
        self._until = float("-inf")

    def check(self) -> None:
        """Raise NotLeadingError if the gate is shut."""
        if not self.open:
            raise NotLeadingError
