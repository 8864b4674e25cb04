"""The condition DeadlineAtRisk."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view, views

from holdfast.core.capacity.cheapest import cheapest
from holdfast.core.capacity.deadline import deadline
from holdfast.core.capacity.ordered import ordered
from holdfast.core.capacity.outlook import Missing, Outlook
from holdfast.core.capacity.risk import Risk, deadline_risk

HOUR = 3600.0
OUT = replace(SPOT, available=False)
NO_GOAL = Missing("GoalMissing", "set spec.goal.steps")


def risk(*tiers, policy=deadline, missing=None, **given_view):
    found = view(*tiers, **given_view)
    return deadline_risk(Outlook(found, missing), policy(found))


@pytest.mark.parametrize(
    ("found", "status", "reason", "words"),
    [
        (risk(), "False", "InTime", "met even without Spot nodes"),
        (risk(work=1e-160), "False", "InTime", "met even without Spot nodes"),
        (risk(left=38 * HOUR), "True", "Late", "late by 2.2 h even if no node is lost"),
        (risk(left=-HOUR), "True", "DeadlineOver", "was 60 min ago, and the job will be late by 41.2 h"),
        (risk(OUT, left=-HOUR), "True", "DeadlineOver", "late by 41.0 h"),
        (risk(left=-HOUR, work=inf, missing=NO_GOAL, policy=ordered), "True", "DeadlineOver", "was 60 min ago"),
        (risk(work=inf, missing=NO_GOAL, policy=ordered), "Unknown", "GoalMissing", "set spec.goal.steps"),
        (risk(SPOT), "True", "NoDedicatedTier", "nothing can be promised"),
        (risk(SPOT, CPU), "True", "NoDedicatedTier", "fast enough"),
        (risk(SPOT, replace(DEDICATED, available=False)), "True", "DedicatedRefused", "dedicated is out"),
        (risk(left=40 * HOUR + 900), "True", "NoSlackLeft", "5 min late in the worst case"),
        (risk(work=0, left=-HOUR), "False", "Done", "the work is done"),
        (risk(policy=ordered, left=49 * HOUR), "False", "InTime", "only policy Deadline guarantees it"),
        (risk(policy=ordered, left=38 * HOUR), "True", "Late", "late by 2.2 h"),
        (risk(DEDICATED, CPU, policy=ordered, tier="cpu", returns="Never"), "True", "Late", "late by"),
        (risk(policy=cheapest, left=40 * HOUR + 900), "True", "NoSlackLeft", "5 min late"),
    ],
)
def test_the_condition(found, status, reason, words):
    assert (found.status, found.reason) == (status, reason)
    assert words in found.message


# Breaks if the condition counts on a node that nobody has seen, and does not say so, or says so of one that is there.
@pytest.mark.parametrize(
    ("available", "tier", "said"), [(None, None, True), (True, None, False), (None, "dedicated", False)]
)
def test_a_promise_says_on_which_node_it_depends(available, tier, said):
    found = risk(SPOT, replace(DEDICATED, available=available), tier=tier)
    assert (found.reason, "if dedicated gives a node in time" in found.message) == ("InTime", said)


def test_without_a_goal_a_deadline_that_is_over_says_no_more():
    found = risk(left=-HOUR, work=inf, missing=NO_GOAL, policy=ordered)
    assert found == Risk("True", "DeadlineOver", "the deadline was 60 min ago")


def test_on_a_tier_that_was_refused_to_others_the_promise_holds():
    refused = replace(DEDICATED, available=False)
    assert risk(SPOT, refused, tier="dedicated").status == "False"
    assert risk(SPOT, refused, tier="dedicated", policy=ordered).reason == "InTime"


def test_a_slow_tier_that_is_left_in_time_does_not_put_the_deadline_at_risk():
    """Half as fast as the net, and the work would take 80 h there; the net is gone to long before."""
    slow = replace(SPOT, speed=0.5)
    assert risk(slow, DEDICATED, tier="spot", left=60 * HOUR).reason == "InTime"
    assert risk(slow, DEDICATED, tier="spot", left=60 * HOUR, policy=ordered).reason == "Late"


@given(views())
def test_a_miss_is_never_silent(given_view):
    choice = deadline(given_view)
    found = deadline_risk(Outlook(given_view), choice)
    if given_view.work > 0 and (choice.late >= 1 or not choice.promised):
        assert found.status == "True" or found.reason == "InTime"
    if choice.late >= 1:
        assert found.status == "True"
    if choice.promised:
        assert found.status == "False"
