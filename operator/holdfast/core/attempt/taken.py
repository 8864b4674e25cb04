"""If an ended attempt shows that its tier took the node back.

Other jobs learn of that, so only signs of the node count, and only if the cluster gave the attempt a usable node. A
tenant can delete, evict or preempt its own pods, signal its own program, write any verdict, and make a pod that names
any node: none of that says anything about the tier.
"""

from holdfast.api.attempt import EndKind, PodRecord
from holdfast.api.profile import Tier
from holdfast.core.attempt.why_ended import End
from holdfast.core.observe.demand import accelerators_on
from holdfast.core.observe.nodes import NodeView
from holdfast.core.observe.notices import NODE_SIGNS
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Sight
from holdfast.core.observe.usable_nodes import tolerates, why_leaving
from holdfast.core.turn import Turn


def was_granted(turn: Turn, pod: PodView, node: NodeView | None) -> bool:
    """True if the cluster gave the pod its node: the scheduler chose it, and it is one of the attempt's tier.

    The creator of a pod can name any node in it. It can also make the scheduler choose one that is about to go or is of
    another tier, or ask for fewer accelerators than the job. Other taints do not count: the scheduler has chosen the
    node, and admission plugins give pods tolerations of which the tier does not know.
    """
    tier, trainer = turn.attempt.tier, turn.draft.snapshot.job.spec.trainer
    asked = tier.accelerator is None or pod.devices.get(tier.accelerator, 0) >= accelerators_on(trainer, tier)
    return (
        pod.bound
        and asked
        and node is not None
        and tier.node_selector.items() <= node.labels.items()
        and not why_leaving(node)
    )


def was_node_taken(turn: Turn, end: End) -> bool:
    """True if the end is an interruption, and the node that the cluster gave shows that the tier took it back."""
    if end.kind is not EndKind.INTERRUPTION or end.infrastructure or not turn.attempt.granted:
        return False
    order = turn.attempt.drain or turn.attempt.departure
    if turn.sight in (Sight.SILENT, Sight.NODE_GONE) or (order is not None and order.reason in NODE_SIGNS):
        return True
    known = turn.attempt.pods[0]
    if turn.attempt.nodes > 1:  # the node that the end is about
        known = PodRecord(node=turn.pod.node if turn.pod else None)
    node = turn.draft.snapshot.cluster.nodes.get(known.node or "")
    again = node is not None and known.node_uid not in (None, node.uid)
    return node is None or again or bool(why_leaving(node)) or _evicts(node, turn.attempt.tier)


def _evicts(node: NodeView, tier: Tier) -> bool:
    """True if a taint ends the tier's pods on this node. Kubelets that run out of disk or memory only keep pods off."""
    return any(taint.effect == "NoExecute" and not tolerates(tier.tolerations, taint) for taint in node.taints)
