"""The price of work: which tiers a job needs to be in time."""

from dataclasses import replace
from decimal import Decimal

import pytest
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view

from holdfast.core.capacity.safety_net import find_net
from holdfast.core.capacity.work_price import (
    IDLE,
    UP,
    Comparison,
    Forecast,
    Kind,
    forecasts,
    hourly_prices,
    steps,
    work_price,
)

HOUR = 3600.0
FAST, DEAR, SLOW = Kind(1.0, 1.0, False), Kind(3.0, 1.0, True), Kind(0.19, 0.4, False)
T4 = replace(SPOT, name="t4", price=Decimal("0.19"), speed=0.4)


def compared(*tiers, **given):
    made = view(*tiers, **given)
    return Comparison.of(made, find_net(made))


def test_each_step_says_which_tier_is_better_above_it():
    found = steps((IDLE, FAST, SLOW, DEAR))
    assert [round(step.price, 3) for step in found] == [0.475, 1.0, 1.35, 3.0, 4.683]
    by_price = {round(step.price, 3): step for step in found}
    assert by_price[1.35].slow[:2] == (2, 1), "below it the slow tier comes first"
    assert by_price[1.35].fast[:2] == (1, 2)
    assert by_price[3.0].fast == (1, 2, 3), "instead of waiting, the job takes the dedicated tier"
    assert by_price[4.683].fast == (1, 3), "the slow tier is too slow"


def test_the_mean_speed_of_a_job_that_takes_the_best_tier_that_is_up():
    found = Forecast((IDLE, FAST, DEAR), (1.0, 0.8, 1.0))
    assert found.mean_speed((1, 0)) == pytest.approx(0.8)
    assert found.mean_speed((1, 2)) == pytest.approx(1.0)
    assert found.speeds_with(DEAR) == (pytest.approx(0.8), pytest.approx(1.0))
    assert found.speeds_with(SLOW) is None


def test_less_time_never_makes_work_cheaper():
    found = Forecast((IDLE, FAST, SLOW, DEAR), (1.0, 0.8, 0.8, 1.0))
    prices = [found.work_price(need / 100) for need in range(5, 120)]
    assert prices == sorted(prices)
    assert prices[0] == pytest.approx(0.475), "the cheapest tier suffices"
    assert prices[-1] > 4.683, "no tier is fast enough"


def test_without_prices_there_is_nothing_to_compare():
    assert Forecast((IDLE, Kind(0.0, 1.0, True)), (1.0, 1.0)).work_price(0.5) == 0.0


def test_an_old_spell_goes_on():
    def up(**changes):
        made = view(replace(SPOT, **changes), DEDICATED)
        return forecasts(made, made.tiers[:1], hourly_prices(made.tiers), (UP,), aged=True)[0].up[1]

    assert up(available=None) == UP
    assert up(available=False, spell_age=99 * HOUR) < up(available=False, spell_age=HOUR) < UP
    assert UP < up(available=True, spell_age=HOUR) < up(available=True, spell_age=99 * HOUR)


def test_a_dedicated_tier_that_is_out_makes_no_offer():
    made = view(SPOT, replace(DEDICATED, available=False))
    assert len(forecasts(made, made.tiers, hourly_prices(made.tiers), (UP,), aged=True)[0].kinds) == 2


def test_changeovers_take_time_too():
    made = view(SPOT, T4, DEDICATED, left=44 * HOUR)
    hourly = hourly_prices(made.tiers)
    assert work_price(made, hourly, 0) < work_price(made, hourly, 2400)


@pytest.mark.parametrize(
    ("spot", "dedicated", "found"), [(None, None, (1, 3)), (None, Decimal(6), (2, 6)), (Decimal(2), None, (2, 6))]
)
def test_a_missing_price_is_taken_at_the_usual_ratio(spot, dedicated, found):
    assert tuple(hourly_prices((replace(SPOT, price=spot), replace(DEDICATED, price=dedicated))).values()) == found


def test_a_slow_tier_is_used_only_while_there_is_time():
    """Breaks if slack is ignored when a tier is chosen."""
    ample, tight = compared(SPOT, T4, DEDICATED, left=130 * HOUR), compared(SPOT, T4, DEDICATED, left=42 * HOUR)
    assert ample.worth < tight.worth
    assert ample.is_fast_enough(T4)
    assert not tight.is_fast_enough(T4)
    assert compared(T4, DEDICATED, left=42 * HOUR).is_fast_enough(T4), "without a fast Spot tier slack has no other use"


def test_a_stopgap_is_no_better_than_the_fallback():
    crawl = replace(T4, name="crawl", price=Decimal("0.01"), speed=0.05)
    assert compared(SPOT, crawl, DEDICATED).is_stopgap(crawl)
    assert not compared(SPOT, T4, DEDICATED).is_stopgap(T4)


def test_the_fallback_leaves_slack_for_spot():
    """Breaks if a slow dedicated tier that is just in time counts as the fallback because it is a little cheaper."""
    slow = replace(DEDICATED, name="slow", price=Decimal("1.2"), speed=0.5)
    assert compared(SPOT, DEDICATED, slow, left=84 * HOUR).fallback is DEDICATED
    assert compared(SPOT, DEDICATED, slow, left=120 * HOUR).fallback is slow
    fast = replace(DEDICATED, name="fast", price=Decimal(18), speed=3.0)
    assert compared(SPOT, DEDICATED, fast, left=44 * HOUR).fallback is DEDICATED, "the fast one is for need alone"


def test_a_dedicated_tier_with_an_assumed_speed_is_not_the_safety_net():
    unknown = replace(DEDICATED, name="unknown", price=Decimal(2), speed_assumed=True)
    assert compared(SPOT, unknown, DEDICATED).net.tier is DEDICATED
    assert compared(SPOT, unknown, DEDICATED, left=40 * HOUR + 2900).fallback is DEDICATED
    assert compared(SPOT, unknown, DEDICATED).fallback is unknown, "if it is slow, there is time to leave it"
    assert compared(SPOT, unknown, left=41 * HOUR).net.tier is unknown


def test_a_cpu_that_is_free_is_used_at_every_price():
    free = replace(CPU, price=Decimal(0))
    made = view(SPOT, free, DEDICATED)
    (found,) = forecasts(made, made.tiers, hourly_prices(made.tiers), (UP,), aged=False)
    assert found.speeds_with(Kind(3.0, 1.0, True)) == (pytest.approx(0.8 + 0.2 * 0.02), pytest.approx(1.0))
