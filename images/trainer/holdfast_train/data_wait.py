"""The share of its time for which training waits for data.

Two parts: `DataWait` adds up the time inside `next` of a loader, and `DataShare` compares it with the time of steps.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from threading import get_ident
from time import monotonic, perf_counter
from typing import Final, Generic, NamedTuple, TypeVar, cast

T = TypeVar("T")
WINDOW: Final = 60.0  # seconds of the newest steps that the share is about; longer if steps are long
LEAST_STEPS: Final = 5  # loaders give batches in bursts: a few steps say little


class DataWait:
    """Seconds for which the thread that trains was inside `next` of what `over` returned, or between `begin` and `end`.

    Loaders that prefetch in other threads do not count: training does not wait for these. If one loader takes its
    batches from another, the time counts once.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.thread: int | None = None  # of the training; nothing is counted before it is known, when a step is done
        self.run_thread: int | None = None  # that has entered a Run, which is not over
        self._depth = 0  # how many loaders of that thread are asked for a batch, one inside the other
        self._begun = 0.0

    def over(self, data: Iterable[T]) -> "Timed[T]":
        """`data`, whose iterators are timed."""
        return Timed(self, data)

    def iterator(self, inner: Iterator[T]) -> Iterator[T]:
        """`inner`, timed."""
        return _TimedIterator(self, inner)

    def begin(self) -> None:
        """This thread asks for a batch. `end` has to follow."""
        if self.thread == get_ident():
            self._depth += 1
            if self._depth == 1:
                self._begun = perf_counter()

    def end(self) -> None:
        """This thread has its batch."""
        if self.thread == get_ident() and self._depth:  # 0: the thread became that of the training in between
            self._depth -= 1
            if not self._depth:
                self.seconds += perf_counter() - self._begun

    @contextmanager
    def counted(self) -> Iterator[None]:
        """The time inside is added."""
        self.begin()
        try:
            yield
        finally:
            self.end()


class Timed(Generic[T]):
    """An iterable like the one inside it. Each iterator of it is timed."""

    def __init__(self, wait: DataWait, data: Iterable[T]) -> None:
        self._wait, self._data = wait, data

    def __iter__(self) -> Iterator[T]:
        return self._wait.iterator(iter(self._data))

    def __len__(self) -> int:
        return len(cast(Sized, self._data))


class _TimedIterator(Iterator[T]):
    __slots__ = ("_inner", "_wait")

    def __init__(self, wait: DataWait, inner: Iterator[T]) -> None:
        self._wait, self._inner = wait, inner

    def __next__(self) -> T:
        self._wait.begin()
        try:
            return next(self._inner)
        finally:
            self._wait.end()


DATA_WAIT: Final = DataWait()
"""That of this process, which has one training."""


class _Totals(NamedTuple):
    """Sums since the first step of the process, which starts the workers of a loader and does not count itself."""

    steps: int = 0
    seconds: float = 0.0
    waited: float = 0.0


class DataShare:
    """The share of the newest steps' wall time that was spent waiting for data.

    A step lasts from the end of the step before to its own end. The thread that trains calls `end_step`; one other
    thread calls `take`.
    """

    def __init__(self, wait: DataWait = DATA_WAIT) -> None:
        self._wait = wait
        self._ended: tuple[float, float] | None = None  # the newest step: when, and the seconds of waiting until then
        self._totals = _Totals()  # replaced, never changed, because another thread reads it
        self._past = deque([(monotonic(), self._totals)])

    def end_step(self) -> None:
        """A step is done. Takes about a microsecond."""
        now, waited = perf_counter(), self._wait.seconds
        if self._ended is None:
            self._wait.thread = get_ident()
        else:
            steps, seconds, before = self._totals
            self._totals = _Totals(steps + 1, seconds + now - self._ended[0], before + waited - self._ended[1])
        self._ended = now, waited

    def take(self) -> float | None:
        """The share, 0 to 1; None if too few steps are done, or no loader is timed."""
        now, newest = monotonic(), self._totals
        past = self._past
        if newest.steps > past[-1][1].steps:
            past.append((now, newest))
        while len(past) > 1 and now - past[1][0] >= WINDOW and newest.steps - past[1][1].steps >= LEAST_STEPS:
            past.popleft()
        first = past[0][1]
        if newest.steps - first.steps < LEAST_STEPS or not newest.waited or newest.seconds <= first.seconds:
            return None
        return min(max((newest.waited - first.waited) / (newest.seconds - first.seconds), 0.0), 1.0)
