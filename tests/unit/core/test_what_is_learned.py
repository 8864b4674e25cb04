"""Status keeps what attempts learn about their tiers, once each."""

from tests.support.decisions.snapshots import (
    TIERS,
    at,
    attempt,
    ended,
    job,
    node,
    nodes,
    pending,
    placed,
    pod,
    settled,
    snapshot,
    status,
    stepped,
    stopped,
    tier,
)
from tests.support.decisions.tier_views import known as knows
from tests.support.decisions.tier_views import measured, seen
from tests.unit.core.table.policy_cases import training, under
from tests.unit.core.table.row_cases import ACQUIRING, DRAINED, DRAINING, FENCED, STARTING
from tests.unit.core.table.successor_cases import follower


def learned(given_status, *pods, tiers=TIERS, **view):
    """What is known afterwards, by tier; `settled` decides twice, and would see it change again."""
    decision = settled(snapshot(job(given_status, capacity={"tiers": list(tiers)}), *pods, **view))
    return {one.tier: one for one in decision.status.tiers}


def test_a_node_is_there():
    waits = attempt(state=ACQUIRING, created_at=at(-599))
    stood = nodes(node("n1", ready_changed_at=at(-590)), without=("n2", "n3", "n4"))
    found = learned(status(waits), placed(), cluster=stood)
    assert found == {"spot": knows(acquire=measured(9), **seen("Up", -590, -590))}


def test_a_node_that_stood_there_for_long_was_up_for_as_long():
    """Otherwise a tier seems to have come back just when a job goes there, and the job would go back at once."""
    waits = status(attempt(state=ACQUIRING, created_at=at(-20), raised_at=at(-21)))
    standing = learned(waits, placed(created_at=at(-20), scheduled_at=at(-9)))["spot"]
    assert (standing.since, standing.seen_at) == (at(-9000), at(-9))


def test_a_node_that_was_made_for_the_pod_is_billed():
    waits = attempt(state=ACQUIRING, created_at=at(-599))
    made = nodes(node("n1", created_at=at(-595)), without=("n2", "n3", "n4"))
    assert learned(status(waits), placed(), cluster=made)["spot"].observation == "Billed"
    stood = nodes(node("n1", created_at=at(-9000)))
    assert learned(status(waits), placed(), cluster=stood)["spot"].observation == "Free"


def test_the_node_of_a_successor():
    on_dedicated = attempt(fenced=True, first_step=500, tier=tier("dedicated"))
    waits = follower(ACQUIRING, created_at=at(-69))
    found = learned(
        status(on_dedicated, successor=waits), pod(), placed(2, node="n2", created_at=at(-69), scheduled_at=at(-60))
    )
    assert found["spot"].acquire == measured(9)


def test_the_first_step():
    found = learned(status(attempt()), pod(), reports=[stepped()])
    assert found == {"spot": knows(start=measured(190))}
    early = stepped(first_step_at=at(-9000))  # a trainer's word: no start takes less than the node's
    assert learned(status(attempt()), pod(), reports=[early]) == {"spot": knows(start=measured(90))}
    beside = attempt(predecessor=7, go=1)
    assert learned(status(beside), pod(), reports=[stepped()]) == {}  # it waited for another attempt to leave


def test_ends():
    going = nodes(node(taints=("karpenter.sh/disrupted",)))
    lost = learned(status(training()), ended(1, 137, disruption="DeletionByTaintManager"), cluster=going)["spot"]
    assert (lost.state, lost.interruptions, lost.pace) == ("TookBack", 1, at(1) - at(0))
    left = status(training(state=DRAINING, drain=stopped()))
    stop = learned(left, ended(1, 0, DRAINED))["spot"]
    assert (stop.state, stop.interruptions) == ("Up", 0)
    broken = learned(status(attempt(state=STARTING, scheduled_at=at(-1800))), placed())["spot"]
    assert (broken.state, broken.interruptions) == ("Up", 0)  # StartTimeout: no node was taken back
    assert (
        learned(status(FENCED))["spot"].interruptions == 0
    )  # its pod is gone and its node stands: anybody may delete a pod
    gone = nodes(without=("n1",))
    assert learned(status(FENCED), cluster=gone)["spot"].interruptions == 1


def test_a_tier_that_gave_no_node():
    waits = attempt(state=ACQUIRING, acquire_deadline=at(0), raised_at=at(-300))
    assert learned(status(waits), pending()) == {"spot": knows(**seen("Refused", -300, 0))}


def test_a_successor_that_got_no_node():
    """It is given up without a record, since it had no node; what was learned of the tier stays."""
    waits = follower(ACQUIRING, created_at=at(-90))
    given_job = under("Deadline", status(training(), successor=waits), slack=600)
    only = nodes(without=("n2", "n3", "n4"))
    after = settled(snapshot(given_job, pod(), pending(2), reports=[stepped(step=900)], cluster=only))
    (spot,) = after.status.tiers
    assert (spot.state, spot.since) == ("Refused", at(-90))
    assert after.status.successor.tier.name == "dedicated"
