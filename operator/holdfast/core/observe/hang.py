"""Which of several nodes is at fault when a training hangs: each launcher tells what the ranks of its node did.

The same rules as for the ranks of one node (`holdfast_train.pod.launcher.hang.blame`), as far as launchers tell it.
"""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from holdfast.api.scalars import EXACT


class Hang(BaseModel):
    """What the ranks of one node did. It comes from a user's container.

    `stopped`: a process was stopped by a signal, or had ended. `entered`: by process group, the fewest collectives that
    a rank had entered. `waits`: all ranks waited for other ranks; None if that is not known.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    stopped: bool = False
    entered: Annotated[
        dict[Annotated[str, Field(max_length=64)], Annotated[int, Field(ge=0, le=EXACT)]], Field(max_length=4)
    ] = Field(default_factory=dict)
    waits: bool | None = None


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
