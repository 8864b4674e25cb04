"""`CopyNote`: what the copy of one rank's state in memory contains. It lies beside the copy, and is kept with it."""

from dataclasses import dataclass

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.codec import decoded
from holdfast_train.format.fragment import Fragment
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.sealed_json import canonical, decoded_json


@dataclass(frozen=True)
class CopyNote:
    """One of `ranks` ranks has copied its part of the save `name`: `fragment`, with the checksums of all its bytes.

    `has_frozen`: the copy begins with the frozen parts; otherwise an earlier save has written them. Rank 0 alone adds
    `draft` (see `assemble`), and `fence`: the number of the record by which its attempt raised its fence.
    """

    name: CheckpointName
    ranks: int
    fragment: Fragment
    has_frozen: bool
    draft: Manifest | None = None
    fence: int | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that the copy consists of, one after the other."""
        found = self.fragment
        frozen = (*found.frozen_share, *found.frozen_own) if self.has_frozen else ()
        return (*frozen, *found.share, *found.own)

    def encode(self) -> bytes:
        """As JSON."""
        return canonical(self)

    @classmethod
    def decode(cls, data: bytes) -> "CopyNote":
        """From JSON. CheckpointCorruptError if `data` is not a note."""
        try:
            return decoded(cls, decoded_json(data))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise CheckpointCorruptError(f"the note of a copy in memory cannot be read: {error}") from error
