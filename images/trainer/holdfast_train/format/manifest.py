"""Manifests: the parts and tensors of a checkpoint, with a checksum of every chunk. A manifest carries its own hash."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from awscrt import checksums

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.codec import decoded, encoded
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.sealed_json import sealed, unsealed
from holdfast_train.format.tree import TensorEntry, Tree
from holdfast_train.format.version import VERSION, take_version
from holdfast_train.storage.checksums import chunk_sums

PART_BYTES: Final = 64 << 20
OF_FOLDER: Final = "checkpoint.folder"  # in `program` of a checkpoint that has files and no objects of a Run


@dataclass(frozen=True)
class Part:
    """One object of data: `size` bytes in chunks of `chunk` bytes, and the CRC-64/NVME of each in 16 hex digits.

    `key`: below the name of the checkpoint, or below the name of frozen parameters that several checkpoints use.
    """

    key: str
    size: int
    chunk: int
    crc64nvme: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """One checkpoint. `state` is the tree that all ranks share; `ranks` has one tree for each rank (RNG and own state).

    Offsets of `tensors` count from the start of the first part through all parts in this order. `at`: RFC 3339, UTC.
    `versions`: of libraries. `program`: other facts that a resume compares (a hash of the configuration, a revision,
    fingerprints of data). `metrics`: measurements at this step, as decimals.
    """

    name: CheckpointName
    step: int
    attempt: int
    job_uid: str
    at: str
    versions: Mapping[str, str]
    program: Mapping[str, str]
    metrics: Mapping[str, str]
    parts: tuple[Part, ...]
    tensors: tuple[TensorEntry, ...]
    state: Tree
    ranks: tuple[Tree, ...]

    @property
    def size(self) -> int:
        """Bytes of data in all objects. Of files with the same bytes, `parts` has the same object twice."""
        return sum({part.key: part.size for part in self.parts}.values())

    @property
    def sizes(self) -> Mapping[CheckpointName, int]:
        """Bytes of data by the name under which they lie. CheckpointCorruptError if a part lies elsewhere."""
        found: dict[CheckpointName, int] = {}
        for key, size in {part.key: part.size for part in self.parts}.items():
            name = CheckpointName.of_key(key)
            if name is None:
                raise CheckpointCorruptError(f"{key} is not the key of data")
            found[name] = found.get(name, 0) + size
        return found

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The beginnings of the keys of all parts. CheckpointCorruptError: see `sizes`."""
        return tuple(name.data_prefix for name in sorted(self.sizes))


def check_chunks(part: Part, first: int, *views: bytes | memoryview) -> None:
    """CheckpointCorruptError, with the chunk, if `views`, joined, are not the chunks of `part` from `first` on."""
    found = chunk_sums(views[0], part.chunk) if len(views) == 1 else _sums_over(views, part.chunk)
    for number, got in enumerate(found, first):
        if got != (wanted := part.crc64nvme[number]):
            raise CheckpointCorruptError(f"{part.key}: the CRC of chunk {number} is {got}, not {wanted}")


def _sums_over(views: Iterable[bytes | memoryview], chunk: int) -> Iterator[str]:
    """As `chunk_sums`, for chunks that span several pieces of memory."""
    crc = done = 0
    for data in views:
        view, at = memoryview(data), 0
        while at < len(view):
            piece = view[at : at + chunk - done]
            crc = checksums.crc64nvme(piece, crc)
            at, done = at + len(piece), done + len(piece)
            if done == chunk:
                yield f"{crc:016x}"
                crc = done = 0
    if done:
        yield f"{crc:016x}"


def encode(manifest: Manifest) -> bytes:
    """The manifest as sealed JSON."""
    return sealed({"v": VERSION, **encoded(manifest)})


def decode(data: bytes) -> Manifest:
    """The manifest in `data`.

    CheckpointCorruptError if its hash is wrong or it is not a manifest; CheckpointVersionError if it has another
    version.
    """
    try:
        body = unsealed(data)
        take_version(body)
        return decoded(Manifest, body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointCorruptError(f"it is not a manifest: {error}") from error
