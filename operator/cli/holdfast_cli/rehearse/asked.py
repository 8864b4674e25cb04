"""What a rehearsal was asked to do, and who carries it out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast_cli.rehearse.left import Interruption
from holdfast_cli.rehearse.ran import Planned, Ran


@dataclass(frozen=True, slots=True)
class Asked:
    """The interruptions, in their order. `ignore`: files that are not compared. `tolerance`: a relative difference."""

    interruptions: Sequence[Interruption]
    ignore: Sequence[str] = ()
    tolerance: float | None = None


class Stage(Protocol):
    """Runs a program from its start to its end: on this machine, or on a tier of a cluster."""

    def undisturbed(self, name: str) -> Ran:
        """What the program leaves if nothing interrupts it. `name`: of the run, for people and for its files."""

    def interrupted(self, name: str, plan: Sequence[Planned]) -> Ran:
        """What it leaves if it is interrupted as planned, and started again each time."""
