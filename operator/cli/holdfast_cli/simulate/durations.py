"""How long each phase of a pod takes in the virtual cluster."""

from dataclasses import dataclass
from datetime import timedelta

ZERO = timedelta(0)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Durations:
    """How long each phase takes on a tier.

    `acquire`: from asking for a node of a tier that is up until the pod has it. `start`: from there until the trainer
    runs (image, storage check). `load`: until the trainer is at the fence, where a successor waits. `restore`: from the
    fence until it trains. `pace`: one step. `save`: from the order to leave, or from the last step, until that is
    committed. `leave`: from there until the pod has ended.
    """

    acquire: timedelta = ZERO
    start: timedelta = ZERO
    load: timedelta = ZERO
    restore: timedelta = ZERO
    pace: timedelta = SECOND
    save: timedelta = ZERO
    leave: timedelta = ZERO

    def __post_init__(self) -> None:
        if min(self.acquire, self.start, self.load, self.restore, self.save, self.leave) < ZERO or self.pace <= ZERO:
            raise ValueError(f"durations must not be negative, and pace above 0; got {self}")

    @property
    def changeover(self) -> timedelta:
        """From asking for a node to the start of the first step."""
        return self.acquire + self.start + self.load + self.restore
