"""What a restore returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.format.program import Program

__all__ = ["Restored", "restored"]


@dataclass(frozen=True)
class Restored:
    """What to resume from. `state` and `ranks` are as they were saved; `note` says what was passed over, if any.

    What nobody wanted was not read, and is missing; of a rank, None is there. `program` is what the checkpoint says of
    the program that made it.
    """

    step: int
    uri: str
    note: str
    state: Any
    ranks: tuple[Any, ...]
    program: Program


def restored(found: Found, state: Any, ranks: Sequence[Any]) -> Restored:
    """What was read of `found`."""
    about = Program(found.manifest.versions, found.manifest.program)
    return Restored(found.manifest.step, found.uri, "", state, tuple(ranks), about)
