"""Notices: every sign that a node or a pod will soon be lost.

The taints and their meanings are those of the clouds' node termination handlers, Karpenter, the cluster autoscaler and
Kubernetes.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.core.observe.nodes import DISRUPTED, NodeView
from holdfast.core.observe.pods import PodView


@dataclass(frozen=True, slots=True)
class Notice:
    """The pod will be taken away at about `deadline`. `node` is set if the whole node goes.

    `told`: the deadline was told; otherwise it is what such a notice usually leaves.
    """

    reason: str
    message: str
    deadline: datetime
    node: str | None = None
    told: bool = False


@dataclass(frozen=True, slots=True)
class _Sign:
    reason: str
    leaves: timedelta  # the time until the end, if the notice does not say it


_TWO_MINUTES = timedelta(minutes=2)
_THIRTY_SECONDS = timedelta(seconds=30)

# Rebalance recommendations (aws-node-termination-handler/rebalance-recommendation) and
# DeletionCandidateOfClusterAutoscaler are advice, not notices, and are left out on purpose.
TAINTS = {
    "aws-node-termination-handler/spot-itn": _Sign("SpotInterruption", _TWO_MINUTES),
    "aws-node-termination-handler/scheduled-maintenance": _Sign("ScheduledMaintenance", _TWO_MINUTES),
    "aws-node-termination-handler/asg-lifecycle-termination": _Sign("NodeTermination", _TWO_MINUTES),
    DISRUPTED: _Sign("NodeDisrupted", _TWO_MINUTES),
    "ToBeDeletedByClusterAutoscaler": _Sign("NodeScaleDown", _TWO_MINUTES),
    "cloud.google.com/impending-node-termination": _Sign("NodeTermination", _THIRTY_SECONDS),
    "remediator.kubernetes.azure.com/unschedulable": _Sign("NodeRemediation", _THIRTY_SECONDS),
    "remediator.aks.microsoft.com/unschedulable": _Sign("NodeRemediation", _THIRTY_SECONDS),
    "node.kubernetes.io/out-of-service": _Sign("NodeOutOfService", timedelta(0)),
}
# Reasons of notices on nodes. Notices on pods have the reasons of Kubernetes.
FAULTY = "NodeFaulty"
NOTICE_REASONS = frozenset((*(sign.reason for sign in TAINTS.values()), "ScheduledMaintenance", "NodeDeleted", FAULTY))
# Reasons that are signs of a node, so no tenant can cause them. Signs of a pod are left out: a tenant can evict its own
# pod, preempt it by one of a higher priority, shorten its tolerations, or use up the disk of its node.
# A broken node is left out too: it says nothing about the capacity of its tier.
NODE_SIGNS = (NOTICE_REASONS - {FAULTY}) | {"NodeGone", "NodeSilent"}


def find_notice(pod: PodView, node: NodeView | None, now: datetime, grace: timedelta) -> Notice | None:
    """The most urgent notice for a pod that has not ended, or None. `grace` is the pod's grace period."""
    on_pod, on_node = _on_pod(pod, now, grace), _on_node(node, now)
    if on_pod is None or on_node is None:
        return on_pod or on_node
    return min(on_pod, on_node, key=lambda notice: notice.deadline)


def _on_pod(pod: PodView, now: datetime, grace: timedelta) -> Notice | None:
    if pod.deleted_at:  # the deletion timestamp is the end of the grace period, not its start
        reason, deadline = pod.disruption or "PodDeleted", pod.deleted_at
        if pod.deletion_grace is not None:  # the timestamp is of the API server's clock, which may differ from ours
            whole = timedelta(seconds=pod.deletion_grace)
            deadline = now + whole if deadline < now else min(deadline, now + whole)
        return Notice(reason, pod.disruption_message or f"pod {pod.name} is being deleted", deadline)
    if pod.disruption:
        return Notice(pod.disruption, pod.disruption_message, now + grace)
    return None


def _deadline(node: NodeView, usual: datetime) -> datetime:
    """When the node goes. `usual`: if nothing says it.

    A NodeClaim says how long Karpenter waits for pods. The cloud may take a Spot machine before that.
    """
    if node.termination_at is None:
        return usual
    is_spot = bool(node.claim) and node.labels.get("karpenter.sh/capacity-type") == "spot"
    return min(node.termination_at, usual) if is_spot else node.termination_at


def _on_node(node: NodeView | None, now: datetime) -> Notice | None:
    if node is None or not (node.taints or node.maintenance or node.deleted_at or node.fault):
        return None

    def notice(reason: str, message: str, leaves: timedelta) -> Notice:
        deadline = _deadline(node, now + leaves)
        return Notice(reason, message, deadline, node.name, told=deadline == node.termination_at)

    found = [
        notice(sign.reason, f"node {node.name} carries the taint {taint.key}", sign.leaves)
        for taint in node.taints
        if (sign := TAINTS.get(taint.key))
    ]
    if node.maintenance:
        found.append(notice("ScheduledMaintenance", f"node {node.name}: {node.maintenance}", _THIRTY_SECONDS))
    if node.deleted_at:
        found.append(notice("NodeDeleted", f"node {node.name} is being deleted", _THIRTY_SECONDS))
    if node.fault:  # the node stays, but what it computes may be wrong
        found.append(notice(FAULTY, f"node {node.name} is broken: {node.fault}", _TWO_MINUTES))
    return min(found, key=lambda found: found.deadline, default=None)
