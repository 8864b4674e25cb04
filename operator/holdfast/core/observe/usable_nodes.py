"""Which nodes the labels and taints allow to pods of a tier.

If a node is large enough for a pod, and has room for it, is the matter of holdfast.core.observe.room.
"""

from collections.abc import Iterable, Set

from holdfast.api.profile import Toleration
from holdfast.core.observe.nodes import NodeView, Taint
from holdfast.core.observe.notices import TAINTS


def why_leaving(node: NodeView) -> str:
    """Why this node is about to go, or is not there for pods now; empty if it stays.

    A taint that announces the end of the node counts even if a tier tolerates it.
    """
    if node.unschedulable:
        return "cordoned"
    if announced := next((taint.key for taint in node.taints if taint.key in TAINTS), None):
        return f"taint {announced} is not tolerated"
    if not node.ready:
        return "not ready"
    if node.fault:
        return f"broken: {node.fault}"
    return "about to be removed" if node.maintenance or node.deleted_at or node.termination_at else ""


def why_unusable(node: NodeView, tolerations: Iterable[Toleration]) -> str:
    """Why a new pod with these tolerations may not use this node; empty if it may. Labels and room are not checked.

    An admission plugin may give the pod more tolerations.
    """
    if reason := why_leaving(node):
        return reason
    for taint in node.taints:
        if taint.effect != "PreferNoSchedule" and not tolerates(tolerations, taint):
            return f"taint {taint.key} is not tolerated"
    return ""


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """True if one of the tolerations tolerates this taint."""
    return any(one.tolerates(taint) for one in tolerations)


def has_labels(node: NodeView, labels: Set[tuple[str, str]]) -> bool:
    """True if the node has all of these labels."""
    return labels <= node.labels.items()
