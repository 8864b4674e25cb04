"""What people see of deadline, budget and policy: the reason of the choice, and conditions."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from tests.support.decisions.snapshots import (
    NOW,
    TIERS,
    at,
    attempt,
    ended,
    job,
    pending,
    pod,
    profile,
    settled,
    snapshot,
    stored,
)
from tests.support.decisions.snapshots import status as a_status
from tests.unit.core.table.policy_cases import NO_NODES, SAYS, WORK, known, training, under
from tests.unit.core.table.row_cases import ACQUIRING, DONE

from holdfast.api.model import merge_patch
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import format_time
from holdfast.api.status import Phase
from holdfast.core.capacity.deadline import LOOK
from holdfast.core.decide import decide

HOUR = 3600
RUNS = {"action": "Run", "message": "running on n1 (spot)", "at": at(-500)}


def decided(given_job, *pods, **view):
    """The decision about a job, whose trainer reports as `training` says if its pod is given."""
    seen = [SAYS] if any(one.attempt == 1 and one.node for one in pods) else []
    return settled(snapshot(given_job, *pods, **{"reports": seen, **view}))


def condition(decision, kind):
    found = next((one for one in decision.status.conditions if one.type == kind), None)
    return (found.status, found.reason, found.message) if found else None


def risk(given_job, *pods, **view):
    return condition(decided(given_job, *pods, **view), "DeadlineAtRisk")


# The deadline


def test_a_deadline_that_can_be_kept():
    assert risk(under("Deadline", a_status(training())), pod()) == (
        "False", "InTime", "the deadline is met even without Spot nodes, if dedicated gives a node in time: whether it "
        "has one is not known",
    )  # fmt: skip
    assert risk(job(a_status(training()), goal={"steps": 100_000}), pod()) is None


def test_a_job_trains_on_after_its_deadline():
    decision = decided(under("Deadline", a_status(training()), slack=-WORK - HOUR), pod())
    assert condition(decision, "DeadlineAtRisk") == (
        "True", "DeadlineOver", "the deadline was 60 min ago, and the job will be late by 28.6 h",
    )  # fmt: skip
    assert decision.status.phase is Phase.RUNNING
    assert [event.reason for event in decision.events] == ["TierChosen", "DeadlineAtRisk"]


def test_an_impossible_deadline_says_how_late_the_job_will_be():
    late = risk(under("Deadline", a_status(training()), slack=-2 * HOUR), pod())
    assert late == ("True", "Late", "late by 2.1 h even if no node is lost from now on")


def test_without_a_dedicated_tier_nothing_is_promised():
    alone = under("Deadline", a_status(training(), decision=RUNS), tiers=[TIERS[0]])
    decision = decided(alone, pod())
    assert condition(decision, "DeadlineAtRisk")[:2] == ("True", "NoDedicatedTier")
    said = "spot: up for 10 min, stay; no dedicated tier, so the deadline cannot be promised"
    assert decision.status.decision.message == said


def test_dedicated_is_refused_too():
    waits = attempt(2, ACQUIRING, tier=TIERS[1], created_at=at(-300), acquire_deadline=at(0))
    given_job = under("Deadline", a_status(waits, tiers=(known(),)), slack=3000, tiers=TIERS[:2])
    found = risk(given_job, pending(2), cluster=NO_NODES)
    assert found == ("True", "DedicatedRefused", "dedicated is out: nothing can be promised")


def test_a_deadline_is_watched_under_every_policy():
    watched = under("Ordered", a_status(training()), slack=-2 * HOUR)
    assert risk(watched, pod())[1] == "Late"
    kept = risk(under("Ordered", a_status(training())), pod())
    assert kept == ("False", "InTime", "in time at the present pace; only policy Deadline guarantees it")


@pytest.mark.parametrize(
    ("slack", "said"),
    [
        (-WORK - 60, ("True", "DeadlineMissed", "the job was complete 60 s after its deadline")),
        (-WORK + 60, ("False", "Done", "the job was complete before its deadline")),
    ],
)
def test_a_complete_job_met_or_missed_its_deadline(slack, said):
    decision = decided(
        under("Deadline", a_status(training()), slack=slack),
        ended(1, 0, DONE),
    )
    assert decision.status.phase is Phase.COMPLETED
    assert condition(decision, "DeadlineAtRisk") == said


def test_a_removed_deadline_has_no_condition():
    before = decided(under("Deadline", a_status(training())), pod()).status
    after = decided(under("Ordered", before, deadline=None), pod())
    assert condition(after, "DeadlineAtRisk") is None
    assert condition(after, "PolicyFallback") is None


# What a policy lacks


def test_what_a_policy_lacks_is_reported():
    capacity = {"tiers": list(TIERS), "policy": "Deadline", "deadline": "2026-11-23T09:00:00Z"}
    decision = decided(job(a_status(training()), capacity=capacity), pod())
    status, reason, message = condition(decision, "PolicyFallback")
    assert (status, reason) == ("True", "GoalMissing")
    assert "set spec.goal.steps" in message
    assert "tiers are tried in order until then" in message
    assert [(event.reason, event.type) for event in decision.events] == [("PolicyFallback", "Warning")]
    assert condition(decision, "DeadlineAtRisk")[:2] == ("Unknown", "GoalMissing")


def test_an_unknown_pace_before_the_first_steps_is_not_a_warning():
    decision = decided(under("Deadline", a_status(attempt())), pod(), reports=[])
    assert condition(decision, "PolicyFallback")[:2] == ("True", "PaceUnknown")
    assert {event.type for event in decision.events} == {"Normal"}
    later = decided(under("Deadline", a_status(training(), conditions=decision.status.conditions)), pod())
    assert condition(later, "PolicyFallback") == ("False", "Deadline", "policy Deadline is in force")
    assert later.events == ()


def test_prices_of_zero_are_prices():
    """Reserved nodes are free: the work costs nothing on any tier, so no move pays."""
    free = [{**one, "pricePerNodeHour": "0"} for one in TIERS]
    for policy in ("Deadline", "Cheapest"):
        decision = decided(under(policy, a_status(training("dedicated")), tiers=free), pod())
        assert condition(decision, "PolicyFallback")[0] == "False"
        assert decision.status.successor is None
    unpaid = training().model_copy(update={"tier": ProfileTier.model_validate(free[0])})
    within = decided(under("Ordered", a_status(unpaid), tiers=free, budget="0"), pod())
    assert condition(within, "BudgetAtRisk")[:2] == ("False", "Enough")


def test_the_profile_is_deleted_while_the_job_trains():
    capacity = {"profile": "grid", "policy": "Deadline", "deadline": format_time(at(WORK - HOUR))}
    given_job = job(a_status(training()), capacity=capacity, goal={"steps": 100_000})
    before = decided(given_job, pod(), profile=profile())
    assert condition(before, "DeadlineAtRisk")[1] == "Late"
    after = decided(given_job.model_copy(update={"status": before.status}), pod())
    assert after.status.current.tier.name == "spot"
    assert condition(after, "DeadlineAtRisk")[:2] == ("True", "Late"), "on the tier that it is on"


@pytest.mark.parametrize("hours", [1, -1])
@pytest.mark.parametrize("tier", ["spot", "dedicated"])
def test_the_clock_jumps_by_an_hour(hours, tier):
    """Nothing is lost or counted, and no further writes follow."""
    calm = decided(under("Deadline", a_status(training(tier))), pod())
    jumped = decided(under("Deadline", calm.status), pod(), now=at(hours * HOUR))
    assert jumped.status.restarts == calm.status.restarts
    assert jumped.status.current.tier.name == tier
    assert jumped.status.history == ()


# The choice in words


def test_the_decision_has_the_reason_and_time_of_the_choice():
    first = decided(under("Deadline", a_status(training(), decision=RUNS)), pod()).status.decision
    assert (first.message.partition(":")[0], first.at) == ("spot", NOW)
    assert "of slack for 27.5 h of work" in first.message


def test_new_numbers_alone_are_not_written():
    given_job = under("Deadline", a_status(training(), decision=RUNS), budget="900")
    first = snapshot(given_job, pod(), reports=[SAYS])
    said = decide(first)
    later = replace(first, job=stored(given_job, said.status), now=at(9))
    quiet = decide(later)
    assert merge_patch(said.status, quiet.status) == {}
    assert said.status.decision.message != given_job.status.decision.message
    further = replace(SAYS, received_at=at(8), step=910, step_at=at(8))
    moved = decide(replace(later, reports={"u-1": further}, now=at(20)))
    assert moved.status.decision.at == NOW
    assert moved.status.decision.message != said.status.decision.message


def test_a_policy_is_asked_again_in_time():
    assert decided(under("Deadline", a_status(training())), pod()).requeue_at <= at(LOOK)
    watching = decided(under("Deadline", a_status(training("dedicated", return_after=at(9000)))), pod())
    assert watching.requeue_at <= NOW + timedelta(minutes=10)


# The budget


def test_a_short_budget_is_reported_long_before():
    decision = decided(under("Ordered", a_status(training()), budget="20"), pod())
    status, reason, message = condition(decision, "BudgetAtRisk")
    assert (status, reason) == ("True", "Short")
    assert message.startswith("0.17 of 20 spent; finishing on spot costs about ")
    assert message.endswith("too much")
    assert decision.status.phase is Phase.RUNNING
    assert ("Warning", "BudgetAtRisk") in [(event.type, event.reason) for event in decision.events]
    again = decided(under("Ordered", decision.status, budget="20"), pod())
    assert again.events == ()


def test_a_budget_that_is_enough_and_one_of_unknown_cost():
    assert condition(decided(under("Ordered", a_status(training()), budget="900"), pod()), "BudgetAtRisk")[:2] == (
        "False", "Enough",
    )  # fmt: skip
    unknown = decided(under("Ordered", a_status(attempt()), budget="900"), pod(), reports=[])
    assert condition(unknown, "BudgetAtRisk")[:2] == ("Unknown", "CostUnknown")


def test_a_job_is_woken_before_its_budget_is_used_up():
    """0.17 is spent of 0.25 at 1.02 an hour: 4.7 min are left, of which it takes 190 s to leave."""
    decision = decided(under("Ordered", a_status(training()), budget="0.25"), pod())
    assert at(80) < decision.requeue_at < at(110)
    then = decision.requeue_at + timedelta(seconds=1)
    over = decided(under("Ordered", decision.status, budget="0.25"), pod(), now=then)
    assert over.trace == ("suspend",)


# The forecast


def expected(given_job, *pods, **view):
    """Cost when it is done, slack, and how late it will be."""
    found = decided(given_job, *pods, **view).status.forecast
    return found.cost, found.slack, found.late


def test_the_expected_cost_includes_the_tiers_interruptions():
    """99,100 steps of 1 s at 1.02 an hour are 28.08, and 590 s were paid for; Spot takes some of it back."""
    cost, slack, late = expected(under("Deadline", a_status(training(), decision=RUNS)), pod())
    assert Decimal("28.25") < cost < 2 * Decimal("28.25")
    assert (slack, late) == (timedelta(hours=10), None)
    kept = known(state=None, interruptions=0, node_time=timedelta(days=400))
    reliable, *_ = expected(under("Deadline", a_status(training(), tiers=(kept,), decision=RUNS)), pod())
    assert Decimal("28.24") < reliable < Decimal("28.26")


def test_a_job_that_will_be_late_has_no_slack():
    cost, slack, late = expected(under("Deadline", a_status(training(), decision=RUNS), slack=-2 * HOUR), pod())
    assert (cost is not None, slack) == (True, timedelta(0))
    assert timedelta(hours=2) <= late <= timedelta(hours=2, minutes=10)


def test_there_is_no_forecast_without_a_goal_or_a_price_or_once_the_work_is_done():
    assert expected(job(a_status(training(), decision=RUNS)), pod()) == (None, None, None)
    free = [{**tier, "pricePerNodeHour": None} for tier in TIERS]
    cost, slack, _ = expected(under("Deadline", a_status(training(), decision=RUNS), tiers=free), pod())
    assert (cost, slack) == (None, timedelta(hours=10))
    assert expected(under("Deadline", a_status(training(), decision=RUNS)), ended(1, 0)) == (None, None, None)


def test_a_forecast_alone_is_not_written():
    given = under("Deadline", a_status(training(), decision=RUNS))
    first = decided(given, pod())
    assert first.status.forecast.at == NOW
    again = stored(given, first.status)
    later = decided(again, pod(), now=NOW + timedelta(seconds=90))
    assert later.status.forecast == first.status.forecast
