"""A checkpoint's data as one stream of bytes: reads at any offset, and the checksums of its chunks."""

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.manifest import Manifest
from holdfast_train.storage.base import Storage

KEPT: Final = 4  # chunks that a stream keeps in memory: the runs of one tensor are close together


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: `size` bytes of the stream from `start` on, with their CRC-64/NVME."""

    start: int
    size: int
    crc64nvme: str


class Stream:
    """The data of one checkpoint. It is not thread-safe: each thread makes its own."""

    def __init__(self, storage: Storage, found: Manifest) -> None:
        self._storage = storage
        self._parts = [part for part in found.parts if part.size]
        self._starts = [0, *accumulate(part.size for part in self._parts)]
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def chunk(self, offset: int) -> Chunk:
        """The chunk that holds the byte at `offset`. CheckpointCorruptError if there is none."""
        number = bisect_right(self._starts, offset) - 1
        if not 0 <= number < len(self._parts):
            raise CheckpointCorruptError(f"a tensor lies at byte {offset}, beyond the {self._starts[-1]} bytes of data")
        part, first = self._parts[number], self._starts[number]
        index = (offset - first) // part.chunk
        start = first + index * part.chunk
        return Chunk(start, min(part.chunk, self._starts[number + 1] - start), part.crc64nvme[index])

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on. StorageError; CheckpointCorruptError if an object is too short."""
        pieces = []
        while size > 0:
            chunk = self.chunk(offset)
            data = self._chunk_bytes(chunk)
            at = offset - chunk.start
            piece = data[at : at + size]
            pieces.append(piece)
            offset, size = offset + len(piece), size - len(piece)
        return b"".join(pieces)

    def _chunk_bytes(self, chunk: Chunk) -> bytes:
        if (kept := self._kept.get(chunk.start)) is not None:
            self._kept.move_to_end(chunk.start)
            return kept
        number = bisect_right(self._starts, chunk.start) - 1
        key = self._parts[number].key
        buffer = bytearray(chunk.size)
        self._storage.read_into(key, chunk.start - self._starts[number], memoryview(buffer))
        data = self._kept[chunk.start] = bytes(buffer)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return data
