"""The gate that lets this process write only while it has the lease."""

from collections.abc import Callable
from time import monotonic

from holdfast.runtime.errors import ApiError


class NotLeadingError(ApiError):
    """This process tried to write without the lease. Nothing was sent."""

    def __init__(self) -> None:
        super().__init__(0, "NotLeading", "this operator does not have the lease now; nothing was written", 1.0)


class LeadershipGate:
    """Open until a time that every renewal of the lease moves forward. Times are of `clock`, in seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._opened = float("-inf")

    @property
    def is_open(self) -> bool:
        """True if this process may write now."""
        return self._clock() < self._until

    @property
    def closed_for(self) -> float:
        """Seconds since the lease expired; 0 while open, infinite if it never opened or `close` was called."""
        return max(0.0, self._clock() - self._until)

    @property
    def open_for(self) -> float:
        """Seconds since the gate opened; 0 while it is closed."""
        return self._clock() - self._opened if self.is_open else 0.0

    def keep_open(self, until: float) -> None:
        """Allow writes until this time of the clock."""
        if not self.is_open:
            self._opened = self._clock()
        self._until = until

    def close(self) -> None:
        """Forbid writes now."""
        self._until = float("-inf")

    def check(self) -> None:
        """Raise NotLeadingError if the gate is closed."""
        if not self.is_open:
            raise NotLeadingError
