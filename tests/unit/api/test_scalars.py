"""Scalars: exact both ways, and nothing through float."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from holdfast.api.errors import ScalarError
from holdfast.api.model import Model
from holdfast.api.scalars import (
    LONGEST,
    Clip,
    Duration,
    Moment,
    Money,
    Quantity,
    Time,
    format_duration,
    format_time,
    parse_duration,
    parse_money,
    parse_time,
    quantity_value,
)

DURATIONS = st.timedeltas(min_value=timedelta(0), max_value=LONGEST)
TIMES = st.datetimes(
    datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))])
)
MONEY = st.decimals(min_value=0, max_value=Decimal("999999999999.999999"), places=6)


class Sample(Model):
    """Every scalar once."""

    length: Duration
    at: Time
    price: Money


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90d", timedelta(days=90)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("100s", timedelta(seconds=100)),
        ("250ms", timedelta(milliseconds=250)),
        ("7us", timedelta(microseconds=7)),
        ("1d2h3m4s5ms6us", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5, microseconds=6)),
        ("0s", timedelta(0)),
        ("90m", timedelta(minutes=90)),
    ],
)
def test_durations_are_read(text: str, value: timedelta) -> None:
    assert parse_duration(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "5", "1.5h", "-1s", "+1s", "1h 30m", "30m1h", "1w", "1H", "1m\n", "1_0s", "١s", "99999d", 5, None, "1s" * 40],
)
def test_a_text_that_is_not_a_duration_is_refused(text: object) -> None:
    with pytest.raises(ScalarError, match="1h30m"):
        parse_duration(text)


@given(DURATIONS)
def test_a_duration_survives_being_written(value: timedelta) -> None:
    assert parse_duration(format_duration(value)) == value


@given(DURATIONS)
def test_durations_are_written_in_one_way_only(value: timedelta) -> None:
    text = format_duration(value)
    assert format_duration(parse_duration(text)) == text


def test_a_negative_duration_cannot_be_written() -> None:
    with pytest.raises(ScalarError, match="not negative"):
        format_duration(timedelta(seconds=-1))


@given(TIMES)
def test_a_time_survives_being_written(value: datetime) -> None:
    assert parse_time(format_time(value)) == value
    assert format_time(parse_time(format_time(value))) == format_time(value)


@pytest.mark.parametrize(
    "text", ["2026-11-21", "2026-11-21T09:00:00", "2026-13-21T09:00:00Z", "now", 5, 1.5, "0001-01-01T00:00:00+01:00"]
)
def test_a_text_that_is_not_a_time_is_refused(text: object) -> None:
    with pytest.raises(ScalarError, match="RFC 3339"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2000-01-01T00:00:00Z", True),  # a moment that is over is one too
        ("2999-12-31T23:59:59.999999999-23:59", True),
        ("2027-01-31t00:00:00z", True),
        ("1999-12-31T23:59:59Z", False),
        ("3000-01-01T00:00:00Z", False),
        ("2027-01-31T00:00:00", False),
        ("2027-01-31T00:00:00+24:00", False),
        ("2027-02-30T00:00:00Z", False),
        ("2027-01-31", False),
        (1_800_000_000, False),
    ],
)
def test_moments_that_people_write(text: object, read: bool) -> None:
    moments = TypeAdapter(Moment)
    if not read:
        with pytest.raises(ValidationError, match="RFC 3339"):
            moments.validate_python(text)
        return
    value = moments.validate_python(text)
    assert value == parse_time(text)
    assert moments.validate_python(value) == value


def test_times_of_every_zone_become_utc() -> None:
    assert format_time(parse_time("2026-11-21T10:00:00.5+01:00")) == "2026-11-21T09:00:00.500000Z"
    assert parse_time("0999-01-01T00:00:00Z") == datetime(999, 1, 1, tzinfo=UTC)


@given(MONEY)
def test_money_survives_being_written(value: Decimal) -> None:
    sample = Sample(length=timedelta(0), at=datetime(2026, 1, 1, tzinfo=UTC), price=value)
    text = sample.to_object()["price"]
    assert isinstance(text, str)
    assert Sample.model_validate(sample.to_object()) == sample
    assert Decimal(text) == value


@pytest.mark.parametrize(
    "value", [3.06, "NaN", "Infinity", "1e3", "1_000", "-1", "+1", "", " 1", "1.", ".5", True, Decimal("NaN"), "1" * 13]
)
def test_text_that_is_not_money_is_refused(value: object) -> None:
    with pytest.raises(ScalarError, match="decimal string"):
        parse_money(value)


def test_money_may_be_a_whole_number() -> None:
    assert parse_money(3) == Decimal(3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", Fraction(1, 2)),
        ("16", Fraction(16)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1Ki", Fraction(1024)),
        ("1k", Fraction(1000)),
        ("2e3", Fraction(2000)),
        ("2E-3", Fraction(1, 500)),
        ("1E", Fraction(10**18)),
        ("100n", Fraction(1, 10**7)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_quantities_have_exact_values(text: str, value: Fraction) -> None:
    assert quantity_value(text) == value


def test_a_quantity_may_be_an_integer() -> None:
    assert quantity_value(16) == 16
    with pytest.raises(ScalarError, match="quantity"):
        quantity_value(True)


@pytest.mark.parametrize(
    "value", ["", "1KB", "1ki", "1 Gi", "1_000", "NaN", "-1", ".", "1e", "1e999", "0x10", "1.2.3", "Gi", "1Gi\n"]
)
def test_text_that_is_not_a_quantity_is_refused(value: str) -> None:
    with pytest.raises(ScalarError, match="quantity"):
        quantity_value(value)


@pytest.mark.parametrize("value", [True, 1.5, None])
def test_a_quantity_is_text_or_a_whole_number(value: object) -> None:
    with pytest.raises(ValidationError, match="quantity"):
        TypeAdapter(Quantity).validate_python(value)
    assert TypeAdapter(Quantity).validate_python(8) == "8"


@given(st.integers(min_value=0, max_value=10**15), st.sampled_from(["", "m", "k", "Ki", "Gi", "e3"]))
def test_quantities_are_additive(number: int, unit: str) -> None:
    one = quantity_value(f"1{unit}")
    assert quantity_value(f"{number}{unit}") == number * one


@given(st.text(max_size=60))
def test_text_that_holdfast_writes_is_cut_and_never_refused(text: str) -> None:
    assert len(Clip(20)(text)) <= 20
    assert Clip(20)(text) == text or Clip(20)(text).endswith("…")
