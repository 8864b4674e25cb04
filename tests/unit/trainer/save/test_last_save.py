"""What can still be saved when told to leave."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_train.save.interval import Cost
from holdfast_train.save.last_save import SPARE, estimate, last_save, spare

GB = 10**9
KNOWN = (Cost(0.1, 10.0, GB),)  # a gigabyte in ten seconds


@pytest.mark.parametrize(
    ("situation", "act", "words"),
    [
        ((30.0, GB, KNOWN), "save", "a save takes about 10.0 s: one is begun"),
        ((20.0, GB, KNOWN), "save", "a save takes about 10.0 s: one is begun"),
        ((19.8, GB, KNOWN), "none", "a save takes about 10.0 s and 9.9 s must be left: none is begun"),
        ((30.0, 3 * GB, KNOWN), "none", "a save takes about 30.0 s and 10.0 s must be left: none is begun"),
        ((2.0, GB // 100, KNOWN), "save", "a save takes about 0.1 s: one is begun"),  # a short grace, a small state
        ((0.0, GB, KNOWN), "none", "a save takes about 10.0 s and 0.0 s must be left: none is begun"),
        (
            (30.0, GB, KNOWN, GB // 2),
            "save",
            "the save in flight takes about 5.0 s more, and one of this step 10.0 s: one is begun",
        ),
        (
            (24.0, GB, KNOWN, GB // 2),
            "finish",
            "a save takes about 10.0 s and 10.0 s must be left: only the save in flight is finished, about 5.0 s more",
        ),
        (
            (4.0, GB, KNOWN, GB // 2),
            "finish",
            "a save takes about 10.0 s and 2.0 s must be left: only the save in flight is finished, about 5.0 s more, "
            "which may not be done in time",
        ),
        ((30.0, GB, ()), "save", "how long a save takes is not known: one is tried"),
        ((30.0, GB, (Cost(0.0, 1.0, 0),)), "save", "how long a save takes is not known: one is tried"),
        ((30.0, GB, (), GB), "finish", "how long a save takes is not known: only the one in flight is finished"),
    ],
)
def test_last_save(situation: tuple[Any, ...], act: str, words: str) -> None:
    assert last_save(*situation) == (act, words)


def test_rate_is_that_of_most_saves() -> None:
    slow = Cost(0.1, 100.0, GB)
    assert estimate(2 * GB, (*KNOWN, slow, *KNOWN)) == pytest.approx(20.0)
    assert estimate(GB, ()) is None


ORDER = {"none": 0, "finish": 1, "save": 2}
costs_strategy = st.lists(st.builds(Cost, st.just(0.0), st.floats(0.001, 100), st.integers(0, 10**10)), max_size=5).map(
    tuple
)


@given(st.floats(0, 300), st.floats(0, 300), st.integers(0, 10**11), costs_strategy, st.none() | st.integers(0, 10**11))
def test_more_time_never_saves_less(
    one: float, other: float, size: int, costs: tuple[Cost, ...], in_flight: int | None
) -> None:
    less, more = (last_save(budget, size, costs, in_flight) for budget in sorted((one, other)))
    assert ORDER[less.act] <= ORDER[more.act]
    assert (in_flight is None) or less.act != "none"  # what is in flight is never given up


@given(st.floats(0, 300), st.integers(0, 10**11), costs_strategy, st.none() | st.integers(0, 10**11))
def test_what_is_begun_fits(budget: float, size: int, costs: tuple[Cost, ...], in_flight: int | None) -> None:
    answer = last_save(budget, size, costs, in_flight)
    takes = estimate(size + (in_flight or 0), costs)
    if answer.act == "save" and takes is not None:
        assert takes <= (budget - spare(budget)) * (1 + 1e-9)
        assert spare(budget) == SPARE or budget < 2 * SPARE
