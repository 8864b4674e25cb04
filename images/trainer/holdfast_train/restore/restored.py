"""The result of a restore."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.format.program import Program

__all__ = ["Restored", "restored"]


@dataclass(frozen=True)
class Restored:
    """A restored checkpoint. `state` and `ranks` are as saved; `note` names the checkpoints that were passed over.

    Values that were not wanted were not read and are missing; for a rank the value is None. `program`: the facts in the
    checkpoint about the program that saved it. `objects`: the names of all objects in the checkpoint.
    """

    step: int
    uri: str
    note: str
    state: Any
    ranks: tuple[Any, ...]
    program: Program
    objects: tuple[str, ...] = ()


def restored(found: Found, state: Any, ranks: Sequence[Any]) -> Restored:
    """The result for `found`, of which `state` and `ranks` were read."""
    about = Program(found.manifest.versions, found.manifest.program)
    return Restored(found.manifest.step, found.uri, "", state, tuple(ranks), about)
