"""Parsing nodes, and what is derived from all nodes."""

import pytest
from tests.support.decisions.snapshots import at, node, nodes, silent

from holdfast.core.observe.nodes import ClusterView, FaultSigns, NodeView


def test_a_node():
    parsed = NodeView.parse({
        "metadata": {"name": "n1", "uid": "u", "annotations": {
            "karpenter.sh/nodeclaim-termination-timestamp": "2026-11-21T09:00:00Z"}},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "unschedulable": True},
        "status": {"conditions": [
            {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-21T09:00:00Z"}]},
    })  # fmt: skip
    assert (parsed.ready, parsed.ready_changed_at, parsed.termination_at) == (False, at(0), at(0))
    assert (parsed.taints[0].key, parsed.unschedulable) == ("a", True)


def test_a_node_without_status_is_not_ready():
    assert not NodeView.parse({"metadata": {"name": "n1", "uid": "u"}}).ready


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (nodes(silent("n1")), False),
        (nodes(silent("n1"), silent("n2", 30)), True),
        (nodes(silent("n1"), silent("n2", 300)), False),
        (nodes(silent("n1"), without=("n3", "n4")), False),
        (nodes(silent("n1"), without=("n2", "n3", "n4")), True),
        (nodes(silent("n1"), silent("n2"), silent("n3"), silent("n4")), True),
    ],
)
def test_an_outage_is_half_of_the_nodes_together(view, expected):
    assert view.outage(view.nodes["n1"], at(0)) is expected


def test_an_outage_is_not_over_for_the_last_node_to_return():
    def back(name, *, seconds=2, created=-9000):
        return node(name, ready_changed_at=at(-seconds), created_at=at(created))

    last = silent("n1", 20)
    for others, expected in (
        ([back("n2"), back("n3"), node("n4")], True),
        ([back("n2", seconds=61), back("n3", seconds=61), node("n4")], False),  # back for more than a minute
        ([back("n2", seconds=25), back("n3", seconds=25), node("n4")], False),  # Ready again before this one was silent
        ([back("n2", created=-5), back("n3", created=-5), node("n4")], False),  # new nodes
    ):
        assert ClusterView([last, *others]).outage(last, at(0)) is expected


def test_matching():
    view = ClusterView([node("n1"), node("n2", labels={"tier": "cpu", "zone": "a"})])
    assert [view.matching(s) for s in ({}, {"tier": "cpu"}, {"tier": "cpu", "zone": "b"})] == [2, 1, 0]


def broken(conditions=(), taints=()):
    return {
        "metadata": {"name": "n1", "uid": "u"},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {"conditions": [dict(zip(("type", "status", "reason"), one, strict=True)) for one in conditions]},
    }


@pytest.mark.parametrize(
    ("raw", "signs", "fault"),
    [
        (broken([("AcceleratedHardwareReady", "False", "NvidiaXID79Error")]), FaultSigns(),
         "AcceleratedHardwareReady=False: NvidiaXID79Error"),
        (broken([("AcceleratedHardwareReady", "True", "")]), FaultSigns(), ""),
        (broken([("XIDErrors", "True", "XID79")]), FaultSigns(), "XIDErrors=True: XID79"),
        (broken([("XIDErrors", "False", "NoXIDErrors")]), FaultSigns(), ""),
        (broken([("GPUMissing", "True", "")]), FaultSigns(), "GPUMissing=True"),
        (broken([("NebiusGPUError", "True", "")]), FaultSigns(), "NebiusGPUError=True"),
        (broken([("GpuHealthy", "False", "")]), FaultSigns(), ""),
        (broken([("GpuHealthy", "False", "")]), FaultSigns(frozenset({("GpuHealthy", "False")})), "GpuHealthy=False"),
        (broken(taints=["gpu-broken"]), FaultSigns(taints=frozenset({"gpu-broken"})), "taint gpu-broken"),
        (broken(taints=["gpu"]), FaultSigns(taints=frozenset({"gpu-broken"})), ""),
    ],
)  # fmt: skip
def test_conditions_and_taints_say_that_a_node_is_broken(raw, signs, fault):
    assert NodeView.parse(raw, signs).fault == fault
