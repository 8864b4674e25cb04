"""Is a checkpoint intact? Reads every byte once, in pieces, in several threads, and names what is damaged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Final

from holdfast_train.errors import CheckpointCorruptError, KeyMissingError
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.storage import checksums
from holdfast_train.storage.base import Storage

THREADS: Final = 8
PIECE: Final = 16 << 20  # bytes that a thread reads at once; THREADS x PIECE bounds the memory


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with one object, or with one chunk of it."""

    key: str
    what: str
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole chunks of one part, from chunk number `first` on: `size` bytes at `start`."""

    part: Part
    first: int
    start: int
    size: int


def pieces(part: Part, size: int) -> Iterator[Piece]:
    """The complete chunks of an object of `size` bytes, in pieces of about PIECE bytes."""
    whole = part.size if size >= part.size else size - size % part.chunk
    step = max(PIECE // part.chunk, 1) * part.chunk
    for start in range(0, whole, step):
        yield Piece(part, start // part.chunk, start, min(step, whole - start))


def shapes(found: Manifest, sizes: Mapping[str, int]) -> list[Damage]:
    """Damage that shows without reading data. `sizes`: bytes of the objects that exist, by key."""
    damages = []
    for part in found.parts:
        chunks = -(-part.size // part.chunk) if part.chunk > 0 else -1
        if chunks != len(part.crc64nvme):
            damages.append(Damage(part.key, f"the manifest has {len(part.crc64nvme)} checksums for {part.size} bytes"))
        elif part.key not in sizes:
            damages.append(Damage(part.key, "it does not exist"))
        elif sizes[part.key] != part.size:
            damages.append(Damage(part.key, f"it has {sizes[part.key]} bytes, not {part.size}"))
    return damages


def sums(
    storage: Storage,
    found: Manifest,
    sizes: Mapping[str, int],
    pool: Executor,
    advance: Callable[[int], None],
) -> list[Damage]:
    """Chunks with a wrong checksum, in the order of the data. `advance` is called with the bytes of each piece.

    `shapes` reports missing parts. StorageError if the storage cannot be read.
    """
    listed = [part for part in found.parts if part.chunk > 0 and part.key in sizes]
    wanted = (piece for part in listed for piece in pieces(part, sizes[part.key]))
    damages: list[Damage] = []
    waiting: list[Future[list[Damage]]] = []

    def finish() -> None:
        damages.extend(waiting.pop(0).result())

    def read(piece: Piece) -> list[Damage]:
        result = _check(storage, piece)
        advance(piece.size)
        return result

    try:
        for piece in wanted:
            if len(waiting) >= 2 * THREADS:  # a queue just long enough to keep the threads busy
                finish()
            waiting.append(pool.submit(read, piece))
        while waiting:
            finish()
    finally:
        for future in waiting:
            future.cancel()
    return damages


def _check(storage: Storage, piece: Piece) -> list[Damage]:
    part = piece.part
    data = bytearray(piece.size)
    try:
        storage.read_into(part.key, piece.start, memoryview(data))
    except (KeyMissingError, CheckpointCorruptError) as error:
        return [Damage(part.key, f"it changed while it was read ({error})")]
    return _differing(piece, checksums.chunk_sums(data, part.chunk))


def _differing(piece: Piece, found: Sequence[str]) -> list[Damage]:
    part, damages = piece.part, []
    for number, got in enumerate(found, piece.first):
        wanted = part.crc64nvme[number] if number < len(part.crc64nvme) else "none"
        if got != wanted:
            first = number * part.chunk
            last = min(first + part.chunk, part.size) - 1
            damages.append(Damage(part.key, f"bytes {first}-{last} have the CRC {got}, not {wanted}", number))
    return damages
