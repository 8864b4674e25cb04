"""Tensors' bytes compared: by checksums where these are enough, otherwise by reading; with any shards."""

from itertools import pairwise, product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.trainer.stores import MemoryStorage

from holdfast_cli.checkpoints.byte_stream import Stream
from holdfast_cli.checkpoints.compare_bytes import same
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.tree import Shard, TensorEntry
from holdfast_train.storage.checksums import chunk_sums

CHUNK = 16


def checkpoint(storage: MemoryStorage, nonce: str, data: bytes, cut: int) -> Manifest:
    """`data` in parts of `cut` bytes."""
    name, parts = CheckpointName(1, 1, nonce), []
    for number, at in enumerate(range(0, len(data), cut)):
        piece = data[at : at + cut]
        storage.put(name.part_key(0, number), piece)
        parts.append(Part(name.part_key(0, number), len(piece), CHUNK, chunk_sums(piece, CHUNK)))
    more: dict[str, Any] = {"versions": {}, "program": {}, "metrics": {}, "tensors": (), "state": None, "ranks": ()}
    return Manifest(name=name, step=1, attempt=1, job_uid="", at="", parts=tuple(parts), **more)


def whole(offset: int, size: int) -> TensorEntry:
    return TensorEntry("t", "torch", "uint8", (size,), (Shard(offset, size, (0,), (size,)),))


def compared(
    first: bytes, second: bytes, at: tuple[int, int], size: int, cuts: tuple[int, int] = (64, 64)
) -> tuple[bool, int]:
    """The answer, and how often the store was read."""
    storage, reads = MemoryStorage(), []
    a, b = checkpoint(storage, "a", first, cuts[0]), checkpoint(storage, "b", second, cuts[1])
    storage.before = lambda method, key: reads.append(key)
    answer = same(Stream(storage, a), whole(at[0], size), Stream(storage, b), whole(at[1], size))
    return answer, len(reads)


DATA = bytes(range(200))


def test_equal_checksums_are_not_read() -> None:
    assert compared(DATA, DATA, (3, 3), 150) == (True, 0)


def test_a_whole_chunk_that_differs_is_not_read() -> None:
    other = DATA[:40] + b"\xff" + DATA[41:]
    assert compared(DATA, other, (3, 3), 150) == (False, 0)


def test_a_difference_beside_the_tensor_does_not_count() -> None:
    """Breaks if the checksum of a chunk at the tensor's edge is taken for the tensor's."""
    other = b"\xff" + DATA[1:]
    assert compared(DATA, other, (3, 3), 150) == (True, 2)


def test_other_places_are_read() -> None:
    moved = b"\xff" * 5 + DATA
    answer, reads = compared(DATA, moved, (3, 8), 150)
    assert answer
    assert reads > 0


def test_equal_checksums_at_other_places_say_nothing() -> None:
    """Breaks if chunks are compared that do not lie alike in the tensor: these are all the same, and it is not."""
    answer, _ = compared(b"ab" * 50, b"ab" * 50, (0, 1), 60)
    assert not answer


@given(
    data=st.binary(min_size=1, max_size=120),
    gaps=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    cuts=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    flip=st.none() | st.integers(0, 119),
)
def test_as_the_bytes_say(data: bytes, gaps: tuple[int, int], cuts: tuple[int, int], flip: int | None) -> None:
    other = bytearray(data)
    if flip is not None:
        other[flip % len(data)] ^= 1
    sides = bytes(gaps[0]) + data + b"\1\2\3", bytes(gaps[1]) + bytes(other) + b"\4"
    answer, _ = compared(*sides, gaps, len(data), (cuts[0] * CHUNK, cuts[1] * CHUNK))
    assert answer == (flip is None)


def boxes(shape: tuple[int, ...], cuts: list[list[int]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The grid of boxes (start, shape) that cuts along every axis make."""
    axes = []
    for length, places in zip(shape, cuts, strict=True):
        edges = sorted({0, length, *(place % length for place in places)})
        axes.append([(low, high - low) for low, high in pairwise(edges)])
    return [(tuple(low for low, _ in box), tuple(n for _, n in box)) for box in product(*axes)]


def packed(
    shape: tuple[int, ...], width: int, numbers: list[bytes], cuts: list[list[int]], gap: int
) -> tuple[bytes, TensorEntry]:
    """The tensor cut into boxes, one after the other, each behind `gap` bytes."""
    data, shards = bytearray(), []
    for start, size in boxes(shape, cuts):
        data += bytes(gap)
        offset = len(data)
        for place in product(*(range(low, low + n) for low, n in zip(start, size, strict=True))):
            index = 0
            for at, length in zip(place, shape, strict=True):
                index = index * length + at
            data += numbers[index]
        shards.append(Shard(offset, len(data) - offset, start, size))
    return bytes(data), TensorEntry("t", "torch", "float", shape, tuple(shards))


@given(draw=st.data())
def test_shards_that_are_cut_otherwise(draw: st.DataObject) -> None:
    shape = tuple(draw.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    width = draw.draw(st.sampled_from([1, 2, 4]))
    count = 1
    for length in shape:
        count *= length
    numbers = [index.to_bytes(width, "little") for index in range(count)]
    others = list(numbers)
    flip = draw.draw(st.none() | st.integers(0, count - 1))
    if flip is not None:
        others[flip] = b"\xff" * width
    cut = st.lists(st.lists(st.integers(0, 4), max_size=2), min_size=len(shape), max_size=len(shape))
    first, a = packed(shape, width, numbers, draw.draw(cut), draw.draw(st.integers(0, 3)))
    second, b = packed(shape, width, others, draw.draw(cut), draw.draw(st.integers(0, 3)))
    storage = MemoryStorage()
    left, right = checkpoint(storage, "a", first, 32), checkpoint(storage, "b", second, 48)
    assert same(Stream(storage, left), a, Stream(storage, right), b) == (flip is None)
