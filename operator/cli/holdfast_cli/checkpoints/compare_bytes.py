"""Compare the bytes of two tensors: by the checksums of their chunks where possible, otherwise by reading both."""

from itertools import product
from typing import Final

from holdfast_cli.checkpoints.byte_stream import Chunk, Stream
from holdfast_train.format.overlap import runs
from holdfast_train.format.tree import TensorEntry

AT_ONCE: Final = 4 << 20  # bytes that are compared in one step


def same(left: Stream, first: TensorEntry, right: Stream, second: TensorEntry) -> bool:
    """True if two tensors of one type and shape have the same bytes, also with other shards. StorageError."""
    if not first.size and not second.size:
        return True
    boxes = {(shard.start, shard.shape): shard for shard in second.shards}
    if all((shard.start, shard.shape) in boxes for shard in first.shards):
        pairs = ((shard, boxes[shard.start, shard.shape]) for shard in first.shards)
        return all(same_run(left, a.offset, right, b.offset, a.size) for a, b in pairs)
    numel = 1
    for length in first.shape:
        numel *= length
    width = first.size // numel
    return all(
        same_run(left, a, right, b, size)
        for one, other in product(first.shards, second.shards)
        for a, b, size in runs(one, other, width)
    )


def same_run(left: Stream, first: int, right: Stream, second: int, size: int) -> bool:
    """True if `size` bytes at `first` in one stream equal those at `second` in the other."""
    done = 0
    while done < size:
        a, b = left.chunk(first + done), right.chunk(second + done)
        length = min(a.start + a.size - first, b.start + b.size - second, size) - done
        equal = _by_checksum(a, first, b, second, whole=length == a.size)
        if equal is False:
            return False
        if equal is None and not _same_bytes(left, first + done, right, second + done, length):
            return False
        done += length
    return True


def _by_checksum(a: Chunk, first: int, b: Chunk, second: int, *, whole: bool) -> bool | None:
    """Whether one range, in chunk `a` on one side and `b` on the other, is equal; None if checksums cannot decide.

    Equal checksums: the whole chunks are equal. Different ones decide only if the range is the whole chunk.
    """
    if (a.size, a.start - first) != (b.size, b.start - second):
        return None
    if a.crc64nvme == b.crc64nvme:
        return True
    return False if whole else None


def _same_bytes(left: Stream, first: int, right: Stream, second: int, size: int) -> bool:
    for at in range(0, size, AT_ONCE):
        length = min(AT_ONCE, size - at)
        if left.read(first + at, length) != right.read(second + at, length):
            return False
    return True
