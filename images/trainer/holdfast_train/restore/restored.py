"""The result of a restore."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.format.program import Program
from holdfast_train.restore.memory_checkpoints import IN_MEMORY


@dataclass(frozen=True)
class Restored:
    """A restored checkpoint. `state` and `ranks` are as saved; `note` names the checkpoints that were passed over.

    Values that were not wanted were not read and are missing; for a rank the value is None. `program`: the facts in the
    checkpoint about the program that saved it. `objects`: the names of all objects in the checkpoint. `seq`, `only`: as
    of Found.
    """

    step: int
    uri: str
    note: str
    state: Any
    ranks: tuple[Any, ...]
    program: Program
    objects: tuple[str, ...] = ()
    seq: int = 0
    only: tuple[str, ...] = ()

    @property
    def is_stored(self) -> bool:
        """False if only the memory of the nodes has this checkpoint."""
        return self.seq != IN_MEMORY

    def step_in(self, storage_uri: str) -> int | None:
        """The step of this checkpoint if training goes on from it, and it is committed in that storage. Otherwise
        None."""
        goes_on = self.is_stored and not self.only
        return self.step if goes_on and self.uri.startswith(f"{storage_uri}/manifests/") else None


def restored(found: Found, state: Any, ranks: Sequence[Any]) -> Restored:
    """The result for `found`, of which `state` and `ranks` were read."""
    about = Program(found.manifest.versions, found.manifest.program)
    return Restored(found.manifest.step, found.uri, "", state, tuple(ranks), about, seq=found.seq, only=found.only)
