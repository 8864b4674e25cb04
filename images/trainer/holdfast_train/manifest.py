"""Manifests: what a checkpoint consists of, down to a checksum for every chunk. A manifest hashes itself."""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.state import TensorEntry, Tree

__all__ = [
    "CHUNK_BYTES",
    "PART_BYTES",
    "Manifest",
    "Part",
    "check_part",
    "checksums",
    "decode",
    "encode",
    "manifest_key",
    "part_key",
]

CHUNK_BYTES: Final = 4 << 20
PART_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Part:
    """One object of data: `size` bytes in chunks of `chunk` bytes, each with its CRC-32."""

    key: str
    size: int
    chunk: int
    crc32: tuple[int, ...]


@dataclass(frozen=True)
class Manifest:
    """One checkpoint. `state` is the tree all ranks share, `ranks` one tree for each rank (RNG and its own state).

    Offsets of `tensors` count from the start of the first part through all parts. `at`: RFC 3339, UTC.
    """

    name: str
    step: int
    attempt: int
    job_uid: str
    at: str
    versions: Mapping[str, str]
    parts: tuple[Part, ...]
    tensors: tuple[TensorEntry, ...]
    state: Tree
    ranks: tuple[Tree, ...]

    @property
    def size(self) -> int:
        """Bytes of data, all parts together."""
        return sum(part.size for part in self.parts)


def manifest_key(name: str) -> str:
    """The key of the manifest of the checkpoint `name`."""
    return f"manifests/{name}.json"


def part_key(name: str, rank: int, part: int) -> str:
    """The key of one part of the data of the checkpoint `name`."""
    return f"data/{name}/r{rank}.{part}"


def checksums(data: bytes | bytearray, chunk: int = CHUNK_BYTES) -> tuple[int, ...]:
    """CRC-32 of each chunk of `chunk` bytes."""
    view = memoryview(data)
    return tuple(zlib.crc32(view[start : start + chunk]) for start in range(0, len(view), chunk))


def check_part(part: Part, data: bytes) -> None:
    """CheckpointCorruptError if `data` is not what `part` says, naming the first chunk that differs."""
    if len(data) != part.size:
        raise CheckpointCorruptError(f"{part.key} has {len(data)} bytes, not {part.size}")
    for number, (found, wanted) in enumerate(zip(checksums(data, part.chunk), part.crc32, strict=True)):
        if found != wanted:
            raise CheckpointCorruptError(f"{part.key}: the CRC of chunk {number} is {found:08x}, not {wanted:08x}")


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def encode(manifest: Manifest) -> bytes:
    """The manifest as canonical JSON (sorted keys, no blanks) with `sha256` over the same without that field."""
    body: dict[str, Any] = {"v": 1, **asdict(manifest)}
    return _canonical({**body, "sha256": hashlib.sha256(_canonical(body)).hexdigest()})


def decode(data: bytes) -> Manifest:
    """The manifest in `data`. CheckpointCorruptError if its hash does not hold or it is no manifest."""
    try:
        body = json.loads(data)
        found = body.pop("sha256")
        wanted = hashlib.sha256(_canonical(body)).hexdigest()
        if body.pop("v") != 1 or found != wanted:
            raise CheckpointCorruptError(f"its hash is {wanted[:12]}, but it says {str(found)[:12]}")
        parts = tuple(Part(p["key"], p["size"], p["chunk"], tuple(p["crc32"])) for p in body.pop("parts"))
        tensors = tuple(TensorEntry(**{**t, "shape": tuple(t["shape"])}) for t in body.pop("tensors"))
        return Manifest(parts=parts, tensors=tensors, **{**body, "ranks": tuple(body["ranks"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointCorruptError(f"it is not a manifest: {error}") from error
