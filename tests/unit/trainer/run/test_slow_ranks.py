"""Which ranks are slow, and how the ranks tell it each other through a real store."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch.distributed
from tests.support.trainer.stores import environment
from tests.support.waiting import wait_for

from holdfast_protocol.report import SlowRank
from holdfast_train.progress import Progress
from holdfast_train.run import slow_ranks
from holdfast_train.run.own_time import Typical
from holdfast_train.run.slow_ranks import WINDOWS, Judge, SlowRanks, Told


def told(window: int, *own: float, step: float = 1.0) -> tuple[Told, ...]:
    return tuple(Told(window, seconds, step, rank) for rank, seconds in enumerate(own))


def after(windows: Sequence[tuple[Told, ...]]) -> tuple[int, ...]:
    """The ranks that are slow in the end."""
    judge, found = Judge(), ()
    for one in windows:
        found = judge.take(one)
    return tuple(slow.rank for slow in found)


@pytest.mark.parametrize(
    ("own", "step", "slow"),
    [
        ((0.5, 0.5, 0.9, 0.5), 1.0, (2,)),
        ((0.5, 0.5, 0.65, 0.5), 1.0, ()),  # less than a third more
        ((0.01, 0.01, 0.03, 0.01), 1.0, ()),  # three times as long, and nobody waits for it
        ((0.5, 0.8), 1.0, (1,)),  # two ranks: compared with the other one
        ((0.5, 0.5, 0.8, 0.9), 1.0, (3, 2)),
        ((0.9, 0.9, 0.9, 0.5), 1.0, ()),  # most of them are as slow: that is the pace
        ((0.0, 0.0, 0.0), 1.0, ()),
        ((0.5, 0.9, 0.0), 1.0, ()),  # one is not measured
    ],
)
def test_a_rank_is_slow_if_it_takes_a_third_longer_than_the_others(
    own: tuple[float, ...], step: float, slow: tuple[int, ...]
) -> None:
    assert after([told(number, *own, step=step) for number in range(WINDOWS)]) == slow


def test_one_slow_window_says_nothing_and_a_quick_one_begins_anew() -> None:
    """Breaks if a page fault, a backup or an evaluation on one node makes it look slow."""
    slow, quick = (0.5, 0.9, 0.5), (0.5, 0.5, 0.5)
    assert after([told(n, *slow) for n in range(WINDOWS - 1)]) == ()
    assert after([told(n, *own) for n, own in enumerate((slow, slow, quick, slow, slow))]) == ()


class _Ranks:
    """Two ranks of one process that share a store."""

    def __init__(self, rank: int, store: torch.distributed.TCPStore) -> None:
        self.rank, self.size, self.first, self._store = rank, 2, rank == 0, store

    def new_store(self):
        return lambda: torch.distributed.PrefixStore("slow", self._store.clone())


class _Pair:
    """Two ranks that are compared; `own` is how long each works, None if it tells nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own: dict[int, float | None] = {0: 0.1, 1: 0.3}
        self.progress, self.changes = Progress(), list[bool]()
        self.store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.ranks = []
        for rank in (0, 1):
            where = environment("file:///nowhere", slow_window=0.05, HOLDFAST_RANK=str(rank + 4))
            one = SlowRanks()
            monkeypatch.setattr(one._own, "take", lambda rank=rank: self._take(rank))
            one.start(where, _Ranks(rank, self.store), [], self.progress, self._change)
            self.ranks.append(one)
        wait_for(lambda: self.progress.slow_ranks, 20, "a slow rank")

    def _take(self, rank: int) -> Typical | None:
        own = self.own[rank]
        return None if own is None else Typical(own, 0.4)

    def _change(self) -> None:
        self.changes.append(bool(self.progress.slow_ranks))


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Pair]:
    monkeypatch.setattr(slow_ranks, "STALE", 1e6)  # this machine may be busy
    made = _Pair(monkeypatch)
    yield made
    for one in made.ranks:
        one.close()


def test_rank_0_says_which_rank_is_slow_and_when_it_is_no_longer(pair: _Pair) -> None:
    """Breaks if a rank is compared with windows of others that it has seen before, or if it stays slow for ever."""
    (slow,) = pair.progress.slow_ranks
    assert slow == SlowRank(1, 5, "0.300000", "0.100000", "0.400000")
    pair.own[1] = 0.1
    wait_for(lambda: not pair.progress.slow_ranks, 20, "no slow rank")
    assert (pair.changes[0], pair.changes[-1]) == (True, False)


# Breaks if the operator learns only of the memory of rank 0, and another rank is the one that nearly does not fit.
def test_rank_0_knows_the_memory_of_the_rank_that_had_most(pair: _Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = [1 << 30, 5 << 30, 2 << 30]
    monkeypatch.setattr(slow_ranks, "peak_memory", lambda: peaks.pop() if peaks else 0)
    wait_for(lambda: not peaks and pair.progress.ranks_peak == 5 << 30, 20, "the largest peak of any rank and window")
    assert pair.progress.peak_memory == 5 << 30


def test_a_rank_that_tells_nothing_more_is_not_slow(pair: _Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a node is left because of what was known before a rank lost the store."""
    monkeypatch.setattr(slow_ranks, "STALE", 3)
    pair.own[1] = None
    wait_for(lambda: pair.changes and not pair.changes[-1], 20, "no slow rank")
    assert pair.progress.slow_ranks == ()


def test_a_store_that_fails_is_said_once_and_then_nothing_is_known(
    pair: _Pair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Breaks if the comparison ends without a word, and the operator still replaces the node of a slow rank."""

    def fail(*_: object) -> None:
        raise torch.distributed.DistNetworkError("no answer\nof C++")

    monkeypatch.setattr(torch.distributed.PrefixStore, "multi_get", fail)
    wait_for(lambda: not pair.progress.slow_ranks, 20, "no slow rank")
    said = capsys.readouterr().err
    assert said == ("holdfast: ranks are not compared any more: the store of the process group fails (no answer)\n")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_comparison_is_seen(pair: _Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a fault of the code looks like a store that fails."""
    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda given: faults.append(given.exc_type))

    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Judge, "take", fail)
    wait_for(lambda: faults, 20, "the fault")
    assert (faults, pair.progress.slow_ranks) == ([RuntimeError], ())


def test_nothing_is_measured_if_the_job_does_not_ask_for_it() -> None:
    one = SlowRanks()
    store = torch.distributed.HashStore()
    one.start(environment("file:///nowhere"), _Ranks(0, store), [torch.nn.Linear(1, 1)], Progress(), lambda: None)
    one.begin_step()
    assert one._own._clock is None


class _GpuParameter:
    """Says that it is on a GPU."""

    requires_grad, is_cuda, device = True, True, torch.device("cuda")


class _OnGpu(torch.nn.Module):
    """A model whose parameter says that it is on a GPU."""

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        yield _GpuParameter()


# Breaks if ranks on GPUs are compared although no administrator has turned that on, or if their memory is not told.
def test_without_its_gate_no_gpu_is_measured_and_its_memory_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slow_ranks, "peak_memory", lambda: 3 << 30)
    monkeypatch.setattr(slow_ranks, "STALE", 1e6)
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks, progress = [SlowRanks(), SlowRanks()], Progress()
    for rank, one in enumerate(ranks):
        where = environment("file:///nowhere", slow_window=0.05)
        one.start(where, _Ranks(rank, store), [_OnGpu()], progress, lambda: None)
    wait_for(lambda: progress.ranks_peak == 3 << 30, 20, "the peak of memory")
    for one in ranks:
        assert one._own._clock is None
        one.close()
    said = "holdfast: ranks are not compared on GPUs: the gate SlowRanksOnGpus is off\n"
    assert (progress.slow_ranks, capsys.readouterr().err) == ((), said)
