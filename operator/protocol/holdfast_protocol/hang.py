"""A training on several nodes hangs: what the launcher of each node tells, and which node is at fault.

All nodes stand still, because each step waits for all of them. The node at fault is the one for which the others wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from . import document as kind

MOST_GROUPS = 4  # process groups that a launcher tells
GROUP_NAME = 64  # characters


@dataclass(frozen=True)
class Hang:
    """What the ranks of one node did."""

    stopped: bool = kind.flag()
    """A process was stopped by a signal, or had ended."""
    entered: Mapping[str, int] = field(
        default_factory=dict, metadata=kind.counts(most=MOST_GROUPS, characters=GROUP_NAME)
    )
    """By process group, the fewest collectives that a rank had entered."""
    waits: bool | None = kind.flag(None)
    """All ranks waited for other ranks; not set if that is not known."""


class Fault(NamedTuple):
    """The node of a rank that is at fault, and how that is known."""

    rank: int
    why: str


def at_fault(hangs: Mapping[int, Hang]) -> Fault | None:
    """The node at fault, None if no rule tells it from the others. `hangs`: by the rank of the pod.

    A process was stopped there; or its ranks had entered the fewest collectives of a group; or they did not wait for
    others, while those of another node did. Of several such nodes, the one with the lowest rank.
    """
    stopped = [rank for rank, one in sorted(hangs.items()) if one.stopped]
    if 0 < len(stopped) < len(hangs):
        return Fault(stopped[0], "a process was stopped there, or had ended")
    for group in sorted({name for one in hangs.values() for name in one.entered}):
        numbers = {rank: one.entered[group] for rank, one in sorted(hangs.items()) if group in one.entered}
        least = min(numbers, key=numbers.__getitem__)
        if numbers[least] < max(numbers.values()):
            told = f"a rank had entered {numbers[least]} collectives of process group {group}"
            return Fault(least, f"{told}, and those of another node {max(numbers.values())}")
    own = [rank for rank, one in sorted(hangs.items()) if one.waits is False]
    if own and any(one.waits for one in hangs.values()):
        return Fault(own[0], "a rank did not wait for others, and those of another node did")
    return None
