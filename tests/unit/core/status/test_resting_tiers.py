"""The condition TierResting: what people read while attempts leave a tier out."""

from tests.support.decisions.snapshots import TIERS, at, attempt, job, pod, settled, snapshot, status, stepped, tier
from tests.support.decisions.tier_views import known

from holdfast.api.status import Condition

TRAINS = attempt(fenced=True, first_step=500, tier=tier("dedicated"))
RESTS = known("spot", fruitless=3, rests_until=at(60.351125))  # people read whole seconds


def condition(decision):
    return next((one for one in decision.status.conditions if one.type == "TierResting"), None)


def decided(*tiers, conditions=(), **changes):
    given = job(status(TRAINS, tiers=tiers, conditions=conditions), **changes)
    return settled(snapshot(given, pod(), reports=[stepped()]))


def test_a_tier_that_rests_is_named_with_the_reason_and_the_time():
    decision = decided(RESTS)
    found = condition(decision)
    assert (found.status, found.reason) == ("True", "FruitlessAttempts")
    words = "spot: 3 attempts in a row ended before they made progress; it is left out until 2026-11-21T09:01:00Z"
    assert found.message == words
    assert [(one.type, one.message) for one in decision.events if one.reason == "TierResting"] == [("Warning", words)]
    assert decision.requeue_at <= at(61)
    again = decided(RESTS, conditions=decision.status.conditions)
    assert [one.reason for one in again.events] == []


def test_if_every_tier_rests_attempts_go_on():
    found = condition(decided(*(known(one["name"], fruitless=2, rests_until=at(60)) for one in TIERS)))
    assert found.message.endswith("; no other tier is left, so attempts go on")


def test_a_tier_that_has_rested_is_not_named():
    assert condition(decided(known("spot", fruitless=3, rests_until=at(0)))) is None
    assert condition(decided(known("gone", fruitless=3, rests_until=at(60)))) is None
    rested = Condition(type="TierResting", status="True", reason="FruitlessAttempts", last_transition_time=at(-60))
    found = condition(decided(known("spot", fruitless=3, rests_until=at(0)), conditions=(rested,)))
    assert (found.status, found.reason, found.message) == ("False", "NotResting", "")


def test_a_policy_that_knows_prices_lets_no_tier_rest():
    paced = RESTS.model_copy(update={"pace": at(1) - at(0)})
    assert condition(decided(paced, capacity={"tiers": list(TIERS), "policy": "Cheapest"})) is None
