"""Which nodes pods of a tier may use.

Where a usable node waits for pods, Holdfast sees at no cost that the tier can give one.
"""

from collections.abc import Iterable, Set
from datetime import datetime

from holdfast.api.profile import Tier, Toleration
from holdfast.core.observe.nodes import ClusterView, NodeView, Taint
from holdfast.core.observe.notices import TAINTS
from holdfast.core.observe.raw import LONG_AGO


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


def usable_since(cluster: ClusterView, tier: Tier, count: int = 1) -> datetime | None:
    """Since when the cluster has `count` nodes that the tier may use; None if it has fewer.

    The nodes have the tier's labels. They may be full: that is not known.
    """
    labels = frozenset(tier.node_selector.items())

    def derive() -> list[datetime]:
        fitting = [n for n in cluster.nodes.values() if has_labels(n, labels) and not why_unusable(n, tier.tolerations)]
        return sorted(map(_ready_since, fitting))

    ready = cluster.once((labels, tier.tolerations), derive)
    return ready[count - 1] if len(ready) >= count else None


def _ready_since(node: NodeView) -> datetime:
    """When the node became ready. A node that was created after that is a new machine under an old name."""
    return max(node.ready_changed_at or LONG_AGO, node.created_at or LONG_AGO)
