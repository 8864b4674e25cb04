"""Evenness, and the order of splits."""

import pytest

from holdfast_model.census.summary import evenness, in_order


@pytest.mark.parametrize(
    ("counts", "value"),
    [({"a": 5, "b": 5, "c": 5}, 1), ({"a": 9, "b": 0}, 0), ({"a": 3, "b": 1}, 0.8113), ({"a": 3}, None), ({}, None)],
)
def test_evenness(counts: dict[str, int], value: float | None) -> None:
    assert evenness(counts) == (None if value is None else pytest.approx(value, abs=1e-4))


def test_training_comes_first() -> None:
    assert in_order(["zoo", "test", "val", "Train"]) == ["Train", "val", "test", "zoo"]
