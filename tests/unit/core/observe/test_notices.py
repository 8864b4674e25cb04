"""Every sign that a node or a pod will be lost, and signs that are not a notice."""

from datetime import timedelta

import pytest
from tests.support.decisions.snapshots import GRACE, NOW, at, node, pod

from holdfast.api.scalars import format_time
from holdfast.core.observe.nodes import NodeView
from holdfast.core.observe.notices import NODE_SIGNS, NOTICE_REASONS, TAINTS, find_notice

EXPECTED = {
    "aws-node-termination-handler/spot-itn": ("SpotInterruption", 120),
    "aws-node-termination-handler/scheduled-maintenance": ("ScheduledMaintenance", 120),
    "aws-node-termination-handler/asg-lifecycle-termination": ("NodeTermination", 120),
    "karpenter.sh/disrupted": ("NodeDisrupted", 120),
    "ToBeDeletedByClusterAutoscaler": ("NodeScaleDown", 120),
    "cloud.google.com/impending-node-termination": ("NodeTermination", 30),
    "remediator.kubernetes.azure.com/unschedulable": ("NodeRemediation", 30),
    "remediator.aks.microsoft.com/unschedulable": ("NodeRemediation", 30),
    "node.kubernetes.io/out-of-service": ("NodeOutOfService", 0),
}


def found(pod_view=None, node_view=None):
    return find_notice(pod_view or pod(), node_view or node(), NOW, GRACE)


def test_the_list_of_taints_is_complete():
    assert TAINTS.keys() == EXPECTED.keys()


@pytest.mark.parametrize(("key", "reason", "seconds"), [(key, *rest) for key, rest in EXPECTED.items()])
def test_a_taint_is_a_notice(key, reason, seconds):
    notice = found(node_view=node(taints=(key,)))
    assert (notice.reason, notice.deadline, notice.node) == (reason, NOW + timedelta(seconds=seconds), "n1")


@pytest.mark.parametrize(
    "key",
    [
        "aws-node-termination-handler/rebalance-recommendation",
        "DeletionCandidateOfClusterAutoscaler",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/not-ready",
        "karpenter.sh/unregistered",
        "nvidia.com/gpu",
    ],
)
def test_advice_is_not_a_notice(key):
    assert found(node_view=node(taints=(key,))) is None


def test_a_cordon_is_not_a_notice():
    assert found(node_view=node(unschedulable=True)) is None


def test_karpenters_hard_deadline_counts():
    notice = found(node_view=node(taints=("karpenter.sh/disrupted",), termination_at=at(900)))
    assert notice.deadline == at(900)


@pytest.mark.parametrize(("kind", "claim", "seconds"), [("spot", "c", 120), ("on-demand", "c", 900), ("spot", "", 900)])
def test_what_karpenter_waits_for_says_nothing_of_a_spot_machine(kind, claim, seconds):
    """Breaks if a Spot machine that goes in 2 minutes is used for the grace that Karpenter gives to pods."""
    labels = {"karpenter.sh/capacity-type": kind}
    seen = node(taints=("karpenter.sh/disrupted",), termination_at=at(900), labels=labels, claim=claim)
    assert found(node_view=seen).deadline == at(seconds)


def test_azure_announces_by_condition():
    raw = {
        "metadata": {"name": "n1", "uid": "u-n1"},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": format_time(at(-60))},
                {"type": "VMEventScheduled", "status": "True", "message": "Preempt scheduled"},
            ]
        },
    }
    notice = found(node_view=NodeView.parse(raw))
    assert (notice.reason, notice.message, notice.deadline) == (
        "ScheduledMaintenance", "node n1: Preempt scheduled", at(30),
    )  # fmt: skip


def test_a_node_being_deleted_is_a_notice():
    assert found(node_view=node(deleted_at=at(0))).reason == "NodeDeleted"


@pytest.mark.parametrize(
    "reason", ["PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "TerminationByKubelet"]
)
def test_a_disrupted_pod_is_a_notice_that_blames_no_node(reason):
    notice = found(pod(disruption=reason, disruption_message="m"))
    assert (notice.reason, notice.deadline, notice.node) == (reason, NOW + GRACE, None)


def test_a_deleted_pod_has_until_its_deletion_timestamp():
    notice = found(pod(deleted_at=at(25)))
    assert (notice.reason, notice.deadline, notice.node) == ("PodDeleted", at(25), None)


def test_a_deleted_pod_says_why_if_it_is_known():
    assert found(pod(deleted_at=at(25), disruption="EvictionByEvictionAPI")).reason == "EvictionByEvictionAPI"


def test_the_most_urgent_notice_wins():
    tainted = node(taints=("karpenter.sh/disrupted", "cloud.google.com/impending-node-termination"))
    assert found(pod(disruption="EvictionByEvictionAPI"), tainted).reason == "NodeTermination"


def test_no_notice_without_a_sign():
    assert found() is None
    assert find_notice(pod(), None, NOW, GRACE) is None


def test_a_broken_node_is_a_notice_that_says_nothing_about_its_tier():
    """Breaks if a pod stays on broken hardware, or if a broken node makes a tier look as if it had no capacity."""
    notice = found(node_view=node(fault="AcceleratedHardwareReady=False"))
    assert (notice.reason, notice.node, notice.deadline) == ("NodeFaulty", "n1", at(120))
    assert "AcceleratedHardwareReady=False" in notice.message
    assert "NodeFaulty" in NOTICE_REASONS
    assert "NodeFaulty" not in NODE_SIGNS
