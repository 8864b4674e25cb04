"""NeverFits: the condition of a job that no tier can hold: a pod is larger than every node, or the nodes are too few.

It is True if nothing can bring what is missing: the nodes of each tier are all that there are or, for a pod that is too
large, the tier names their instance type. It is Unknown if an autoscaler may exist that brings what is missing. If the
nodes are too few, the job waits for more of them once before it says so. Which nodes a known autoscaler can bring, the
operator does not know.
"""

from typing import Final, Literal, NamedTuple

from holdfast.api.profile import ProfileTier
from holdfast.core.attempt.all_or_none import is_fixed, observation_in
from holdfast.core.draft import Draft
from holdfast.core.observe.demand import larger_than_all
from holdfast.core.observe.members import WAITING
from holdfast.core.observe.room import Shape
from holdfast.core.status.conditions import find_condition, is_true, set_condition

NEVER_FITS: Final = "NeverFits"
# Nodes of one type offer the same, whichever provisioner brings them.
_INSTANCE_TYPE: Final = frozenset(("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"))
LOWER: Final = "lower spec.trainer.resources or spec.trainer.acceleratorsPerNode, or name a tier with larger nodes"


class Misfit(NamedTuple):
    """What the condition says of a job that no tier can hold, as far as is known."""

    state: Literal["True", "Unknown"]
    reason: str
    message: str


def show_misfit(draft: Draft) -> None:
    """Set the condition while the job lacks nodes."""
    current = draft.status.current
    lacks_nodes = not draft.status.is_over and (current is None or current.state in WAITING)
    misfit = find_misfit(draft) if lacks_nodes else None
    if misfit is None:
        if find_condition(draft, NEVER_FITS):
            set_condition(draft, NEVER_FITS, "False", "MayFit")
        return
    if misfit.state == "True" and not is_true(draft, NEVER_FITS):
        draft.event(NEVER_FITS, misfit.message, warning=True)
    set_condition(draft, NEVER_FITS, *misfit)


def find_misfit(draft: Draft) -> Misfit | None:
    """Why no tier can hold the job; None if one may."""
    cluster, trainer = draft.snapshot.cluster, draft.snapshot.job.spec.trainer
    words, all_larger, unknown = list[str](), True, list[str]()
    in_vain = (current := draft.status.current) is not None and current.given_back > 0
    for tier in draft.snapshot.grid:
        shape = Shape.of(trainer, tier)
        larger, count = larger_than_all(cluster, tier, dict(shape.wanted)), len(draft.snapshot.nodes_ever_for(tier))
        if not larger and (trainer.nodes == 1 or count >= trainer.nodes):
            return None
        if not (_brings_no_larger(draft, tier) if larger else is_fixed(draft, tier)):
            if observation_in(draft, tier) == "Billed" or not (larger or in_vain):
                return None
            unknown.append(tier.name)
        words.append(f"{tier.name}: {larger}" if larger else f"{tier.name} has {count}")
        all_larger = all_larger and bool(larger)
    if not words:
        return None
    if all_larger:
        text = f"a pod asks for more than any node has. {'; '.join(words)}. To start it, {LOWER}"
    else:
        text = (
            f"spec.trainer.nodes is {trainer.nodes}, and no tier has so many nodes that its pods can use: "
            f"{', '.join(words)}. Add nodes, lower spec.trainer.nodes or spec.trainer.resources, or name another tier"
        )
    if unknown:
        missing = "larger" if all_larger else "such"
        text += f". Whether something brings {missing} nodes of tier {' or '.join(unknown)} is not known"
    state: Literal["True", "Unknown"] = "Unknown" if unknown else "True"
    return Misfit(state, "LargerThanEveryNode" if all_larger else "TooFewNodes", text)


def _brings_no_larger(draft: Draft, tier: ProfileTier) -> bool:
    """True if nothing brings a node of the tier that is larger than those that there are."""
    return is_fixed(draft, tier) or not _INSTANCE_TYPE.isdisjoint(tier.node_selector)
