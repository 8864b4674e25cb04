"""What a pod asks of a node, and if a pod that gets no node shows that its tier lacks capacity.

A tenant can make a pod that no node will ever take. Such a pod says nothing about the tier.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Self

from holdfast.api.attempt import Attempt
from holdfast.api.knowledge import Seen
from holdfast.api.profile import Tier
from holdfast.api.scalars import quantity_value
from holdfast.api.trainer import Trainer
from holdfast.core.observe.members import pods_by_rank
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.unscheduled import Shortage, find_shortage

amount_of = lru_cache(maxsize=4096)(quantity_value)  # few different quantities, compared for many nodes


class Demand(NamedTuple):
    """How much a job asks of each node. The accelerators are its shape: knowledge is shared by shape."""

    accelerators: int
    cpu: Fraction
    memory: Fraction
    nodes: int = 1

    @classmethod
    def of(cls, trainer: Trainer) -> Self:
        """What this trainer asks for."""
        resources = trainer.resources
        return cls(trainer.accelerators_per_node, amount_of(resources.cpu), amount_of(resources.memory), trainer.nodes)

    def covers(self, other: "Demand") -> bool:
        """True if it asks for at least as much of everything as the other."""
        larger = self.accelerators >= other.accelerators and self.cpu >= other.cpu
        return larger and self.memory >= other.memory and self.nodes >= other.nodes


def accelerators_on(trainer: Trainer, tier: Tier) -> int:
    """How many accelerators each pod asks for on this tier if the tier has any; 0 if the program needs none."""
    return trainer.accelerators_per_node and (tier.accelerators_per_node or trainer.accelerators_per_node)


def requested_anywhere(trainer: Trainer) -> dict[str, str]:
    """The resources of one pod of this trainer on every tier: without accelerators and the extra ones of a tier."""
    asked = trainer.resources
    wanted = {"cpu": asked.cpu, "memory": asked.memory}
    return wanted | ({"ephemeral-storage": asked.ephemeral_storage} if asked.ephemeral_storage else {})


def requested(trainer: Trainer, tier: Tier) -> dict[str, str]:
    """The resources of one pod of this trainer on the tier."""
    wanted = requested_anywhere(trainer)
    if tier.accelerator and (number := accelerators_on(trainer, tier)):
        wanted[tier.accelerator] = str(number)
    return wanted | dict(getattr(tier, "extra_resources", {}))


def held_by(requests: Mapping[str, str]) -> dict[str, Fraction]:
    """What a pod takes of its node; the pod itself is one of the node's `pods`."""
    return {what: amount_of(amount) for what, amount in requests.items()} | {"pods": Fraction(1)}


def too_small(offered: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    """The first resource of which a node with `offered` has less than is wanted; None if it has enough of all."""
    short = (name for name, amount in wanted.items() if amount_of(offered.get(name, "0")) < amount_of(amount))
    return next(short, None)


def larger_than_all(cluster: ClusterView, tier: Tier, wanted: Mapping[str, str]) -> str:
    """In what a pod is larger than every node with the tier's labels, even if the nodes are empty; empty if it is not.

    It is not if no node has the labels. A node that does not say what it offers counts as large enough.
    """
    labels = frozenset(tier.node_selector.items())

    def derive() -> str:
        offers = [node.allocatable for node in cluster.nodes.values() if labels <= node.labels.items()]
        if not offers or not all(one and too_small(one, wanted) for one in offers):
            return ""
        most = {name: max((one.get(name, "0") for one in offers), key=amount_of) for name in sorted(wanted)}
        short = [name for name, amount in most.items() if amount_of(amount) < amount_of(wanted[name])]
        if not short:
            return f"no node has all of {', '.join(f'{name} {wanted[name]}' for name in most)}"
        return ", ".join(f"{name} {wanted[name]}, and a node has at most {most[name]}" for name in short)

    return cluster.once(("larger", labels, frozenset(wanted.items())), derive)


def refusal_of(pods: Iterable[PodView], attempt: Attempt, trainer: Trainer, cluster: ClusterView) -> Seen:
    """What the tier shows an attempt that has not got all of its nodes. `pods` are those of the job.

    A tier that gave some nodes and has no more of them has capacity, only not for a training of this size.
    """
    mine = pods_by_rank(pods, attempt).values()
    if attempt.nodes > 1 and any(pod.node for pod in mine):
        return Seen.UNFIT
    return refusal(next(iter(mine), None), attempt.tier, trainer, cluster)


def refusal(pod: PodView | None, tier: Tier, trainer: Trainer, cluster: ClusterView) -> Seen:
    """What it shows that the tier gave this pod no node: Refused if the tier lacks capacity, otherwise Unfit.

    Refused: the scheduler says that matching nodes have no room, or that there are none. Unfit: the pod has a gate, a
    volume or an affinity that no node suits; or all nodes that match its tier are avoided, or too small even if empty.
    """
    shortage = find_shortage(pod, tier.accelerator if trainer.accelerators_per_node else None)
    if shortage is Shortage.OTHER or (shortage is Shortage.NODE and cluster.matching(tier.node_selector)):
        return Seen.UNFIT
    return Seen.UNFIT if larger_than_all(cluster, tier, requested(trainer, tier)) else Seen.REFUSED
