"""The nodes of a cluster that a tier can use, as the scheduler decides. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from holdfast.api.job import Trainer
from holdfast.api.profile import Tier, Toleration
from holdfast.api.scalars import quantity_value

_REFUSING = ("NoSchedule", "NoExecute")
Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fit:
    """The number of nodes with the tier's labels, how many of these are usable, and why the others are not."""

    labelled: int
    usable: int
    reasons: tuple[str, ...]


def fit(tier: Tier, trainer: Trainer, nodes: Iterable[Node]) -> Fit:
    """The nodes that a pod of `trainer` could run on if they were empty."""
    wanted = needs(tier, trainer)
    labelled = [node for node in nodes if has_labels(node, tier.node_selector)]
    reasons = [_why_not(node, tier.tolerations, wanted) for node in labelled]
    refusals = tuple(sorted({reason for reason in reasons if reason}))
    return Fit(len(labelled), sum(not reason for reason in reasons), refusals)


def needs(tier: Tier, trainer: Trainer) -> dict[str, str]:
    """The resources of one pod on this tier."""
    wanted = {"cpu": trainer.resources.cpu, "memory": trainer.resources.memory}
    if tier.accelerator and trainer.accelerators_per_node:
        wanted[tier.accelerator] = str(trainer.accelerators_per_node)
    return wanted | dict(getattr(tier, "extra_resources", {}))


def has_labels(node: Node, selector: Mapping[str, str]) -> bool:
    """True if a node has all labels of a selector."""
    return selector.items() <= (node["metadata"].get("labels") or {}).items()


def _why_not(node: Node, tolerations: Sequence[Toleration], wanted: Mapping[str, str]) -> str:
    spec, offered = node.get("spec") or {}, (node.get("status") or {}).get("allocatable") or {}
    for taint in spec.get("taints") or ():
        if taint["effect"] in _REFUSING and not any(_bears(toleration, taint) for toleration in tolerations):
            return f"taint {taint['key']} is not tolerated"
    if spec.get("unschedulable"):
        return "cordoned"
    for resource, amount in wanted.items():
        has = quantity_value(offered[resource]) if resource in offered else Fraction(0)
        if has < quantity_value(amount):
            return f"{resource} {offered.get(resource, '0')} is less than {amount}"
    return ""


def _bears(toleration: Toleration, taint: Mapping[str, str]) -> bool:
    if toleration.effect not in (None, taint["effect"]) or toleration.key not in (None, taint["key"]):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == (taint.get("value") or "")
