"""If an ended attempt shows that its tier took the node back.

Other jobs learn of that, so only signs of the cluster count. A tenant can delete or evict its own pods, signal its own
program, and write any verdict: none of that says anything about the tier.
"""

from holdfast.api.attempt import EndKind, EndReason
from holdfast.core.attempt.why_ended import End
from holdfast.core.observe.notices import TAKEN, is_going
from holdfast.core.observe.situation import Sight
from holdfast.core.turn import Turn


def was_node_taken(turn: Turn, end: End) -> bool:
    """True if the end is a loss, and the cluster shows that it took the node back or gave it to another pod."""
    if end.kind is not EndKind.LOSS or end.infrastructure or not _was_on_a_node(turn):
        return False
    if turn.sight in (Sight.SILENT, Sight.NODE_GONE):
        return True
    order, pod = turn.attempt.drain or turn.attempt.departure, turn.pod
    if order is not None and order.reason in TAKEN:
        return True
    if pod is not None and pod.disruption in TAKEN:
        return pod.reason != EndReason.EVICTED  # by a kubelet, because the node's disk or memory is full
    return _is_node_going(turn)


def _was_on_a_node(turn: Turn) -> bool:
    """True if the cluster had the attempt's node: a tenant can name any node in a pod of its own."""
    known = turn.attempt.pods[0] if turn.attempt.pods else None
    return known is not None and known.node_uid is not None


def _is_node_going(turn: Turn) -> bool:
    """True if the attempt's node is gone, or will go."""
    known = turn.attempt.pods[0] if turn.attempt.pods else None
    name = known.node if known else turn.pod.node if turn.pod else None
    if name is None:
        return False
    node = turn.draft.snapshot.cluster.nodes.get(name)
    return node is None or (known is not None and known.node_uid not in (None, node.uid)) or is_going(node)
