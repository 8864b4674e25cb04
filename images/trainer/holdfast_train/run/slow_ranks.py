"""`SlowRanks`: ranks compare how long each of them works in a step, and rank 0 says which ones are slow."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import monotonic
from typing import Any, Final, NamedTuple, Protocol

from holdfast_protocol.gates import SLOW_RANKS_ON_GPUS
from holdfast_protocol.report import MAX_SLOW_RANKS, SlowRank
from holdfast_train.accelerator_memory import peak_memory
from holdfast_train.environment import Environment
from holdfast_train.errors import StateError
from holdfast_train.progress import Progress
from holdfast_train.ranks import Ranks
from holdfast_train.run.own_time import OwnTime, Typical
from holdfast_train.say import say

TIMES: Final = 1.33  # the median of the other ranks
SHARE: Final = 0.1  # of a step: a rank that is slow at what takes no time delays nobody
WINDOWS: Final = 3  # in a row
LOOKS: Final = 10  # in a window
STALE: Final = 3  # as many times the usual pause without a word of some rank, after which nothing is known


class Told(NamedTuple):
    """What a rank reports about its newest window: its number, seconds of own time and of a step, its pod's rank.

    `peak`: the most memory of an accelerator that it had so far, in bytes; 0 if it has none.
    """

    window: int
    own: float
    step: float
    pod: int
    peak: int = 0


class Slow(NamedTuple):
    """A rank that was slow in so many windows in a row. `own` and `others`: its seconds, and those of the others.

    `pod` is the rank of its pod.
    """

    rank: int
    pod: int
    own: float
    others: float
    step: float
    windows: int

    @property
    def for_report(self) -> SlowRank:
        """As the operator reads it."""
        return SlowRank(self.rank, self.pod, *(f"{seconds:.6f}" for seconds in (self.own, self.others, self.step)))


class Judge:
    """Finds the ranks that are slow in WINDOWS windows in a row. Pure."""

    def __init__(self) -> None:
        self._windows: Counter[int] = Counter()

    def take(self, told: Sequence[Told]) -> tuple[Slow, ...]:
        """The slow ranks after one more window of all ranks, the slowest first.

        All ranks wait for the slowest one, so a rank is compared with the median of the others. No rank is slow if
        one is not measured.
        """
        if not all(one.own for one in told):
            self._windows.clear()
            return ()
        found = []
        for rank, one in enumerate(told):
            others = median(other.own for number, other in enumerate(told) if number != rank)
            is_slow = one.own > TIMES * others and one.own - others > SHARE * one.step
            self._windows[rank] = self._windows[rank] + 1 if is_slow else 0
            if self._windows[rank] >= WINDOWS:
                found.append(Slow(rank, one.pod, one.own, others, one.step, self._windows[rank]))
        return tuple(sorted(found, key=lambda slow: (-slow.own, slow.rank))[:MAX_SLOW_RANKS])


class SlowRanks:
    """Measures this rank and, in a thread, tells the others through the store of the process group once a window.

    With one rank, or without a window, it does nothing. Nothing of it is exchanged by the threads that train.
    """

    def __init__(self) -> None:
        self._own = OwnTime()
        self._is_measured = True
        self._over = threading.Event()
        self.begin_step = self._own.begin

    def start(
        self,
        environment: Environment,
        ranks: Ranks,
        objects: Iterable[Any],
        progress: Progress,
        on_change: Callable[[], None],
    ) -> None:
        """Begin to measure. Every rank has to call it. Rank 0 keeps `slow_ranks` and `ranks_peak` of `progress`."""
        window = environment.settings.slow_window
        if window is None or ranks.size == 1:
            return
        on_gpus = environment.settings.is_on(SLOW_RANKS_ON_GPUS)
        self._is_measured = self._own.watch(objects, on_gpus=on_gpus)
        if not self._is_measured and ranks.first:
            say(f"ranks are not compared on GPUs: the gate {SLOW_RANKS_ON_GPUS.name} is off")
        exchange = _Exchange(ranks, ranks.new_store(), environment.node_rank)

        def found(slow: tuple[Slow, ...], peak: int = 0) -> None:
            progress.ranks_peak = max(peak, progress.ranks_peak or 0) or None
            if bool(slow) or bool(progress.slow_ranks):
                progress.slow_ranks = tuple(one.for_report for one in slow)
                on_change()

        arguments = (window, exchange, found)
        threading.Thread(target=self._run, args=arguments, name="holdfast-slow-ranks", daemon=True).start()

    def close(self) -> None:
        """Measure no more."""
        self._over.set()
        self._own.close()

    def _take(self) -> Typical | None:
        """The newest own time; 0 if it is not measured, so that the peak of memory is still told."""
        return self._own.take() if self._is_measured else Typical(0.0, 0.0)

    def _run(self, window: float, exchange: "_Exchange", found: "_Found") -> None:
        try:
            self._compare(window, exchange, found)
        except _StoreError as error:
            if not self._over.is_set():  # otherwise the training has ended, and with it what serves the store
                say(f"ranks are not compared any more: the store of the process group fails ({error})")
        finally:
            if not self._over.is_set():
                found(())  # what is not known any more must not cost a node

    def _compare(self, window: float, exchange: "_Exchange", found: "_Found") -> None:
        judge, due = Judge(), monotonic() + window
        judged, usual = monotonic(), window
        exchange.connect()
        while not self._over.wait(window / LOOKS):
            if monotonic() >= due and (typical := self._take()) is not None:
                exchange.tell(typical.own, typical.step)
                due = monotonic() + window
            if (told := exchange.read()) is not None:
                found(judge.take(told), max(one.peak for one in told))
                now = monotonic()
                judged, usual = now, max(window, now - judged)  # longer than a window if steps are long
            elif monotonic() > judged + STALE * usual:  # a rank tells nothing: it may have lost the store
                found(())


class _Found(Protocol):
    """Takes what a window has shown: the slow ranks, and the largest peak of memory."""

    def __call__(self, slow: tuple[Slow, ...], peak: int = 0) -> None: ...


class _StoreError(Exception):
    """The store of the process group does not answer."""


class _Exchange:
    """The newest word of each rank, in the store. Only rank 0 reads. _StoreError if the store fails."""

    def __init__(self, ranks: Ranks, connect: Callable[[], Any], pod: int) -> None:
        self._ranks, self._make, self._pod = ranks, connect, pod
        self._store: Any = None
        self._keys = [f"own/{rank}" for rank in range(ranks.size)]
        self._window = self._judged = 0

    def connect(self) -> None:
        with _store_errors():
            self._store = self._make()

    def tell(self, own: float, step: float) -> None:
        self._window += 1
        text = f"{self._window} {own:.6f} {step:.6f} {self._pod} {peak_memory() or 0}"
        with _store_errors():
            self._store.set(self._keys[self._ranks.rank], text)

    def read(self) -> tuple[Told, ...] | None:
        """What all ranks have told, on rank 0, once each of them has told of a further window."""
        if not self._ranks.first or self._window == self._judged:
            return None
        with _store_errors():
            texts = self._store.multi_get(self._keys) if self._store.check(self._keys) else ()
        if not texts:
            return None
        found = []
        for text in texts:
            window, own, step, pod, peak = text.split()
            found.append(Told(int(window), float(own), float(step), int(pod), int(peak)))
        least = min(one.window for one in found)
        if least <= self._judged:
            return None
        self._judged = least
        return tuple(found)


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, StateError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]  # torch adds the stack of its C++ code
        raise _StoreError(lines[0][:200]) from error
