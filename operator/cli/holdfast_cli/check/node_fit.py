"""The nodes of a cluster that a tier can use, as the scheduler decides. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.profile import Tier
from holdfast.api.trainer import Trainer
from holdfast.core.observe.demand import larger_than_all, requested
from holdfast.core.observe.nodes import ClusterView, NodeView
from holdfast.core.observe.room import why_not

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fit:
    """The number of nodes with the tier's labels, how many of these are usable, and why the others are not.

    `larger` says in what a pod is larger than each of them; it is empty if the pod is not.
    """

    labelled: int
    usable: int
    reasons: tuple[str, ...]
    larger: str = ""


def fit(tier: Tier, trainer: Trainer, nodes: Iterable[Node]) -> Fit:
    """The nodes that a pod of `trainer` could run on if they were empty."""
    wanted = requested(trainer, tier)
    labelled = [NodeView.parse(node) for node in nodes if has_labels(node, tier.node_selector)]
    reasons = [why_not(node, tier.tolerations, wanted) for node in labelled]
    refusals = tuple(sorted({reason for reason in reasons if reason}))
    larger = larger_than_all(ClusterView(labelled), tier, wanted)
    return Fit(len(labelled), sum(not reason for reason in reasons), refusals, larger)


def has_labels(node: Node, selector: Mapping[str, str]) -> bool:
    """True if a node has all labels of a selector."""
    return selector.items() <= (node["metadata"].get("labels") or {}).items()
