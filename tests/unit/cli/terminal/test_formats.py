"""Small texts."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from holdfast_cli.terminal import formats

NOW = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-5, "0s"), (59.9, "59s"), (60, "1m00s"), (192, "3m12s"), (7500, "2h05m"), (791_000, "9d3h")],
)
def test_spans(seconds: float, text: str) -> None:
    assert formats.span(timedelta(seconds=seconds)) == text


def test_nothing_is_a_dash() -> None:
    assert {
        formats.span(None),
        formats.ago(None, NOW),
        formats.clock(None),
        formats.moment(None),
        formats.count(None),
    } == {"-"}


@pytest.mark.parametrize(
    ("text", "value"), [("2.5", 2.5), ("1e-3", 0.001), (None, None), ("nan", None), ("inf", None), ("x", None)]
)
def test_numbers_are_finite_or_nothing(text: str | None, value: float | None) -> None:
    assert formats.number(text) == value


@pytest.mark.parametrize(("fraction", "full"), [(0.0, 0), (0.5, 5), (1.0, 10), (1.7, 10), (-1.0, 0)])
def test_bars_have_one_width(fraction: float, full: int) -> None:
    bar = formats.bar(fraction, 10)
    assert len(bar) == 10
    assert bar.count("█") == full


def test_a_bar_is_exact_to_an_eighth() -> None:
    assert formats.bar(1 / 16, 2) == "▏ "
    assert formats.bar(None, 3) == "───"


def test_sparkline_shows_where_it_falls() -> None:
    assert formats.sparkline([4.0, 3.0, 2.0, 1.0], 10) == "█▆▃▁"
    assert formats.sparkline([], 10) == ""
    assert formats.sparkline([2.0, 2.0], 10) == "▁▁"


def test_sparkline_takes_means_of_many_values() -> None:
    line = formats.sparkline([float(1000 - i) for i in range(1000)], 8)
    assert line == "█▇▆▅▄▃▂▁"


@pytest.mark.parametrize(
    ("text", "value"), [("1.50", Decimal("1.50")), ("-0.5", Decimal("-0.5")), (None, None), ("x", None), ("NaN", None)]
)
def test_decimal(text: str | None, value: Decimal | None) -> None:
    assert formats.decimal(text) == value


def test_money_of_debts() -> None:
    assert (formats.money(Decimal("-38.4868")), formats.money(Decimal("-0.5"))) == ("-38.49", "-0.5000")
