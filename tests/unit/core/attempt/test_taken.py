"""Which losses show other jobs that the tier took a node back: those that only the cluster can cause."""

import pytest
from tests.support.decisions.snapshots import (
    NOW,
    at,
    attempt,
    drain,
    ended,
    job,
    node,
    nodes,
    pod,
    settled,
    silent,
    snapshot,
    status,
    verdict,
)

from holdfast.api.attempt import AttemptState, EndKind, PodRecord
from holdfast.core.capacity.knowledge import find

RUNS = attempt(fenced=True, first_step=500)
LEAVES = verdict("drained", "SpotInterruption", step=710)


def losses(current, *pods, cluster=None):
    decision = settled(snapshot(job(status(current)), *pods, cluster=cluster or nodes()))
    assert decision.status.history[-1].kind is EndKind.LOSS
    found = find(decision.status.tiers, "spot")
    return found.losses


def draining(reason):
    return attempt(state=AttemptState.DRAINING, fenced=True, first_step=500, drain=drain(reason=reason))


@pytest.mark.parametrize(
    ("current", "seen"),
    [
        (draining("PodDeleted"), ended()),
        (draining("EvictionByEvictionAPI"), ended()),
        (RUNS, ended(disruption="EvictionByEvictionAPI")),
        (RUNS, ended(deleted_at=at(20))),
        (RUNS, ended(message=LEAVES)),  # a program may write any verdict
        (RUNS, ended(1, 137)),
        (RUNS, ended(1, 137, disruption="TerminationByKubelet", reason="Evicted")),  # its node's disk is full
    ],
)
def test_a_loss_that_a_tenant_can_cause_is_not_the_tiers(current, seen):
    assert losses(current, seen) == 0


def test_a_pod_whose_finalizer_somebody_removed_says_nothing_about_the_tier():
    assert losses(RUNS) == 0


def test_a_pod_on_a_node_that_the_cluster_never_had_says_nothing_about_the_tier():
    """Breaks if a tenant can make a loss with a pod of its own that names a node which does not exist."""
    ghost = attempt(fenced=True, first_step=500, pods=(PodRecord(rank=0, uid="u-1", node="ghost", node_uid=None),))
    assert losses(ghost, ended(disruption="DeletionByPodGC", node="ghost"), cluster=nodes()) == 0
    assert losses(ghost, cluster=nodes()) == 0


@pytest.mark.parametrize(
    ("current", "seen", "cluster"),
    [
        (draining("SpotInterruption"), ended(message=LEAVES), nodes()),
        (draining("PreemptionByScheduler"), ended(), nodes()),
        (RUNS, ended(disruption="DeletionByTaintManager"), nodes()),
        (RUNS, ended(disruption="TerminationByKubelet", reason="Terminated"), nodes()),
        (draining("EvictionByEvictionAPI"), ended(), nodes(node(unschedulable=True))),  # somebody drains the node
        (RUNS, ended(message=LEAVES), nodes(node(deleted_at=NOW))),
        (RUNS, ended(message=LEAVES), nodes(without=("n1",))),
        (RUNS, pod(), nodes(without=("n1",))),
        (RUNS, pod(), nodes(silent("n1", 100))),
    ],
)
def test_a_loss_that_only_the_cluster_can_cause_is_the_tiers(current, seen, cluster):
    assert losses(current, seen, cluster=cluster) == 1
