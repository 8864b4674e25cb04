"""Which nodes pods of a tier may use.

Where a usable node waits for pods, Holdfast sees at no cost that the tier can give one.
"""

from datetime import datetime

from holdfast.api.profile import Tier
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


def why_unusable(node: NodeView, tier: Tier) -> str:
    """Why a new pod of the tier may not use this node; empty if it may. Labels and free room are not checked."""
    if reason := why_leaving(node):
        return reason
    refused = (taint.key for taint in node.taints if taint.effect != "PreferNoSchedule" and not tolerates(tier, taint))
    return next((f"taint {key} is not tolerated" for key in refused), "")


def tolerates(tier: Tier, taint: Taint) -> bool:
    """True if the pods of the tier tolerate this taint. An admission plugin may give them more tolerations."""
    return any(toleration.tolerates(taint) for toleration in tier.tolerations)


def usable_node_since(cluster: ClusterView, tier: Tier) -> datetime | None:
    """Since when the cluster has a node that the tier may use: the oldest such node counts. None if it has none.

    The node has the tier's labels. It may be full: that is not known.
    """
    labels = frozenset(tier.node_selector.items())

    def derive() -> datetime | None:
        fitting = (n for n in cluster.nodes.values() if labels <= n.labels.items() and not why_unusable(n, tier))
        return min(map(_ready_since, fitting), default=None)

    return cluster.once((labels, tier.tolerations), derive)


def _ready_since(node: NodeView) -> datetime:
    """When the node became ready. A node that was created after that is a new machine under an old name."""
    return max(node.ready_changed_at or LONG_AGO, node.created_at or LONG_AGO)
