"""A job does not go back and forth between tiers: invariants over many decisions."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decisions.snapshots import (
    NOW,
    at,
    attempt,
    container,
    nodes,
    pending,
    placed,
    pod,
    settled,
    snapshot,
    status,
    stored,
)
from tests.support.decisions.snapshots import stepped as reported
from tests.unit.core.table.policy_cases import known, training, under
from tests.unit.core.table.row_cases import ACQUIRING, STARTING
from tests.unit.core.table.successor_cases import follower

from holdfast.core.decide import decide
from holdfast.core.observe.report import SavedCheckpoint

ON_N1 = nodes(without=("n2", "n3", "n4"))


def says(now):
    """A report of a trainer that takes a step a second and has just saved."""
    saved = SavedCheckpoint(900 + now, "s3://runs/vision/vit/manifests/1.json", 9, at(now))
    return reported(step=900 + now, step_at=at(now), received_at=at(now), checkpoint=saved)


def steady(given_job, pods, seconds, every=60):
    """Decisions about a job that trains on, one a minute: the numbers of all attempts that were raised."""
    raised, now = [], 0
    while now < seconds:
        view = snapshot(given_job, *pods, reports=[says(now)], now=at(now), cluster=ON_N1)
        decision = decide(view)
        raised.append(decision.status.attempt)
        given_job, now = stored(given_job, decision.status), now + every
    return raised, given_job.status


@pytest.mark.parametrize("policy", ["Deadline", "Cheapest", "Ordered"])
def test_a_probe_waits_for_as_long_as_it_takes(policy):
    """One pod on the one Spot tier, for hours: it is neither replaced nor given up."""
    waits = follower(ACQUIRING, created_at=at(-70))
    given_job = under(policy, status(training("dedicated"), successor=waits), slack=36_000)
    raised, after = steady(given_job, [pod(), pending(2)], 4 * 3600)
    assert set(raised) == {2}
    assert after.successor.number == 2


@settings(max_examples=25)
@given(slack=st.integers(-7200, 90_000), policy=st.sampled_from(("Deadline", "Cheapest")))
def test_on_spot_at_most_one_successor_comes_up_with_any_slack(slack, policy):
    """It goes to its safety net if it has to, and then waits for it: at most one change of plan."""
    given_job = under(policy, status(training()), slack=slack)
    numbers, now = {1}, 0
    while now < 3600:
        beside = [pending(max(numbers), created_at=at(now - 60))] if max(numbers) > 1 else []
        decision = decide(snapshot(given_job, pod(), *beside, reports=[says(now)], now=at(now), cluster=ON_N1))
        numbers.add(decision.status.attempt)
        given_job, now = stored(given_job, decision.status), now + 60
    assert len(numbers) <= 2
    assert given_job.status.restarts.interruptions == 0


def test_a_node_that_was_given_back_is_not_asked_for_again_at_once():
    waits = follower(STARTING, scheduled_at=at(-60))
    given_job = under("Deadline", status(training("dedicated"), successor=waits), maxOverlap="1m", slack=20_000)
    view = snapshot(given_job, pod(), pod(2, node="n2"), reports=[says(0)])
    decision = settled(view)
    assert decision.trace == ("successor not worth it",)
    assert decision.status.current.return_after > at(60)
    assert decision.status.current.return_after <= at(0) + timedelta(minutes=10)


def test_a_reason_that_may_last_delays_the_next_try_and_an_interruption_does_not():
    given_job = under("Cheapest", status(training("dedicated", failed_successors=2), successor=follower(STARTING)))
    stuck = placed(2, node="n2", trainer=container(waiting="InvalidImageName"))
    failed = settled(snapshot(given_job, pod(), stuck, reports=[says(0)])).status.current
    lost = settled(snapshot(given_job, pod(), placed(2, node="n2"), cluster=ON_N1, reports=[says(0)])).status.current
    assert (failed.failed_successors, failed.return_after) == (3, at(40 * 60))
    assert (lost.failed_successors, lost.return_after) == (2, at(20 * 60))


# Breaks if back-offs add up until the deadline cannot be kept: only the cost of a failed start is calculated.
@pytest.mark.parametrize(("slack", "waits"), [(36_000, 300), (1_600, 0), (60, 0)])
def test_no_more_time_is_waited_after_an_interruption_than_the_deadline_allows(slack, waits):
    paces = (known(state=None), known("dedicated", state=None))
    lost = status(attempt(1, STARTING), tiers=paces, progress={"step": 900}, fruitless_interruptions=5)
    view = snapshot(under("Deadline", lost, slack=slack), pod(trainer=None), cluster=nodes(without=("n1",)))
    after = decide(view).status
    assert after.history[-1].reason == "NodeGone"
    assert ((after.current.retry_at or NOW) - NOW).total_seconds() == waits
