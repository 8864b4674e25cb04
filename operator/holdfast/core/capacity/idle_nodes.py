"""Nodes that stand there: where nodes of a tier wait for pods, it costs nothing to see that the tier can be had."""

from datetime import datetime

from holdfast.api.profile import Tier, Toleration
from holdfast.core.observe.nodes import ClusterView, NodeView, Taint
from holdfast.core.observe.notices import TAINTS
from holdfast.core.observe.raw import LONG_AGO


def standing_since(cluster: ClusterView, tier: Tier) -> datetime | None:
    """Since when a node has been there for pods of the tier, the longest of them; None if there is none.

    Whether it has room is not known. It carries the tier's labels, is ready and schedulable, is not about to go, and
    has no taint that the tier does not tolerate.
    """
    labels = frozenset(tier.node_selector.items())

    def derive() -> datetime | None:
        fitting = (n for n in cluster.nodes.values() if labels <= n.labels.items() and _usable(n, tier.tolerations))
        return min(map(_since, fitting), default=None)

    return cluster.once((labels, tier.tolerations), derive)


def _usable(node: NodeView, tolerations: tuple[Toleration, ...]) -> bool:
    if not node.ready or node.unschedulable or node.maintenance or node.deleted_at or node.termination_at:
        return False
    return all(_borne(taint, tolerations) for taint in node.taints)


def _borne(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    """True if the taint keeps no pod of the tier away. One that announces the end of the node always does."""
    if taint.key in TAINTS:
        return False
    return taint.effect == "PreferNoSchedule" or any(_bears(toleration, taint) for toleration in tolerations)


def _bears(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in (None, taint.effect) or toleration.key not in (None, taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == taint.value


def _since(node: NodeView) -> datetime:
    """When it became ready; a node that was made after that is a new one under an old name."""
    return max(node.ready_changed_at or LONG_AGO, node.created_at or LONG_AGO)
