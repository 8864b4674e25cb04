"""Which interruptions show other jobs that the tier took a node back: those that only the cluster can cause."""

from dataclasses import replace

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
    placed,
    pod,
    settled,
    silent,
    snapshot,
    status,
    verdict,
)
from tests.support.decisions.tier_views import SECOND

from holdfast.api.attempt import AttemptState, EndKind
from holdfast.api.knowledge import Seen
from holdfast.core.capacity import interruptions
from holdfast.core.capacity.knowledge import find
from holdfast.core.observe.nodes import Taint

RUNS = attempt(fenced=True, first_step=500)
LEAVES = verdict("drained", "SpotInterruption", step=710)


def counted(current, *pods, cluster=None):
    decision = settled(snapshot(job(status(current)), *pods, cluster=cluster or nodes()))
    assert decision.status.history[-1].kind is EndKind.INTERRUPTION
    found = find(decision.status.tiers, "spot")
    return found.interruptions if found else 0


def draining(reason):
    return attempt(state=AttemptState.DRAINING, fenced=True, first_step=500, drain=drain(reason=reason))


EVICTS = replace(node(), taints=(Taint("example.com/maintenance", effect="NoExecute"),))
# A program can fill the disk and the memory of its node. The kubelet then evicts pods and keeps others off.
FULL = replace(node(), taints=(Taint("node.kubernetes.io/disk-pressure", effect="NoSchedule"),))


@pytest.mark.parametrize(
    ("current", "seen"),
    [
        (draining("PodDeleted"), ended()),
        (draining("EvictionByEvictionAPI"), ended()),
        (draining("PreemptionByScheduler"), ended()),  # by a pod of the same tenant with a higher priority
        (RUNS, ended(disruption="PreemptionByScheduler")),
        (RUNS, ended(disruption="DeletionByTaintManager")),  # tolerationSeconds of a pod can be shortened
        (RUNS, ended(disruption="EvictionByEvictionAPI")),
        (RUNS, ended(deleted_at=at(20))),
        (RUNS, ended(message=LEAVES)),  # a program may write any verdict
        (RUNS, ended(1, 137)),
        (RUNS, ended(1, 137, disruption="TerminationByKubelet", reason="Evicted")),  # its node's disk is full
        (draining("TerminationByKubelet"), ended()),
    ],
)
@pytest.mark.parametrize("cluster", [nodes(), nodes(FULL)], ids=["a good node", "its disk is full"])
def test_an_interruption_that_a_tenant_can_cause_is_not_the_tiers(current, seen, cluster):
    assert counted(current, seen, cluster=cluster) == 0


def test_a_taint_that_the_node_has_for_its_accelerator_is_no_interruption():
    """Breaks where an admission plugin gives pods the toleration, and not the tier, as for GPUs on GKE."""
    gpu = nodes(replace(node(), taints=(Taint("nvidia.com/gpu", effect="NoSchedule"),)))
    assert on_a_node(gpu).current.granted
    assert counted(RUNS, ended(1, 137), cluster=gpu) == 0


def test_a_pod_whose_finalizer_somebody_removed_says_nothing_about_the_tier():
    assert counted(RUNS) == 0


@pytest.mark.parametrize(
    ("current", "seen", "cluster"),
    [
        (draining("SpotInterruption"), ended(message=LEAVES), nodes()),
        (draining("NodeSilent"), ended(), nodes()),
        (RUNS, ended(disruption="DeletionByTaintManager"), nodes(EVICTS)),
        (RUNS, ended(disruption="TerminationByKubelet", reason="Terminated"), nodes(silent("n1", 1))),
        (draining("EvictionByEvictionAPI"), ended(), nodes(node(unschedulable=True))),  # somebody drains the node
        (RUNS, ended(message=LEAVES), nodes(node(deleted_at=NOW))),
        (RUNS, ended(message=LEAVES), nodes(without=("n1",))),
        (RUNS, ended(message=LEAVES), nodes(node(uid="u-another"))),
        (RUNS, pod(), nodes(without=("n1",))),
        (RUNS, pod(), nodes(silent("n1", 100))),
    ],
)
def test_an_interruption_that_only_the_cluster_can_cause_is_the_tiers(current, seen, cluster):
    assert counted(current, seen, cluster=cluster) == 1
    forged = current.model_copy(update={"pods": (current.pods[0].model_copy(update={"granted": False}),)})
    assert counted(forged, seen, cluster=cluster) == 0


# A pod that a tenant made, with the name, the labels and the owner of a pod of its job


def on_a_node(cluster=None, number=1, **changes):
    """The status after a pod with these changes was seen on a node for the first time."""
    waits = attempt(number, AttemptState.ACQUIRING)
    cluster = cluster or nodes()
    first = settled(snapshot(job(status(waits)), placed(number, **changes), cluster=cluster)).status
    return settled(snapshot(job(first), pod(number, **changes), cluster=cluster)).status


def test_a_node_that_the_cluster_gave():
    found = on_a_node()
    assert found.current.granted
    assert find(found.tiers, "spot").state is Seen.UP
    assert interruptions.of_job(found, NOW)["spot"].node_time > SECOND


@pytest.mark.parametrize(
    ("cluster", "changes"),
    [
        (nodes(), {"bound": False}),  # its creator named the node
        (nodes(node(unschedulable=True)), {"bound": False}),
        (nodes(node(unschedulable=True)), {}),  # it tolerates the taint of a cordoned node
        (nodes(node(taints=("karpenter.sh/disrupted",))), {}),
        (nodes(node(labels={"tier": "cpu"})), {}),
        (nodes(), {"requests": {}}),  # it asks for less than the job, and fits where the job does not
        (nodes(), {"node": "ghost"}),
    ],
)
def test_a_node_that_a_tenant_can_get_hold_of_says_nothing_about_its_tier(cluster, changes):
    """Breaks if other jobs learn of a node that a pod names, or that the scheduler gave to another kind of pod."""
    found = on_a_node(cluster, **changes)
    known = find(found.tiers, "spot")
    assert found.current.pods, "it is a pod of the job all the same, and its node is paid for"
    assert known is None or (known.state, known.acquire, known.observation) == (None, None, None)
    assert interruptions.of_job(found, NOW) == {}
    gone = nodes(without=("n1",))
    after = settled(snapshot(job(found), ended(**changes), cluster=gone)).status
    assert after.history[-1].kind in (EndKind.INTERRUPTION, EndKind.COMPLETED)
    known = find(after.tiers, "spot")
    assert known is None or (known.state, known.interruptions, known.node_time) == (None, 0, 0 * SECOND)


def test_a_node_that_is_seen_late_is_granted_once_it_is_seen():
    """The watch of nodes may be slower than the watch of pods."""
    waits = attempt(1, AttemptState.ACQUIRING)
    unseen = settled(snapshot(job(status(waits)), placed(), cluster=nodes(without=("n1",)))).status
    assert not unseen.current.granted
    assert settled(snapshot(job(unseen), pod())).status.current.granted


def test_a_grant_stays_when_the_node_is_about_to_go():
    starts = job(status(attempt(state=AttemptState.STARTING)))
    assert settled(snapshot(starts, pod(), cluster=nodes(EVICTS))).status.current.granted
