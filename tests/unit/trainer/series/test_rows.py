"""Names and numbers of rows."""

import math

import pytest

from holdfast_train.series.rows import is_name, number_of, stored_number


@pytest.mark.parametrize("name", ["loss", "eval/top-1", "val@5", "a" * 64, "_x", "9"])
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "a" * 65, "a b", "<b>", "é", "loss\n", "/x", 5, None])
def test_other_texts_are_no_names(name: object) -> None:
    assert not is_name(name)


@pytest.mark.parametrize("value", [0.0, -1.5, 1e-300, 123456.0, 1.5e300, math.inf, -math.inf])
def test_numbers(value: float) -> None:
    assert number_of(stored_number(value)) == value
    assert math.isnan(number_of(stored_number(math.nan)))
