"""Computed orders: each contains every number once, and looks random."""

import math
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_train.data.permutation import Permutation, in_epochs

SIGMAS = 6  # of a chi-square statistic: seeds are fixed, so a test that passes keeps passing


def sigmas(counts: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", free: int) -> float:
    """How far the counts are from equal ones, in standard deviations of chance."""
    mean = counts.mean()
    return float((((counts - mean) ** 2 / mean).sum() - free) / math.sqrt(2 * free))


@given(size=st.integers(1, 5000), seed=st.integers(), epoch=st.integers(0, 1 << 40))
def test_every_number_once(size: int, seed: int, epoch: int) -> None:
    found = Permutation(size, seed, epoch)(np.arange(size))
    assert (np.sort(found) == np.arange(size)).all()


@given(size=st.integers(1, 1 << 60), seed=st.integers(0, 9), data=st.data())
def test_any_size_any_place(size: int, seed: int, data: st.DataObject) -> None:
    """Of huge sizes too: every number is in range, no two are equal, and each depends on its place alone."""
    first = data.draw(st.integers(0, max(0, size - 100)))
    places = np.arange(first, min(first + 100, size))
    order = Permutation(size, seed)
    found = order(places)
    assert ((found >= 0) & (found < size)).all()
    assert len(set(found.tolist())) == len(places)
    assert (order(places[::-1].copy())[::-1] == found).all()


def test_the_order_never_changes() -> None:
    """A checkpoint of an older release goes on in the same order. Raise elastic_sampler.ORDER if this must change."""
    assert Permutation(10, 0, 0)(np.arange(10)).tolist() == [3, 5, 2, 8, 7, 1, 4, 0, 6, 9]
    assert Permutation(10**9, 7, 3)(np.arange(4)).tolist() == [404448927, 654487661, 521413197, 234427161]


@pytest.mark.parametrize(("size", "epochs"), [(10, 5000), (100, 1000), (997, 200)])
def test_numbers_and_places_are_independent(size: int, epochs: int) -> None:
    """Each number is at each place equally often, and all distances between neighbours are equally frequent."""
    cells, distances = np.zeros((size, size), np.int64), np.zeros(size, np.int64)
    for epoch in range(epochs):
        found = Permutation(size, 1, epoch)(np.arange(size))
        cells[np.arange(size), found] += 1
        np.add.at(distances, np.diff(found) % size, 1)
    assert abs(sigmas(cells, (size - 1) ** 2)) < SIGMAS
    assert distances[0] == 0
    assert abs(sigmas(distances[1:], size - 2)) < SIGMAS


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_all_orders_of_a_few_things(size: int) -> None:
    orders = math.factorial(size)
    seen = Counter(tuple(Permutation(size, 5, epoch)(np.arange(size)).tolist()) for epoch in range(20 * orders))
    assert len(seen) == orders
    assert abs(sigmas(np.array(list(seen.values())), orders - 1)) < SIGMAS


def test_a_long_order_has_no_runs() -> None:
    found = Permutation(100_003, 2)(np.arange(100_003))
    ups = (np.diff(found) > 0).mean()
    assert ups == pytest.approx(0.5, abs=0.01)
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(np.arange(100_003), found)[0, 1]) < 0.02
    assert (found == np.arange(100_003)).sum() < 10


def test_seed_and_epoch_choose_the_order() -> None:
    orders = {tuple(Permutation(50, seed, epoch)(np.arange(50))) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_a_billion_things_take_no_memory() -> None:
    places = np.arange(512)
    Permutation(10**9, 0)(places)
    tracemalloc.start()
    in_epochs(places, 10**9, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000  # bytes


def test_epochs_follow_each_other() -> None:
    row = in_epochs(np.arange(30), 10, seed=4)
    epochs = [row[start : start + 10].tolist() for start in (0, 10, 20)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert in_epochs(np.arange(7, 23), 10, seed=4).tolist() == row[7:23].tolist()
