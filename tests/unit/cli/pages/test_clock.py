"""Times in pages."""

from datetime import UTC, datetime

from holdfast_cli.pages import clock

AT = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)


def test_a_time_is_written_exactly_and_does_not_change_while_time_passes() -> None:
    """Breaks if live.js cannot read the time, or if a row differs each second."""
    assert 'datetime="2026-11-21T09:03:00Z" data-show="age"' in clock.age(AT)
    assert 'data-show="left"' in clock.left(AT)
    assert clock.age(AT) == clock.age(AT)


def test_no_time_is_a_dash() -> None:
    assert clock.age(None) == clock.left(None) == "-"
