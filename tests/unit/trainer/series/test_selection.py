"""Which segments are read if there are too many."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from holdfast_train.series.segment import first_step_of, new_key
from holdfast_train.series.selection import select
from holdfast_train.storage.base import Entry

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def entries(attempt: int, steps: Sequence[int]) -> list[Entry]:
    """Written one after another."""
    return [Entry(new_key(step, attempt), 10, BEGIN + timedelta(seconds=n)) for n, step in enumerate(steps)]


def steps_of(chosen: Sequence[Entry]) -> list[int]:
    return [first_step_of(entry.key) for entry in chosen]


def test_few_segments_are_all_read() -> None:
    listed = entries(1, range(10))
    assert select(listed, 10) == (listed, "")


# Breaks if a time with many saves takes the place of the steps before and after it.
def test_steps_count_and_not_segments() -> None:
    chosen, said = select(entries(1, [0, 1000, *range(2000, 2900), 3000, 4000]), 10)
    assert {0, 1000, 2000, 3000, 4000} <= set(steps_of(chosen))
    assert said == "894 of 904 segments are not read; the others are spread over the steps of each attempt"


# Breaks if the budget is not used up, or not kept: segments of one step, and a budget smaller than the ends.
@pytest.mark.parametrize(("steps", "most", "read"), [([5] * 100, 20, 20), (list(range(100)), 4, 2), ([5] * 100, 1, 2)])
def test_the_number_is_kept(steps: Sequence[int], most: int, read: int) -> None:
    assert len(select(entries(1, steps), most)[0]) >= read
    assert len(select(entries(1, steps), most)[0]) <= max(4, most)


# Breaks if a prefix with a huge number of attempts is read for hours.
def test_attempts_without_end_are_bounded() -> None:
    listed = [entry for attempt in range(1, 101) for entry in entries(attempt, [attempt])]
    chosen, said = select(listed, 40)
    assert steps_of(chosen) == list(range(91, 101))
    assert said.startswith("90 of 100 segments and the oldest 90 attempts are not read")
