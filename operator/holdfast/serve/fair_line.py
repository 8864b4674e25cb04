"""Lines in which groups take turns: a group that asks often does not make the others wait for longer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)
May = Callable[[Hashable], bool]
SHARE: Final = 7  # places of one group for each place that is free


def anyone(group: Hashable) -> bool:
    """True: each group may have the next turn."""
    return True


class FairLine(Generic[T]):
    """Things that wait, each since a time. Groups take turns; within a group, the first that came is the next.

    `may` says of a group that it may have a turn now. A group that may not keeps its place in the line.
    """

    def __init__(self, group_of: Callable[[T], Hashable]) -> None:
        self._group_of = group_of
        # In the order of their turns: of each group, those that go first, and the rest.
        self._groups: dict[Hashable, tuple[dict[T, float], dict[T, float]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, one: T) -> bool:
        return any(one in part for part in self._groups.get(self._group_of(one), ()))

    def put(self, one: T, since: float = 0.0, *, first: bool = False) -> None:
        """Let it wait at the end of its group; if it is a `first` one, before all of its group that are not. What waits
        already keeps its place and its time.
        """
        if one not in self:
            firsts, rest = self._groups.setdefault(self._group_of(one), ({}, {}))
            (firsts if first else rest)[one] = since
            self._count += 1

    def has_next(self, may: May = anyone) -> bool:
        """True if something waits whose group may have a turn."""
        return any(map(may, self._groups))

    def take(self, may: May = anyone) -> T:
        """The next; its group waits for its next turn. Raises StopIteration if there is none."""
        return self._take(next(filter(may, self._groups)))

    def take_from_largest(self) -> T:
        """The first of the group of which the most wait. Raises ValueError if nothing waits."""
        return self._take(max(self._groups, key=lambda group: sum(map(len, self._groups[group]))))

    def _take(self, group: Hashable) -> T:
        parts = self._groups.pop(group)
        part = parts[0] or parts[1]
        one = next(iter(part))
        del part[one]
        self._count -= 1
        if any(parts):
            self._groups[group] = parts
        return one

    def remove(self, one: T) -> float | None:
        """Let it wait no longer; since when it waited, None if it did not wait."""
        group = self._group_of(one)
        parts = self._groups.get(group, ())
        part = next((part for part in parts if one in part), None)
        if part is None:
            return None
        since = part.pop(one)
        self._count -= 1
        if not any(parts):
            del self._groups[group]
        return since

    def oldest(self) -> float:
        """Since when the one waits that waits for longest; infinite if nothing waits."""
        parts = (part for parts in self._groups.values() for part in parts if part)
        return min((next(iter(part.values())) for part in parts), default=float("inf"))


class Waiters:
    """Coroutines that wait until `wake` is called for them; groups take turns."""

    def __init__(self) -> None:
        self._groups: dict[asyncio.Future[None], Hashable] = {}
        self._line: FairLine[asyncio.Future[None]] = FairLine(self._groups.__getitem__)

    def __len__(self) -> int:
        return len(self._line)

    async def wait(self, group: Hashable, give_back: Callable[[], None], *, first: bool = False) -> None:
        """Wait for a turn; what is `first` goes before the rest of its group. If this is cancelled when the turn has
        come already, the turn is given back.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._groups[waiter] = group
        self._line.put(waiter, first=first)
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

    def has_next(self, may: May) -> bool:
        """True if a coroutine waits whose group may have a turn."""
        return self._line.has_next(may)

    def wake(self, may: May = anyone) -> Hashable:
        """Wake the next one; its group."""
        waiter = self._line.take(may)
        waiter.set_result(None)
        return self._groups[waiter]


class Places:
    """`most` places that groups share. A group may take a free place while it has fewer than SHARE times as many as are
    free. So one group alone leaves an eighth of the places free, and the first thing of another group waits for nobody.
    """

    def __init__(self, most: float) -> None:
        self._free = most
        self._taken: Counter[Hashable] = Counter()

    def may_take(self, group: Hashable) -> bool:
        """True if the group may take another place."""
        return self._taken[group] < SHARE * self._free

    def take(self, group: Hashable) -> None:
        """Take a place."""
        self._free -= 1
        self._taken[group] += 1

    def leave(self, group: Hashable) -> None:
        """Give a place back."""
        self._free += 1
        self._taken[group] -= 1
        if not self._taken[group]:
            del self._taken[group]


class Turns:
    """At most `most` coroutines at once, in places that groups share. Groups take turns when one ends."""

    def __init__(self, most: int) -> None:
        self._places = Places(most)
        self._waiters = Waiters()

    @asynccontextmanager
    async def turn(self, group: Hashable, *, first: bool = False) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the block ends. What is `first` goes before the rest of its group."""
        if self._places.may_take(group):
            self._places.take(group)
        else:
            await self._waiters.wait(group, lambda: self._end(group), first=first)
        try:
            yield
        finally:
            self._end(group)

    def _end(self, group: Hashable) -> None:
        self._places.leave(group)
        while self._waiters.has_next(self._places.may_take):
            self._places.take(self._waiters.wake(self._places.may_take))
