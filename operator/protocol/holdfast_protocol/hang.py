"""A training hangs: what is told of each of those that train together, and which of them is at fault.

All stand still, because each step waits for all of them. At fault is the one for which the others wait. The launcher of
a node compares its ranks, and the operator compares nodes, by what their launchers tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from . import document as kind

MOST_GROUPS = 4  # process groups that a launcher tells
GROUP_NAME = 64  # characters


@dataclass(frozen=True)
class Hang:
    """What the ranks of one node did, or one rank alone."""

    stopped: bool = kind.flag()
    """A process was stopped by a signal, or had ended."""
    entered: Mapping[str, int] = field(
        default_factory=dict, metadata=kind.counts(most=MOST_GROUPS, characters=GROUP_NAME)
    )
    """By process group, the fewest collectives that a rank had entered."""
    waits: bool | None = kind.flag(None)
    """All ranks waited for other ranks; not set if that is not known."""


class Fault(NamedTuple):
    """A rank that is at fault, or the node of a pod of this rank, and how that is known."""

    rank: int
    why: str


def at_fault(hangs: Mapping[int, Hang]) -> Sequence[Fault]:
    """Those at fault, by the first of these rules that separates some from the others; empty if none does.

    A process was stopped, or had ended. One had entered fewer collectives of a process group than another. One did not
    wait for others, while another did. `hangs`: by rank.
    """
    for rule in (_stopped, _behind_in_a_group, _does_not_wait):
        found = rule(dict(sorted(hangs.items())))
        if 0 < len(found) < len(hangs):
            return found
    return ()


def _stopped(hangs: Mapping[int, Hang]) -> Sequence[Fault]:
    return [
        Fault(rank, "its process is stopped by a signal, or has ended") for rank, one in hangs.items() if one.stopped
    ]


def _behind_in_a_group(hangs: Mapping[int, Hang]) -> Sequence[Fault]:
    """Of the groups in which numbers differ, the one in which the fewest are last tells most."""
    found: list[list[Fault]] = []
    for group in sorted({name for one in hangs.values() for name in one.entered}):
        numbers = {rank: one.entered[group] for rank, one in hangs.items() if group in one.entered}
        least, most = min(numbers.values()), max(numbers.values())
        why = f"it has entered {least} collectives of process group {group}, and others {most}"
        if least < most:
            found.append([Fault(rank, why) for rank, number in numbers.items() if number == least])
    return min(found, key=len, default=())


def _does_not_wait(hangs: Mapping[int, Hang]) -> Sequence[Fault]:
    if not any(one.waits for one in hangs.values()):
        return ()
    why = "it does not wait for other ranks, and others do"
    return [Fault(rank, why) for rank, one in hangs.items() if one.waits is False]
