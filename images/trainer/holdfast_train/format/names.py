"""Names of checkpoints, and the keys of all objects."""

import re
import uuid
from dataclasses import dataclass
from typing import ClassVar, Final

from holdfast_train.errors import StorageInvalidError

_MANIFEST: Final = re.compile(r"manifests/([^/]+)\.json")


@dataclass(frozen=True, order=True)
class CheckpointName:
    """`{step}-a{attempt}-{nonce}`: the step with at least 12 digits, the attempt from 1 on, the nonce in hex digits.

    The nonce is new for each save, so no name is ever used twice.
    """

    step: int
    attempt: int
    nonce: str

    FORM: ClassVar[re.Pattern[str]] = re.compile(r"([0-9]{12}|[1-9][0-9]{12,17})-a([1-9][0-9]{0,17})-([0-9a-f]+)")

    @classmethod
    def new(cls, step: int, attempt: int) -> "CheckpointName":
        """A name that was never used before."""
        return cls(step, attempt, uuid.uuid4().hex[:12])

    @classmethod
    def parse(cls, text: str) -> "CheckpointName | None":
        """The name that `text` spells, None if `text` is not a checkpoint's name."""
        found = cls.FORM.fullmatch(text)
        return cls(int(found[1]), int(found[2]), found[3]) if found else None

    @classmethod
    def of_key(cls, key: str) -> "CheckpointName | None":
        """The name of the checkpoint to which the data or the manifest at `key` belongs, None if to no checkpoint."""
        found = _MANIFEST.fullmatch(key)
        return cls.parse(found[1] if found else key.removeprefix("data/").partition("/")[0])

    def __str__(self) -> str:
        return f"{self.step:012d}-a{self.attempt}-{self.nonce}"

    @property
    def manifest_key(self) -> str:
        """The key of the manifest."""
        return f"manifests/{self}.json"

    @property
    def data_prefix(self) -> str:
        """The beginning of the keys of all data."""
        return f"data/{self}/"

    def part_prefix(self, rank: int) -> str:
        """The beginning of the keys of all data that `rank` writes."""
        return f"{self.data_prefix}r{rank}."

    def part_key(self, rank: int, part: int) -> str:
        """The key of part number `part` of the data that `rank` writes."""
        return f"{self.part_prefix(rank)}{part}"

    def beat_key(self, rank: int, count: int) -> str:
        """The key of an empty object that shows that `rank` still writes its data."""
        return f"{self.part_prefix(rank)}beat{count}"

    def fragment_key(self, rank: int) -> str:
        """The key at which `rank` leaves its fragment for rank 0."""
        return f"{self.part_prefix(rank)}json"


def resolve(uri: str) -> tuple[str, CheckpointName | None]:
    """The prefix in `uri`, and the checkpoint's name if `uri` is the address of a manifest. StorageInvalidError."""
    prefix, separator, rest = uri.rpartition("/manifests/")
    if not separator:
        return uri, None
    name = CheckpointName.parse(rest.removesuffix(".json"))
    if name is None:
        raise StorageInvalidError(
            f"{uri} is not the address of a checkpoint; allowed: PREFIX/manifests/STEP-aATTEMPT-NONCE.json, "
            f"such as s3://bucket/prefix/manifests/{CheckpointName(500, 1, '0123456789ab')}.json"
        )
    return prefix, name


def log_key(seq: int) -> str:
    """The key of record number `seq`."""
    return f"log/{seq:012d}.json"


def log_seq(key: str) -> int | None:
    """The number of the record at `key`, None if `key` is not a record's."""
    name = key.removeprefix("log/").removesuffix(".json")
    return int(name) if key == f"log/{name}.json" and len(name) == 12 and name.isdecimal() else None
