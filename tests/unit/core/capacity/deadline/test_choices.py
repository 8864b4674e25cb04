"""Policy Deadline where tiers differ in speed, or are seldom seen."""

from dataclasses import replace
from decimal import Decimal

import pytest
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view

from holdfast.core.capacity.deadline import better_spots, deadline

HOUR = 3600.0
OUT = replace(SPOT, available=False)


def held(tier, seconds):
    return replace(tier, spell_age=seconds)


T4 = replace(SPOT, name="t4", price=Decimal("0.19"), speed=0.4)


def test_a_slow_cheap_tier_is_used_while_the_fast_one_is_out():
    assert deadline(view(SPOT, T4, DEDICATED)).tier == "spot"
    assert deadline(view(OUT, T4, DEDICATED)).tier == "t4"
    assert deadline(view(SPOT, T4, DEDICATED, left=200 * HOUR)).tier == "t4", "there is time for the cheapest work"


def test_with_little_slack_a_slow_tier_is_not_used():
    assert deadline(view(held(OUT, HOUR), T4, DEDICATED, left=41 * HOUR)).tier == "dedicated"
    leaves = deadline(view(held(OUT, HOUR), T4, DEDICATED, left=41 * HOUR, tier="t4"))
    assert (leaves.tier, "t4 is too slow" in leaves.reason) == ("dedicated", True)
    assert deadline(view(SPOT, T4, DEDICATED, left=41 * HOUR, tier="dedicated", work=40 * HOUR)).tier == "dedicated"


def test_the_job_leaves_a_slow_tier_for_a_fast_one_that_has_proved_itself():
    young = deadline(view(SPOT, T4, DEDICATED, tier="t4"))
    assert (young.tier, young.watch, "a move pays after" in young.reason) == ("t4", True, True)
    old = deadline(view(held(SPOT, 2 * HOUR), T4, DEDICATED, tier="t4"))
    assert old.tier == "spot"
    out = deadline(view(OUT, T4, DEDICATED, tier="t4"))
    assert (out.tier, out.watch) == ("t4", True), "it matters whether the fast tier comes back"
    assert not deadline(view(SPOT, T4, DEDICATED, tier="spot", left=42 * HOUR)).watch


def test_better_spots_are_those_that_the_job_would_leave_its_spot_tier_for():
    tiers = SPOT, T4, DEDICATED
    assert better_spots(view(*tiers, tier="t4")) == [SPOT]
    assert better_spots(view(*tiers, tier="spot", left=42 * HOUR)) == []
    assert better_spots(view(*tiers, tier="dedicated")) == []
    assert better_spots(view(*tiers, tier="t4", work=0)) == []


def test_expensive_spot_is_not_used_while_there_is_time_to_wait():
    dear = replace(SPOT, name="dear", price=Decimal("2.3"))
    assert deadline(view(OUT, dear, DEDICATED, left=80 * HOUR)).tier is None
    given = view(held(OUT, 2 * HOUR), dear, DEDICATED, left=42 * HOUR)
    assert deadline(given).tier == "dedicated", "an interruption would cost more than it saves"
    assert deadline(view(held(OUT, 2 * HOUR), held(dear, 3 * HOUR), DEDICATED, left=42 * HOUR)).tier == "dear"
    back = deadline(view(held(SPOT, 5 * HOUR), dear, DEDICATED, tier="dear"))
    assert back.tier == "spot"


def test_a_job_waits_as_long_as_if_there_were_no_expensive_spot():
    """Breaks if a job waits for Spot that it would not take when it comes up, or counts on it to make up for a wait."""
    dear = replace(SPOT, name="dear", price=Decimal("2.3"))
    for age in (60.0, 1400.0, 1600.0, 5 * HOUR):
        alone = deadline(view(held(OUT, age), DEDICATED))
        for other in (held(replace(dear, available=False), 60.0), held(dear, 60.0)):
            beside = deadline(view(held(OUT, age), other, DEDICATED))
            assert (beside.tier, beside.again_within) == (alone.tier, pytest.approx(alone.again_within)), beside.reason


def test_expensive_spot_must_be_up_for_longer_beside_a_cheaper_tier():
    """Breaks if slack counts at what the expensive tier saves with it, not at what the best tier would save."""
    dear = held(replace(SPOT, name="dear", price=Decimal("2.3")), 1.7 * HOUR)
    given = {"left": 43 * HOUR, "tier": "dedicated"}
    assert deadline(view(dear, DEDICATED, **given)).tier == "dear", "it is the best tier"
    assert deadline(view(OUT, dear, DEDICATED, **given)).tier == "dedicated"
    assert deadline(view(OUT, held(dear, 4 * HOUR), DEDICATED, **given)).tier == "dear"


def test_a_short_wait_is_not_worth_the_changeover_to_a_slow_dedicated_tier():
    """Breaks if a changeover that takes longer than the wait counts as work."""
    slow = replace(DEDICATED, name="slow", price=Decimal("1.2"), speed=0.5)
    given = view(held(OUT, 60.0), slow, DEDICATED, left=43 * HOUR)
    assert deadline(given).tier is None
    assert deadline(replace(given, tier="slow")).tier == "slow", "it has no changeover ahead there"


def test_a_very_slow_tier_is_a_place_to_wait_but_not_longer_than_without_it():
    crawl = replace(T4, name="crawl", price=Decimal("0.01"), speed=0.05)
    young, old = (view(held(OUT, age), crawl, DEDICATED, left=46 * HOUR) for age in (60, 2 * HOUR))
    assert deadline(young).tier == "crawl"
    assert deadline(old).tier == "dedicated"
    assert deadline(replace(old, tier="crawl")).tier == "dedicated"
    assert deadline(replace(old, tier="dedicated")).tier == "dedicated"


def test_a_tier_of_unknown_speed_may_be_as_good_as_none():
    unknown = replace(SPOT, speed_assumed=True)
    assert deadline(view(unknown, DEDICATED, tier="spot", left=40 * HOUR + 1799)).tier == "dedicated"
    assert deadline(view(tier="spot", left=40 * HOUR + 1799)).tier == "spot"
    guess = replace(DEDICATED, name="guess", price=Decimal(2), speed_assumed=True)
    leaves = deadline(view(OUT, guess, DEDICATED, tier="guess", left=40 * HOUR + 1700))
    assert (leaves.tier, "the speed of guess is not known" in leaves.reason) == ("dedicated", True)


def test_a_job_that_searches_waits_no_longer_because_a_tier_was_asked_again():
    """Breaks if an outage seems young as long as one tier was asked just now, or not at all."""
    asked = held(OUT, 5.0)
    unseen = replace(SPOT, name="unseen", available=None, spell_age=None, refused_ago=1000.0)
    young = view(asked, replace(OUT, name="never", spell_age=None), unseen, DEDICATED)
    assert deadline(young).tier is None
    assert deadline(replace(young, searching=2 * HOUR)).tier == "dedicated"
    fresh = replace(unseen, refused_ago=None)
    assert deadline(view(asked, fresh, DEDICATED, searching=2 * HOUR)).tier == "unseen", "it was not asked yet"


def test_without_a_promise_the_fastest_spot_tier_is_taken():
    assert deadline(view(T4, SPOT, CPU)).tier == "spot"


def test_a_fast_expensive_tier_is_no_place_to_wait():
    fast = replace(DEDICATED, name="fast", price=Decimal(8), speed=2.0)
    assert deadline(view(OUT, DEDICATED, fast, left=40 * HOUR + 3000)).tier is None
