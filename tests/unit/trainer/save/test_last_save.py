"""What is still saved when the pod has to leave."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_train.save.interval import Cost
from holdfast_train.save.last_save import SPARE, choose_last_save, estimate_seconds, spare

GB = 10**9
KNOWN = (Cost(0.1, 10.0, GB),)  # a gigabyte in ten seconds


@pytest.mark.parametrize(
    ("situation", "save", "why"),
    [
        ((30.0, GB, KNOWN), True, "a save takes about 10.0 s: saving"),
        ((20.0, GB, KNOWN), True, "a save takes about 10.0 s: saving"),
        ((19.8, GB, KNOWN), False, "a save takes about 10.0 s and 9.9 s must be left: not saving"),
        ((30.0, 3 * GB, KNOWN), False, "a save takes about 30.0 s and 10.0 s must be left: not saving"),
        ((2.0, GB // 100, KNOWN), True, "a save takes about 0.1 s: saving"),  # a short grace, a small state
        ((0.0, GB, KNOWN), False, "a save takes about 10.0 s and 0.0 s must be left: not saving"),
        ((30.0, GB, ()), True, "the time of a save is not known: trying one"),
        ((30.0, GB, (Cost(0.0, 1.0, 0),)), True, "the time of a save is not known: trying one"),
    ],
)
def test_last_save(situation: tuple[Any, ...], save: bool, why: str) -> None:
    assert choose_last_save(*situation) == (save, why)


def test_the_estimate_uses_the_median_rate() -> None:
    slow = Cost(0.1, 100.0, GB)
    assert estimate_seconds(2 * GB, (*KNOWN, slow, *KNOWN)) == pytest.approx(20.0)
    assert estimate_seconds(GB, ()) is None


costs_strategy = st.lists(st.builds(Cost, st.just(0.0), st.floats(0.001, 100), st.integers(0, 10**10)), max_size=5).map(
    tuple
)


@given(st.floats(0, 300), st.floats(0, 300), st.integers(0, 10**11), costs_strategy)
def test_more_time_never_saves_less(one: float, other: float, size: int, costs: tuple[Cost, ...]) -> None:
    less, more = (choose_last_save(budget, size, costs) for budget in sorted((one, other)))
    assert less.save <= more.save


@given(st.floats(0, 300), st.integers(0, 10**11), costs_strategy)
def test_a_save_that_begins_fits(budget: float, size: int, costs: tuple[Cost, ...]) -> None:
    takes = estimate_seconds(size, costs)
    if choose_last_save(budget, size, costs).save and takes is not None:
        assert takes <= (budget - spare(budget)) * (1 + 1e-9)
        assert spare(budget) == SPARE or budget < 2 * SPARE
