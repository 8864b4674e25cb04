"""The budget: a job never spends more, and people are warned long before."""

from dataclasses import replace
from decimal import Decimal
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view

from holdfast.core.capacity.budget import forecast
from holdfast.core.capacity.deadline import LOOK

HOUR = 3600.0
HUNDRED = Decimal(100)


def on_dedicated(spent, **given):
    """A job with 10 h of work left, on dedicated at 3 an hour."""
    fields = {"work": 10 * HOUR, "tier": "dedicated", **given}
    return forecast(HUNDRED, Decimal(spent), view(**fields), DEDICATED, leaving=120)


def test_a_budget_that_is_enough():
    found = on_dedicated(50)
    assert (found.rest, found.short, found.pause, found.again_within) == (Decimal(30), False, False, LOOK)
    assert found.reason == "50.00 of 100 spent; finishing on dedicated costs about 30.00"


def test_a_short_budget_is_reported_long_before():
    found = on_dedicated("70.01")
    assert (found.short, found.pause) == (True, False)
    assert found.reason == "70.01 of 100 spent; finishing on dedicated costs about 30.00: 0.01 too much"
    assert on_dedicated(70).short is False


def test_the_job_stops_while_there_is_money_to_leave():
    assert on_dedicated("99.89").pause is False
    found = on_dedicated("99.90")  # two minutes at 3 an hour
    assert (found.pause, found.short) == (True, True)
    assert found.reason == "99.90 of 100 spent: the next 2 min on dedicated would cost 0.10"
    assert on_dedicated(200).pause is True
    assert on_dedicated("99.90", work=inf).short is True


def test_the_forecast_is_asked_again_before_the_money_is_used_up():
    assert on_dedicated("99").again_within == pytest.approx(1200 - 120)
    assert on_dedicated("99.90").again_within == 1


def test_a_job_does_not_start_without_money_for_useful_work():
    """Two changeovers of 600 s, one of them useful work, and 120 s to leave cost 1.10."""
    nowhere = {"tier": None, "work": 10 * HOUR}
    assert on_dedicated("98.89", **nowhere).pause is False
    found = on_dedicated("98.90", **nowhere)
    assert found.pause is True
    assert found.reason == "98.90 of 100 spent: starting for 22 min on dedicated would cost 1.10"
    assert forecast(HUNDRED, Decimal("98.90"), view(**nowhere), SPOT, leaving=120).pause is False


def test_a_paused_job_does_not_start_with_the_money_that_was_left():
    left = Decimal("99.90")
    assert on_dedicated(left).pause is True
    assert on_dedicated(left, tier=None).pause is True


def test_a_successor_costs_money_too():
    both = forecast(HUNDRED, Decimal("99.88"), view(tier="dedicated"), DEDICATED, leaving=120, others=Decimal(1))
    assert both.pause is True
    assert on_dedicated("99.88").pause is False


def test_expected_interruptions_and_starts_are_part_of_the_cost():
    lossy = replace(SPOT, lifetime=HOUR)
    found = forecast(HUNDRED, Decimal(0), view(work=10 * HOUR), lossy, leaving=120)
    assert found.rest == pytest.approx(Decimal(10 * 6 / 5 + 1 / 6), abs=Decimal("0.001"))
    assert forecast(HUNDRED, Decimal(0), view(work=HOUR), CPU, leaving=120).rest == pytest.approx(
        Decimal("5.0017"), abs=Decimal("0.0001")
    )


def test_an_unknown_cost_is_reported():
    free = forecast(HUNDRED, Decimal(50), view(tier="dedicated"), replace(DEDICATED, price=None), leaving=120)
    assert (free.rest, free.pause, free.short, free.again_within) == (None, False, False, LOOK)
    assert free.reason == (
        "50.00 of 100 spent; the cost of the remaining work is not known; dedicated has no price and counts as free"
    )
    assert on_dedicated(50, work=inf).rest is None


def test_a_free_tier_never_stops():
    nothing = replace(DEDICATED, price=Decimal(0))
    assert forecast(Decimal(0), Decimal(5), view(tier="dedicated"), nothing, leaving=120).pause is False
    assert on_dedicated(0, work=inf).pause is False
    assert forecast(Decimal(0), Decimal(0), view(tier="dedicated"), DEDICATED, leaving=120).pause is True


MONEY = st.decimals("0", "10000", places=4)


@given(
    budget=MONEY,
    price=st.decimals("0.01", "1000", places=4),
    leaving=st.integers(1, 3600),
    reaction=st.floats(0, 1),
)
def test_it_never_overspends(budget, price, leaving, reaction):
    """A job that asks and stops when the forecast says so spends at most its budget.

    It is asked a second later at most, which the time to leave has to hold.
    """
    tier, spent, asked = replace(DEDICATED, price=price), Decimal(0), 0
    hourly = price / 3600
    while asked < 400:
        asked += 1
        found = forecast(budget, spent, view(tier="dedicated"), tier, leaving=leaving + 1)
        if found.pause:
            break
        again = found.again_within if found.again_within > 1 else reaction
        spent += hourly * Decimal(again)
    if found.pause:
        assert spent + hourly * leaving <= max(budget, hourly * leaving) + Decimal("0.001") * price + Decimal("0.0001")
