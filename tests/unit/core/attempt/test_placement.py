"""An attempt that must not use a node goes to a tier that has another one."""

from dataclasses import replace

import pytest
from tests.support.decisions.histories import record
from tests.support.decisions.snapshots import (
    TIERS,
    at,
    attempt,
    created,
    deleted,
    drain,
    ended,
    job,
    node,
    nodes,
    pending,
    pod,
    settled,
    silent,
    snapshot,
    status,
    stepped,
    stopped,
    tier,
)
from tests.support.decisions.tier_views import known

from holdfast.api.attempt import AttemptState, EndKind
from holdfast.core.attempt.placement import shut_tiers
from holdfast.core.draft import Draft
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.room import Held, Room

SPOT_ITN = "aws-node-termination-handler/spot-itn"
FENCED = attempt(fenced=True, first_step=500)
DEDICATED = node("d1", labels={"tier": "dedicated"})
LEAVING = node(taints=(SPOT_ITN,))
ALONE = ClusterView([LEAVING, DEDICATED])  # the job's node is the only one of its tier
FREE, BILLED = (known(observation=word) for word in ("Free", "Billed"))
PACED = {"tiers": [{"tier": name, "pace": "1s"} for name in ("spot", "dedicated")]}


def follows(cluster, *, current=FENCED, capacity=None, **fields):
    given = job(status(current, **fields), capacity=capacity or {"tiers": list(TIERS)}, goal={"steps": 9000})
    decision = settled(snapshot(given, pod(), cluster=cluster, reports=[stepped()]))
    found = decision.status.successor or decision.status.current
    return found.tier.name


def test_on_a_notice_for_the_only_node_of_a_tier_the_successor_goes_to_the_next_tier():
    assert follows(ALONE) == "dedicated"


def test_another_usable_node_keeps_the_tier():
    assert follows(nodes(LEAVING, DEDICATED)) == "spot"
    going_too = [node(name, taints=(SPOT_ITN,)) for name in ("n2", "n3", "n4")]
    assert follows(nodes(LEAVING, DEDICATED, *going_too)) == "dedicated"


@pytest.mark.parametrize(("seen", "tier"), [(FREE, "dedicated"), (BILLED, "spot")])
def test_an_autoscaler_may_bring_another_node(seen, tier):
    assert follows(ALONE, tiers=(seen,)) == tier


def test_no_autoscaler_brings_a_node_of_a_given_name():
    pinned = [{**TIERS[0], "nodeSelector": {"kubernetes.io/hostname": "n1"}}, *TIERS[1:]]
    named = node(taints=(SPOT_ITN,), labels={"kubernetes.io/hostname": "n1"})
    cluster = ClusterView([named, DEDICATED])
    assert follows(cluster, tiers=(BILLED,), capacity={"tiers": pinned}) == "dedicated"


@pytest.mark.parametrize("policy", ["Cheapest", "Deadline"])
def test_a_policy_does_not_choose_a_tier_whose_only_node_is_avoided(policy):
    capacity = {"tiers": list(TIERS), "policy": policy, "deadline": "2026-11-21T11:50:00Z"}
    fields = {"tiers": [known("spot", pace=at(1) - at(0), observation="Free"), known("dedicated", pace=at(1) - at(0))]}
    assert follows(ALONE, capacity=capacity, **fields) == "dedicated"


def test_the_only_node_of_a_tier_falls_silent():
    cluster = nodes(silent("n1", 100), DEDICATED, without=("n2", "n3", "n4"))
    more = [node(name, labels={"tier": "cpu"}) for name in ("c1", "c2")]
    decision = settled(snapshot(job(status(FENCED)), pod(), cluster=ClusterView([*cluster.nodes.values(), *more])))
    assert decision.status.current.tier.name == "dedicated"
    assert decision.status.current.avoid_nodes == ("n1",)


def fruitless_on(tier, seconds):
    return known(tier, fruitless=2, rests_until=at(seconds))


@pytest.mark.parametrize(
    ("tiers", "begins"),
    [
        ((), "spot"),
        ((fruitless_on("spot", 60),), "dedicated"),
        ((fruitless_on("spot", 0),), "spot"),  # it has rested
        ((fruitless_on("spot", 60), fruitless_on("dedicated", 90)), "cpu"),
        (
            (fruitless_on("spot", 60), fruitless_on("dedicated", 30), fruitless_on("cpu", 90)),
            "dedicated",
        ),  # the first to be rested
    ],
)
def test_an_attempt_begins_on_the_first_tier_that_does_not_rest(tiers, begins):
    """Breaks if a job begins on the same Spot tier after each interruption in a storm, and pays for each start."""
    begun = settled(snapshot(job(status(attempt=3, tiers=tiers))))
    assert begun.status.current.tier.name == begins


def test_policies_that_know_prices_do_not_let_a_tier_rest():
    tiers = [known("spot", pace=at(1) - at(0)), known("dedicated", pace=at(1) - at(0))]
    given = status(attempt=3, tiers=(tiers[0].model_copy(update={"rests_until": at(60)}), tiers[1]))
    begun = settled(snapshot(job(given, capacity={"tiers": list(TIERS), "policy": "Cheapest"})))
    assert begun.status.current.tier.name == "spot"


def test_a_successor_that_was_raised_on_the_notice_leaves_a_tier_that_must_rest_now():
    leaves = attempt(state=AttemptState.DRAINING, fenced=True, first_step=500, drain=drain())
    follows = attempt(2, AttemptState.INTENDED)
    for before, begins in ((1, "spot"), (2, "dedicated")):
        given = job(status(leaves, successor=follows, tiers=(known("spot", fruitless=before),)))
        assert settled(snapshot(given, ended())).status.current.tier.name == begins


def test_a_person_may_move_a_job_to_a_tier_that_rests():
    leaves = attempt(state=AttemptState.DRAINING, fenced=True, first_step=500, drain=stopped(), tier=tier("dedicated"))
    given = job(status(leaves, successor=attempt(2, AttemptState.INTENDED), tiers=(fruitless_on("spot", 60),)))
    assert settled(snapshot(given, ended())).status.current.tier.name == "spot"


def test_a_pod_whose_tier_has_lost_its_other_nodes_does_not_wait_for_the_timeout():
    waits = attempt(2, AttemptState.ACQUIRING, avoid_nodes=("n1",))
    before = snapshot(job(status(waits)), pending(2), cluster=nodes(DEDICATED))
    assert settled(before).status.current.number == 2
    decision = settled(replace(before, cluster=ClusterView([node(), DEDICATED])))
    assert decision.trace == ("no node in time",)
    assert decision.status.current.tier.name == "dedicated"
    assert deleted(decision) == [("u-2", None)]
    record = decision.status.history[-1]
    assert (record.kind, record.reason) == (EndKind.STOPPED, "OtherTier")
    assert "spot has too few nodes without those that are avoided: n1" in decision.status.decision.message
    assert all(one.state is None for one in decision.status.tiers), "it does not show that the tier is out"


ONLY_SPOT = {"tiers": [TIERS[0]]}
AVOIDS = attempt(2, AttemptState.ACQUIRING, avoid_nodes=("n1",))


@pytest.mark.parametrize(
    ("cluster", "changes", "trace"),
    [
        (ClusterView([node()]), {}, ("avoided for nothing",)),
        (ClusterView([node(), node("n2", unschedulable=True)]), {}, ("avoided for nothing",)),
        (ClusterView([node(ready=False)]), {}, ()),
        (ClusterView([node(), node("n2")]), {}, ()),
        (ClusterView([node()]), {"tiers": (BILLED,)}, ()),
        (ClusterView([node()]), {"history": (record(reason="MoveRequested"),)}, ()),
    ],
)
def test_where_no_other_node_is_left_the_avoided_ones_are_used_at_once(cluster, changes, trace):
    """Breaks if a job on a small cluster waits for its acquireTimeout beside an empty node."""
    given = job(status(AVOIDS, **changes), capacity=ONLY_SPOT)
    decision = settled(snapshot(given, pending(2), cluster=cluster))
    assert decision.trace == trace
    assert decision.status.current.avoid_nodes == (() if trace else ("n1",))
    assert created(decision) == []
    assert deleted(decision) == ([("u-2", None)] if trace else [])


SMALL = node("n2", allocatable={"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "1"})
FULL_NODE = Held()
FULL_NODE.add("n2", {"cpu": "1"})


# Breaks if a job waits for its acquireTimeout beside the only node that can take its pod, or if it takes a node that it
# avoids while another one can.
@pytest.mark.parametrize(
    ("cluster", "held", "tiers", "trace"),
    [
        (ClusterView([node(), SMALL]), None, (), ("avoided for nothing",)),
        (ClusterView([node(), node("n2")]), FULL_NODE, (), ("avoided for nothing",)),
        (ClusterView([node(), node("n2"), node("n3")]), FULL_NODE, (), ()),
        (ClusterView([node(), node("n2")]), FULL_NODE, (BILLED,), ()),
        (ClusterView([replace(SMALL, name="n1"), node("n2")]), FULL_NODE, (), ()),
    ],
    ids=["too small", "full", "another one is free", "an autoscaler brings one", "the avoided one is too small"],
)
def test_nodes_that_cannot_take_the_pod_are_no_others(cluster, held, tiers, trace):
    given = job(status(AVOIDS, tiers=tiers), capacity=ONLY_SPOT)
    decision = settled(snapshot(given, pending(2), cluster=cluster, others=Room(cluster, held)))
    assert decision.trace == trace


# Breaks if pods that go on do not count where new ones may not come, and a training gives them up for another tier.
def test_nodes_of_pods_that_go_on_count_even_if_they_are_cordoned():
    trainer = {"image": "x", "command": ["x"], "nodes": 2}
    cluster = ClusterView([node(), node("n2", unschedulable=True), node("n3")])
    draft = Draft(snapshot(job(trainer=trainer, capacity=ONLY_SPOT), cluster=cluster))
    assert shut_tiers(draft, ("n1",)) == {"spot"}
    assert shut_tiers(draft, ("n1",), own=("n2",)) == frozenset()


def test_where_every_node_is_avoided_and_none_is_usable_the_attempt_waits_and_then_avoids_none():
    late, silent_node = AVOIDS.model_copy(update={"acquire_deadline": at(0)}), ClusterView([node(ready=False)])
    decision = settled(snapshot(job(status(late), capacity=ONLY_SPOT), pending(2), cluster=silent_node))
    assert decision.status.current.avoid_nodes == ()


TAKEN = ended(1, 143, reason="", disruption="PreemptionByScheduler")


@pytest.mark.parametrize(
    ("seen", "cluster", "avoids"),
    [
        (ended(1, 137), nodes(), ("n1",)),
        (ended(1, 137), ClusterView([node()]), ()),
        (ended(1, 137), ClusterView([node(), node("n2", unschedulable=True)]), ()),
        (ended(1, 143, deleted_at=at(0)), nodes(), ()),
        (TAKEN, nodes(), ()),
        (replace(TAKEN, disruption="EvictionByEvictionAPI"), nodes(), ()),
        (replace(TAKEN, disruption="TerminationByKubelet"), nodes(), ("n1",)),
    ],
)
def test_an_end_without_progress_forbids_its_node_only_if_it_may_be_the_cause_and_others_are_left(
    seen, cluster, avoids
):
    """Breaks if a pod that a person deletes, or a higher priority, costs the only node of a tier."""
    given = job(status(attempt(fenced=True)), capacity=ONLY_SPOT)
    assert settled(snapshot(given, seen, cluster=cluster)).status.current.avoid_nodes == avoids


@pytest.mark.parametrize(
    ("avoids", "said"),
    [
        ((), "waiting for a node of tier spot"),
        (("n1",), "waiting for a node of tier spot; not n1"),
        (("n1", "n7", "n8", "n9", "x"), "waiting for a node of tier spot; not n1, n7, n8 and 2 more"),
    ],
)
def test_a_wait_names_the_nodes_that_are_not_used(avoids, said):
    """Breaks if people look for the reason why a pod waits beside an empty node."""
    given = job(status(attempt(2, AttemptState.INTENDED, avoid_nodes=avoids)))
    assert settled(snapshot(given, ended(1))).status.decision.message == said
