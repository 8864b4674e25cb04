"""Manifests: what a checkpoint consists of, down to a checksum for every chunk. A manifest hashes itself."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from awscrt import checksums

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.sealed_json import sealed, unsealed
from holdfast_train.format.tree import Shard, TensorEntry, Tree
from holdfast_train.storage.checksums import chunk_sums

__all__ = ["PART_BYTES", "Manifest", "Part", "check_chunks", "decode", "encode", "parts_of", "tensors_of"]

PART_BYTES: Final = 64 << 20

VERSION: Final = 2


@dataclass(frozen=True)
class Part:
    """One object of data: `size` bytes in chunks of `chunk` bytes, each with its CRC-64/NVME in 16 hex digits."""

    key: str
    size: int
    chunk: int
    crc64nvme: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """One checkpoint. `state` is the tree all ranks share, `ranks` one tree for each rank (RNG and its own state).

    Offsets of `tensors` count from the start of the first part through all parts, in their order here. `at`: RFC 3339,
    UTC. `versions`: of libraries. `program`: what else a resume should find unchanged, a word and its value each (a
    hash of the configuration, a revision, the data's fingerprint). `metrics`: what was measured at this step, decimals.
    """

    name: str
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
        """Bytes of data, all parts together."""
        return sum(part.size for part in self.parts)


def check_chunks(part: Part, first: int, *views: bytes | memoryview) -> None:
    """CheckpointCorruptError if `views`, one behind the other, are not what `part` says from chunk number `first` on.

    Names what differs.
    """
    found = chunk_sums(views[0], part.chunk) if len(views) == 1 else _sums_over(views, part.chunk)
    for number, got in enumerate(found, first):
        if got != (wanted := part.crc64nvme[number]):
            raise CheckpointCorruptError(f"{part.key}: the CRC of chunk {number} is {got}, not {wanted}")


def _sums_over(views: Iterable[bytes | memoryview], chunk: int) -> Iterator[str]:
    """As `chunk_sums`, of chunks that go over several pieces of memory."""
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
    """The manifest as JSON that carries its hash: see `seal`."""
    return sealed({"v": VERSION, **vars(manifest)})


def decode(data: bytes) -> Manifest:
    """The manifest in `data`. CheckpointCorruptError if its hash does not hold or it is no manifest."""
    try:
        body = unsealed(data)
        if (version := body.pop("v")) != VERSION:
            raise CheckpointCorruptError(f"it has version {version}, and this holdfast-train reads {VERSION}")
        parts, tensors = parts_of(body.pop("parts")), tensors_of(body.pop("tensors"))
        return Manifest(parts=parts, tensors=tensors, **{**body, "ranks": tuple(body["ranks"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointCorruptError(f"it is not a manifest: {error}") from error


def parts_of(bodies: Iterable[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Parts from JSON. KeyError, TypeError if they are none."""
    return tuple(Part(**{**body, "crc64nvme": tuple(body["crc64nvme"])}) for body in bodies)


def tensors_of(bodies: Iterable[Mapping[str, Any]]) -> tuple[TensorEntry, ...]:
    """Tensors from JSON. KeyError, TypeError if they are none."""
    return tuple(_tensor(body) for body in bodies)


def _tensor(body: Mapping[str, Any]) -> TensorEntry:
    shards = (
        Shard(**{**shard, "start": tuple(shard["start"]), "shape": tuple(shard["shape"])}) for shard in body["shards"]
    )
    return TensorEntry(**{**body, "shape": tuple(body["shape"]), "shards": tuple(shards)})
