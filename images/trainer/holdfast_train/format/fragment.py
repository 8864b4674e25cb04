"""One rank's share of a manifest, which the rank writes to the storage for rank 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.codec import decoded
from holdfast_train.format.manifest import Part
from holdfast_train.format.sealed_json import canonical, decoded_json
from holdfast_train.format.tree import TensorEntry, Tree


@dataclass(frozen=True)
class Fragment:
    """What one rank has written of a checkpoint: its `share` of the replicated state, its `own` bytes and its tree.

    `frozen_share` and `frozen_own` are the parts of frozen tensors; an earlier save may have written them.
    `form` is `Plan.form` of its plan. `sums` and `objects` are checksums of what is equal on other ranks: of its
    `Sample`, and `tree_sums`. `failed` says why the rank's part is missing; empty if it is written.
    """

    rank: int
    form: str = ""
    frozen_share: tuple[Part, ...] = ()
    frozen_own: tuple[Part, ...] = ()
    share: tuple[Part, ...] = ()
    own: tuple[Part, ...] = ()
    tensors: tuple[TensorEntry, ...] = ()
    tree: Tree = None
    sums: str = ""
    objects: Mapping[str, str] = field(default_factory=dict)
    failed: str = ""

    def encode(self) -> bytes:
        """As JSON."""
        return canonical(self)

    @classmethod
    def decode(cls, data: bytes) -> "Fragment":
        """From JSON. CheckpointCorruptError if `data` is not a fragment."""
        try:
            return decoded(cls, decoded_json(data))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise CheckpointCorruptError(f"a rank's part of the checkpoint cannot be read: {error}") from error
