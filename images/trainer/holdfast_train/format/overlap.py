"""Where the data of one box of a tensor lies in that of another."""

from collections.abc import Iterator
from itertools import product

from holdfast_train.format.tree import Shard


def runs(one: Shard, other: Shard, width: int) -> Iterator[tuple[int, int, int]]:
    """The overlap of two boxes as runs: the offset in one, the offset in the other, and the number of bytes.

    Each run is as long as the rows of both boxes allow. `width` is the size of one number in bytes.
    """
    lows = [max(a, b) for a, b in zip(one.start, other.start, strict=True)]
    highs = [min(a + m, b + n) for a, m, b, n in zip(one.start, one.shape, other.start, other.shape, strict=True)]
    if any(low >= high for low, high in zip(lows, highs, strict=True)):
        return
    inner, length = len(lows), 1
    while inner > 0:
        inner -= 1
        length *= highs[inner] - lows[inner]
        if highs[inner] - lows[inner] != one.shape[inner] or one.shape[inner] != other.shape[inner]:
            break
    for outer in product(*(range(lows[axis], highs[axis]) for axis in range(inner))):
        corner = (*outer, *lows[inner:])
        yield _offset(one, corner, width), _offset(other, corner, width), length * width


def _offset(shard: Shard, corner: tuple[int, ...], width: int) -> int:
    index = 0
    for place, start, length in zip(corner, shard.start, shard.shape, strict=True):
        index = index * length + place - start
    return shard.offset + index * width
