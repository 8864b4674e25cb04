"""What a pod asks for, and what it shows of its tier that no node takes it."""

from fractions import Fraction

import pytest
from tests.support.decisions.snapshots import FULL, job, node, nodes, pending, placed, tier

from holdfast.api.knowledge import Seen
from holdfast.api.profile import ProfileTier
from holdfast.api.trainer import Resources, Trainer
from holdfast.core.observe.demand import Demand, accelerators_on, refusal, requested, too_small
from holdfast.core.observe.nodes import ClusterView

TRAINER = Trainer(image="x", accelerators_per_node=2, resources=Resources(cpu="4", memory="8Gi"))
OFFER = {"cpu": "7910m", "memory": "60Gi", "nvidia.com/gpu": "2", "pods": "110"}
UNMATCHED = "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector."
OFFERING = ClusterView([node("n1", allocatable=OFFER), node("n2", allocatable={**OFFER, "cpu": "2"})])


def trainer(cpu="4", memory="8Gi", gpus=2):
    return TRAINER.model_copy(update={"resources": Resources(cpu=cpu, memory=memory), "accelerators_per_node": gpus})


def test_what_a_pod_asks_for():
    cpu = ProfileTier(name="cpu", kind="CPU")
    assert requested(TRAINER, cpu) == {"cpu": "4", "memory": "8Gi"}
    rdma = ProfileTier(name="spot", kind="Spot", accelerator="amd.com/gpu", extra_resources={"rdma/hca": "1"})
    assert requested(TRAINER, rdma) == {"cpu": "4", "memory": "8Gi", "amd.com/gpu": "2", "rdma/hca": "1"}


# Breaks if a node of a tier that has one large accelerator counts as too small for pods that need four small ones.
def test_a_tier_says_how_many_accelerators_its_nodes_have():
    large = tier().model_copy(update={"accelerators_per_node": 1})
    assert requested(TRAINER, large)["nvidia.com/gpu"] == "1"
    assert [accelerators_on(trainer(gpus=number), large) for number in (0, 1, 8)] == [0, 1, 1]
    assert accelerators_on(trainer(gpus=8), tier()) == 8
    one_each = ClusterView([node("n1", allocatable={**OFFER, "nvidia.com/gpu": "1"})])
    assert refusal(pending(unscheduled_message=FULL), tier(), TRAINER, one_each) is Seen.UNFIT
    assert refusal(pending(unscheduled_message=FULL), large, TRAINER, one_each) is Seen.REFUSED


def test_what_is_too_small():
    assert too_small(OFFER, requested(TRAINER, tier())) is None
    assert too_small(OFFER, {"cpu": "8"}) == "cpu"
    assert too_small(OFFER, {"memory": "1Gi", "rdma/hca": "1"}) == "rdma/hca"


def test_a_demand_covers_what_asks_for_no_more():
    assert Demand.of(TRAINER) == (2, Fraction(4), Fraction(8 * 2**30), 1)
    assert not Demand.of(TRAINER).covers(Demand.of(TRAINER.model_copy(update={"nodes": 2})))
    assert Demand.of(TRAINER).covers(Demand.of(trainer(cpu="3500m")))
    assert not Demand.of(TRAINER).covers(Demand.of(trainer(memory="9Gi")))
    assert not Demand.of(trainer(cpu="16")).covers(Demand.of(trainer(gpus=4)))


@pytest.mark.parametrize(
    ("asked", "cluster", "words", "shown"),
    [
        (trainer(), OFFERING, FULL, Seen.REFUSED),
        (trainer(), nodes(), FULL, Seen.REFUSED),  # nodes that do not say what they offer
        (trainer(), ClusterView(), UNMATCHED, Seen.REFUSED),  # the tier has no node now
        (trainer(cpu="100000"), OFFERING, "0/2 nodes are available: 2 Insufficient cpu.", Seen.UNFIT),
        (trainer(memory="61Gi"), OFFERING, "0/2 nodes are available: 2 Insufficient memory.", Seen.UNFIT),
        (trainer(gpus=4), OFFERING, FULL, Seen.UNFIT),
        (trainer(), nodes(), UNMATCHED, Seen.UNFIT),  # nodes match the tier, and the pod avoids them all
        (trainer(), nodes(), '0/4 nodes are available: persistentvolumeclaim "x" not found.', Seen.UNFIT),
    ],
)
def test_what_it_shows_that_no_node_takes_a_pod(asked, cluster, words, shown):
    assert refusal(pending(unscheduled_message=words), tier(), asked, cluster) is shown


def test_a_pod_with_a_gate_or_without_an_object_shows_nothing():
    gated = pending(unscheduled_reason="SchedulingGated", unscheduled_message="Scheduling is blocked")
    assert refusal(gated, tier(), TRAINER, nodes()) is Seen.UNFIT
    assert refusal(None, tier(), TRAINER, nodes()) is Seen.UNFIT
    assert refusal(placed(), tier(), job().spec.trainer, nodes()) is Seen.UNFIT
