"""Which tier a job should be on, and which one a pending pod should watch."""

from dataclasses import replace
from decimal import Decimal

import pytest
from tests.support.decisions.snapshots import TIERS, attempt, job, snapshot, status, tier
from tests.support.decisions.tier_views import CPU, DEDICATED, NOWHERE, SECOND, SPOT, known, seen, training, view

from holdfast.core.capacity.choose import NO_PRICES, RULES, better_tiers, choose, probe

OUT, UNKNOWN = replace(SPOT, available=False), replace(SPOT, available=None, spell_age=None)
REFUSED = replace(DEDICATED, available=False)
FREE = [{name: value for name, value in one.items() if name != "pricePerNodeHour"} for one in TIERS]


def answer(given_status, tiers=TIERS, *, goal=100_000, **capacity):
    fields = {"tiers": list(tiers), "deadline": "2026-11-23T21:00:00Z", **capacity}
    made = snapshot(job(given_status, capacity=fields, goal={"steps": goal} if goal else {}), cluster=NOWHERE)
    return choose(made, given_status, made.grid)


@pytest.mark.parametrize(
    ("policy", "changes", "asked", "missing"),
    [
        ("Ordered", {}, "Ordered", None),
        ("Ordered", {"goal": None}, "Ordered", None),
        ("Cheapest", {}, "Cheapest", None),
        ("Cheapest", {"goal": None}, "Cheapest", None),
        ("Cheapest", {"tiers": FREE}, "Ordered", "PriceMissing"),
        ("Cheapest", {"tiers": [*FREE[:2], TIERS[2]]}, "Cheapest", None),
        ("Deadline", {}, "Deadline", None),
        ("Deadline", {"tiers": FREE}, "Deadline", None),
        ("Deadline", {"goal": None}, "Ordered", "GoalMissing"),
    ],
)
def test_ordered_replaces_a_policy_that_lacks_something(policy, changes, asked, missing):
    found = answer(status(training()), policy=policy, **changes)
    assert (found.policy, found.missing and found.missing.reason) == (asked, missing)
    assert found.choice == RULES[asked](found.outlook.view)


def test_before_the_first_steps_ordered_is_used():
    found = answer(status(attempt()), policy="Deadline")
    assert (found.policy, found.missing.reason, found.choice.tier) == ("Ordered", "PaceUnknown", "spot")
    assert "pricePerNodeHour" in NO_PRICES.message


def test_the_policies_differ():
    lost = status(tiers=(known(pace=SECOND, **seen("Refused", -60, -60)), known("cpu", pace=SECOND)))
    tiers = {policy: answer(lost, policy=policy).choice.tier for policy in RULES}
    assert tiers == {"Ordered": "dedicated", "Cheapest": "cpu", "Deadline": "cpu"}
    slow = status(tiers=lost.tiers[:1])
    assert {policy: answer(slow, policy=policy).choice.tier for policy in RULES} == {
        "Ordered": "dedicated", "Cheapest": "dedicated", "Deadline": None,
    }  # fmt: skip


def test_a_job_on_a_slow_spot_tier_watches_the_better_one():
    slow = replace(SPOT, name="slow", price=Decimal("0.19"), speed=0.4)
    on_slow = view(UNKNOWN, slow, DEDICATED, tier="slow")
    choice = RULES["Deadline"](on_slow)
    assert [one.name for one in better_tiers(on_slow, choice, "Deadline")] == ["spot"]
    assert probe(on_slow, choice, better_tiers(on_slow, choice, "Deadline")) == "spot"
    on_fast = replace(on_slow, tier="spot")
    assert not better_tiers(on_fast, RULES["Deadline"](on_fast), "Deadline")


def test_the_job_on_its_fallback_watches_spot():
    found = answer(status(training(tier=tier("dedicated"))), policy="Deadline")
    assert (found.choice.tier, found.probe) == ("dedicated", "spot")


SECOND_SPOT = replace(UNKNOWN, name="second", price=Decimal("0.9"))


@pytest.mark.parametrize(
    ("policy", "given_view", "probed"),
    [
        ("Deadline", view(OUT, DEDICATED, tier="dedicated"), "spot"),
        ("Deadline", view(OUT, SECOND_SPOT, DEDICATED, tier="dedicated"), "second"),  # its state is not known
        ("Deadline", view(OUT, replace(SECOND_SPOT, available=False), DEDICATED, tier="dedicated"), "second"),
        ("Deadline", view(SPOT, SECOND_SPOT, DEDICATED, tier="dedicated"), None),  # it proves itself
        ("Deadline", view(OUT, DEDICATED, tier="dedicated", work=300), None),  # not worth it
        ("Deadline", view(replace(OUT, spell_age=0.0), DEDICATED), "spot"),  # waits
        ("Deadline", view(replace(OUT, spell_age=0.0), DEDICATED, tier="gone"), "spot"),
        ("Deadline", view(), None),  # goes there
        ("Deadline", view(tier="spot"), None),
        ("Deadline", view(SPOT, SECOND_SPOT, tier="spot"), None),  # without a net, the job stays
        ("Deadline", view(SPOT, REFUSED, tier="spot"), "dedicated"),  # its net is out
        ("Deadline", view(OUT, REFUSED, CPU, tier="cpu"), "spot"),  # its net is slow, and every other tier is better
        ("Deadline", view(REFUSED, CPU, tier="cpu"), "dedicated"),
        ("Ordered", view(OUT, SECOND_SPOT, DEDICATED, tier="dedicated"), "second"),
        ("Ordered", view(OUT, DEDICATED, CPU, tier="dedicated"), "spot"),
        ("Ordered", view(OUT, DEDICATED, tier="dedicated", returns="Never"), None),
        ("Ordered", view(UNKNOWN, DEDICATED), None),
        ("Cheapest", view(OUT, DEDICATED, CPU, tier="dedicated"), "spot"),
        ("Cheapest", view(CPU, DEDICATED, tier="dedicated"), None),  # not cheaper
    ],
)
def test_which_tier_a_probe_watches(policy, given_view, probed):
    choice = RULES[policy](given_view)
    assert probe(given_view, choice, better_tiers(given_view, choice, policy)) == probed
