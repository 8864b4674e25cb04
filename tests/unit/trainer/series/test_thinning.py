"""Thinning: fewer rows, the same curve."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_train.series.rows import Row
from holdfast_train.series.thinning import thin

numbers = st.floats(allow_nan=True, allow_infinity=True)
values = st.dictionaries(st.sampled_from(["loss", "accuracy"]), numbers, max_size=2)
curves = st.lists(values, max_size=200).map(lambda found: [Row(n, float(n), v) for n, v in enumerate(found, 1)])


# Breaks if an extreme value, the first or the last row gets lost, or if a step appears twice or out of order.
@given(curves, st.integers(2, 50))
def test_ends_and_extremes_survive(rows: list[Row], most: int) -> None:
    found = thin(rows, most)
    assert len(found) <= max(most, 0)
    assert [row.step for row in found] == sorted({row.step for row in found})
    if not rows:
        return
    assert (found[0], found[-1]) == (rows[0], rows[-1])
    assert {row.step for row in found} <= {row.step for row in rows}
    for name in ("loss", "accuracy") if most >= 5 else ():
        before, after = _numbers(rows, name), _numbers(found, name)
        assert (min(before, default=0), max(before, default=0)) == (min(after, default=0), max(after, default=0))
        assert any(map(math.isnan, _all(rows, name))) == any(map(math.isnan, _all(found, name)))


def _all(rows: Sequence[Row], name: str) -> list[float]:
    return [row.values[name] for row in rows if name in row.values]


def _numbers(rows: Sequence[Row], name: str) -> list[float]:
    return [value for value in _all(rows, name) if not math.isnan(value)]


# Breaks if the order of the extremes of a bucket is not that of the rows: a falling curve would look like a rising one.
def test_a_bucket_keeps_the_order_of_its_extremes() -> None:
    rows = [
        Row(
            step,
            float(step),
            {"falls": -step, "rises": step, "rare": 7.0} if step == 4 else {"falls": -step, "rises": step},
        )
        for step in range(1, 11)
    ]
    _, early, middle, late, _ = thin(rows, 5)
    assert early.values == {"falls": -2, "rises": 2, "rare": 7.0}
    assert late.values == {"falls": -9, "rises": 9, "rare": 7.0}
    assert middle.values == {"falls": -5.5, "rises": 5.5, "rare": 7.0}


# Breaks if few rows are thinned.
def test_few_rows_stay() -> None:
    rows = [Row(step, 0.0, {"loss": 1.0}) for step in range(5)]
    assert thin(rows, 5) is rows
    assert thin([], 2) == []


def test_fewer_than_two_are_refused() -> None:
    with pytest.raises(ValueError, match="allowed: 2 and more"):
        thin([], 1)
