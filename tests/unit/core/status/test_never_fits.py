"""NeverFits: when a job is said to have no node that could hold it, and in which words."""

from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import TIERS, attempt, job, node, pending, pod, settled, snapshot, status

from holdfast.api.attempt import AttemptState
from holdfast.core.observe.nodes import ClusterView

ACQUIRING, WAITS = attempt(state=AttemptState.ACQUIRING), (pending(),)
TRAINER = {"image": "registry.example/train:1", "command": ["python3", "train.py"], "acceleratorsPerNode": 0}
LARGE = {**TRAINER, "resources": {"cpu": "64", "memory": "16Gi"}}
FREE, GROWS = {**TIERS[0], "observation": "Free"}, {**TIERS[0], "observation": "Billed"}
TYPED = {**GROWS, "nodeSelector": {"tier": "spot", "node.kubernetes.io/instance-type": "p4d"}}
DEDICATED = {**TIERS[1], "observation": "Free"}
SMALL = {"cpu": "31850m", "memory": "126Gi", "nvidia.com/gpu": "4"}


def found(*tiers, nodes=None, trainer=LARGE, current=ACQUIRING, pods=WAITS):
    """The condition of a job, None if it has none, and its events and next."""
    labels = {"tier": "spot", "node.kubernetes.io/instance-type": "p4d"}
    there = nodes or [node("n1", allocatable=SMALL, labels=labels), node("n2", allocatable=SMALL, labels=labels)]
    if current is not None and current.tier.name == tiers[0]["name"]:
        current = current.model_copy(update={"tier": current.tier.model_validate(tiers[0])})
    given = snapshot(job(status(current), capacity={"tiers": list(tiers)}, trainer=trainer), *pods,
                     cluster=ClusterView(there))  # fmt: skip
    decision = settled(given)
    return next((one for one in decision.status.conditions if one.type == "NeverFits"), None), decision


@pytest.mark.parametrize(
    ("tiers", "state"),
    [
        ([FREE], "True"),
        ([TYPED], "True"),
        ([TIERS[0]], "Unknown"),
        ([GROWS], None),
        ([FREE, {**GROWS, "name": "grows"}], None),
        ([FREE, {**DEDICATED, "nodeSelector": {"tier": "moon"}}], None),
    ],
    ids=[
        "nothing brings nodes",
        "all nodes are of one type",
        "not known",
        "grows",
        "another grows",
        "another is empty",
    ],
)
def test_a_pod_is_larger_than_every_node(tiers, state):
    """Breaks if a pod that can never start waits without a word, or an autoscaler is said to bring nothing larger."""
    condition, _ = found(*tiers)
    assert (condition.status if condition else None) == state


def test_it_says_the_figures_and_what_to_do():
    condition, decision = found(FREE)
    assert condition.reason == "LargerThanEveryNode"
    assert condition.message == (
        "a pod asks for more than any node has. spot: cpu 64, and a node has at most 31850m. To start it, lower "
        "spec.trainer.resources or spec.trainer.acceleratorsPerNode, or name a tier with larger nodes"
    )
    assert decision.status.next == f"The job waits: {condition.message}."
    assert "NeverFits" in [event.reason for event in decision.events]


def test_what_is_not_known_is_said_too():
    condition, decision = found(TIERS[0])
    assert condition.message.endswith(". Whether something brings larger nodes of tier spot is not known")
    assert decision.events == ()


@pytest.mark.parametrize(
    ("trainer", "words"),
    [
        ({"acceleratorsPerNode": 8}, "nvidia.com/gpu 8, and a node has at most 4"),
        ({"acceleratorsPerNode": 8, "resources": {"cpu": "4", "memory": "1Ti"}},
         "memory 1Ti, and a node has at most 126Gi, nvidia.com/gpu 8, and a node has at most 4"),
    ],
)  # fmt: skip
def test_each_resource_that_is_short_is_named(trainer, words):
    gpus = {**FREE, "accelerator": "nvidia.com/gpu"}
    condition, _ = found(gpus, trainer={**TRAINER, "resources": {"cpu": "4", "memory": "8Gi"}, **trainer})
    assert words in condition.message


def test_no_node_has_all_of_it_although_each_amount_is_there():
    wide = node("n1", allocatable={"cpu": "96", "memory": "8Gi"})
    deep = node("n2", allocatable={"cpu": "8", "memory": "512Gi"})
    condition, _ = found(FREE, nodes=[wide, deep])
    assert "spot: no node has all of cpu 64, memory 16Gi" in condition.message


@pytest.mark.parametrize(
    "change", [{"allocatable": {}}, {"unschedulable": True, "allocatable": {**SMALL, "cpu": "96"}}]
)
def test_a_node_that_may_be_large_enough_some_time_is_hope(change):
    """Breaks if a node that was just registered, or is cordoned, makes a job hopeless."""
    condition, _ = found(FREE, nodes=[node("n1", allocatable=SMALL), replace(node("n2"), **change)])
    assert condition is None


def test_it_ends_when_a_larger_node_is_there():
    condition, decision = found(FREE)
    job_now = job(decision.status, capacity={"tiers": [FREE]}, trainer=LARGE)
    cluster = ClusterView([node("n1", allocatable={"cpu": "96", "memory": "512Gi"})])
    again = settled(snapshot(job_now, pending(), cluster=cluster))
    after = next(one for one in again.status.conditions if one.type == "NeverFits")
    assert (condition.status, after.status, after.reason) == ("True", "False", "MayFit")


def test_a_job_that_has_its_node_says_nothing():
    condition, _ = found(FREE, current=attempt(), pods=(pod(),))
    assert condition is None


def test_several_nodes_of_which_some_are_too_small():
    tiers = (FREE, DEDICATED)
    there = [node("n1", allocatable=SMALL),
             node("d1", labels={"tier": "dedicated"}, allocatable={"cpu": "96", "memory": "512Gi"})]  # fmt: skip
    condition, _ = found(*tiers, nodes=there, trainer={**LARGE, "nodes": 2}, current=None, pods=())
    assert condition.reason == "TooFewNodes"
    assert "spot: cpu 64, and a node has at most 31850m, dedicated has 1. Add nodes" in condition.message
