"""Lines in which groups take turns: a group that asks often does not make the others wait for longer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class FairLine(Generic[T]):
    """Things that wait, each since a time. Groups take turns; within a group, the first that came is the next."""

    def __init__(self, group_of: Callable[[T], Hashable]) -> None:
        self._group_of = group_of
        self._groups: dict[Hashable, dict[T, float]] = {}  # in the order of their turns
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, one: T) -> bool:
        return one in self._groups.get(self._group_of(one), {})

    def put(self, one: T, since: float = 0.0) -> None:
        """Let it wait at the end of its group. What waits already keeps its place and its time."""
        if one not in self:
            self._groups.setdefault(self._group_of(one), {})[one] = since
            self._count += 1

    def take(self) -> T:
        """The next; its group waits for its next turn. Raises StopIteration if nothing waits."""
        group = next(iter(self._groups))
        waiting = self._groups.pop(group)
        one = next(iter(waiting))
        del waiting[one]
        self._count -= 1
        if waiting:
            self._groups[group] = waiting
        return one

    def remove(self, one: T) -> float | None:
        """Let it wait no longer; since when it waited, None if it did not wait."""
        group = self._group_of(one)
        waiting = self._groups.get(group, {})
        since = waiting.pop(one, None)
        if since is not None:
            self._count -= 1
            if not waiting:
                del self._groups[group]
        return since

    def oldest(self) -> float:
        """Since when the one waits that waits for longest; infinite if nothing waits."""
        return min((next(iter(waiting.values())) for waiting in self._groups.values()), default=float("inf"))


class Waiters:
    """Coroutines that wait until `wake` is called for them; groups take turns."""

    def __init__(self) -> None:
        self._groups: dict[asyncio.Future[None], Hashable] = {}
        self._line: FairLine[asyncio.Future[None]] = FairLine(self._groups.__getitem__)

    def __len__(self) -> int:
        return len(self._line)

    async def wait(self, group: Hashable, give_back: Callable[[], None]) -> None:
        """Wait for a turn. If this is cancelled when the turn has come already, the turn is given back."""
        waiter = asyncio.get_running_loop().create_future()
        self._groups[waiter] = group
        self._line.put(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._line.remove(waiter)
            else:
                give_back()
            raise
        finally:
            del self._groups[waiter]

    def wake(self) -> None:
        """Wake the next one."""
        self._line.take().set_result(None)


class Turns:
    """At most `most` coroutines at once. Groups take turns when one ends."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiters = Waiters()

    @asynccontextmanager
    async def turn(self, group: Hashable) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the block ends."""
        if self._free > 0:
            self._free -= 1
        else:
            await self._waiters.wait(group, self._end)
        try:
            yield
        finally:
            self._end()

    def _end(self) -> None:
        if len(self._waiters):
            self._waiters.wake()
        else:
            self._free += 1
