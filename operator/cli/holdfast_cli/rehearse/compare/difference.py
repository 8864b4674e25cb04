"""How much two values differ."""

import math
import struct
from array import array
from dataclasses import dataclass
from itertools import product
from operator import sub
from typing import Final, Literal

from holdfast_cli.rehearse.compare.reading import elements
from holdfast_cli.rehearse.compare.reading.source import BLOCK, Memory, blocks, equal
from holdfast_cli.rehearse.compare.reading.values import Raw, Tensor, Value

AT_ONCE: Final = 4096  # bytes: a piece that is equal is not looked at number by number
MOST_OF_ONE: Final = 200_000  # numbers of one tensor that are looked at
MOST_OF_ALL: Final = 4_000_000  # numbers that one comparison looks at
LEAST_OF_ONE: Final = 2_000  # numbers of one tensor, also after MOST_OF_ALL
MOST_GATHERED: Final = 1_000_000  # elements of a tensor that is put in order, row by row

_CODES: Final[dict[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}  # by the bytes of an element
OTHER_BITS: Final = "other bits of equal numbers"


@dataclass
class Effort:
    """How many numbers may still be looked at one by one. `is_whole`: all of them, of every tensor."""

    left: int = MOST_OF_ALL
    is_whole: bool = False

    def take(self, total: int) -> int:
        """How many numbers may be looked at of the next tensor, which has `total`."""
        if self.is_whole:
            return total
        found = max(LEAST_OF_ONE, min(MOST_OF_ONE, self.left))
        self.left -= found
        return found


@dataclass(frozen=True, slots=True)
class Difference:
    """How much two values differ that are not equal bit by bit.

    `absolute`: the largest difference of two numbers, None if there are no numbers that can be compared. `relative`:
    difference as a part of the larger of the two, None of tensors. `scaled`: `absolute` as a part of the largest number
    of all that were looked at; of one number it is `relative`. `count` of the `looked` numbers differ; a tensor has
    `total`. `is_float`: a small difference may be a matter of rounding. `words`: what differs, if not numbers.
    """

    absolute: float | None = None
    relative: float | None = None
    scaled: float | None = None
    count: int = 1
    looked: int = 1
    total: int = 1
    is_float: bool = False
    words: str = ""

    @property
    def level(self) -> float:
        """`scaled`; infinite if there are no numbers."""
        return math.inf if self.scaled is None else self.scaled

    def is_within(self, noise: "Difference", factor: float) -> bool:
        """True if it is at most `factor` times as large as `noise`. Texts and bytes have no size: they are within."""
        if self.absolute is None or noise.absolute is None:
            return self.absolute is None and noise.absolute is None
        return self.absolute <= factor * noise.absolute


def difference(first: Value, second: Value, effort: Effort) -> Difference | None:
    """None if the two are equal bit by bit. OSError if a source cannot be read."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return _of_tensors(first, second, effort)
    if isinstance(first, Raw) and isinstance(second, Raw):
        return None if equal(first.source, second.source) else _of_bytes(first, second)
    if isinstance(first, float) and isinstance(second, float):
        return None if _bits(first) == _bits(second) else _of_numbers(first, second, is_float=True)
    if _is_number(first) and _is_number(second):
        assert isinstance(first, int | float)
        assert isinstance(second, int | float)
        if type(first) is type(second) and first == second:
            return None
        return _of_numbers(first, second, is_float=isinstance(first, float) or isinstance(second, float))
    if type(first) is type(second) and not isinstance(first, Tensor | Raw) and first == second:
        return None
    if type(first) is not type(second):
        return Difference(words=f"{_type(second)} instead of {_type(first)}")
    return Difference(words="another text" if isinstance(first, str) else "another value")


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _type(value: Value) -> str:
    if isinstance(value, Tensor):
        return value.kind
    return {Raw: "bytes", str: "a text", int: "a number", float: "a number", bool: "true or false"}.get(
        type(value), "nothing"
    )


def _bits(value: float) -> bytes:
    return struct.pack("<d", value)


def distance(first: float, second: float) -> tuple[float, float]:
    """Absolute and relative difference. A NaN beside a number is infinitely far, two NaN are equal."""
    if first == second:
        return 0.0, 0.0
    try:
        if math.isnan(first) and math.isnan(second):
            return 0.0, 0.0
        if not (math.isfinite(first) and math.isfinite(second)):
            return math.inf, math.inf
        apart = abs(first - second)
        return float(apart), float(apart / max(abs(first), abs(second)))
    except OverflowError:
        return math.inf, math.inf


def _of_numbers(first: float, second: float, *, is_float: bool) -> Difference:
    absolute, relative = distance(first, second)
    return Difference(absolute, relative, relative, is_float=is_float, words="" if absolute else OTHER_BITS)


def _of_bytes(first: Raw, second: Raw) -> Difference:
    a, b = first.source, second.source
    start, one, other = next(blocks(a, b), (min(a.size, b.size), b"", b""))
    unequal = (n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y)
    at = start + next(unequal, min(len(one), len(other)))
    sizes = "" if a.size == b.size else f", {a.size:,} and {b.size:,} bytes"
    return Difference(words=f"other bytes from byte {at:,} on{sizes}")


def _of_tensors(first: Tensor, second: Tensor, effort: Effort) -> Difference | None:
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return Difference(words=f"{second.kind} instead of {first.kind}")
    is_same_layout = (first.strides, first.is_swapped) == (second.strides, second.is_swapped)
    if is_same_layout and equal(first.source, second.source):
        return None
    if not _is_dense(first) or not _is_dense(second) or not is_same_layout:
        a, b = gather(first), gather(second)
        if a is None or b is None:
            return Difference(words="the two lie differently in their files, and are too large to be put in order")
        first, second = a, b
        if equal(first.source, second.source):
            return None
    return _count(first, second, effort.take(math.prod(first.shape)))


def _is_dense(tensor: Tensor) -> bool:
    size = elements.width(tensor.dtype)
    return tensor.strides is None or size is None or tensor.source.size == size * math.prod(tensor.shape)


def gather(tensor: Tensor) -> Tensor | None:
    """The tensor with its elements row by row, in little-endian order; None if it is too large."""
    size, total = elements.width(tensor.dtype), math.prod(tensor.shape)
    if size is None or total > MOST_GATHERED or tensor.source.size > MOST_GATHERED * 16:
        return None
    data = tensor.source.read(0, tensor.source.size)
    if tensor.strides is not None:
        steps = [[i * step * size for i in range(n)] for n, step in zip(tensor.shape, tensor.strides, strict=True)]
        data = b"".join(data[at : at + size] for at in map(sum, product(*steps)))
    if tensor.is_swapped:
        part = size // 2 if tensor.dtype.startswith("complex") else size
        data = b"".join(data[at : at + part][::-1] for at in range(0, len(data), part))
    return Tensor(tensor.dtype, tensor.shape, Memory(data))


@dataclass
class _Tally:
    """What was counted so far of the elements of two tensors."""

    absolute: float = 0.0
    largest: float = 0.0
    count: int = 0
    skipped: int = 0
    is_known: bool = True

    def add(self, tensor: Tensor, one: bytes, other: bytes) -> None:
        """Count the elements in two pieces that differ."""
        size = elements.width(tensor.dtype) or 1
        first = elements.numbers(tensor.dtype, one, is_swapped=tensor.is_swapped)
        second = elements.numbers(tensor.dtype, other, is_swapped=tensor.is_swapped)
        self.count += _unequal(one, other, size)
        if not first or not second or len(one) % size:
            self.is_known = False
            return
        apart = list(map(abs, map(sub, first, second)))
        if math.isfinite(sum(apart)):  # so all numbers are finite
            sizes = max(first), max(second), -min(first), -min(second)
            self.absolute, self.largest = max(self.absolute, *apart), max(self.largest, *sizes)
            return
        self.absolute = max(self.absolute, *(distance(a, b)[0] for a, b in zip(first, second, strict=True)))
        self.largest = max(self.largest, *(abs(a) for a in (*first, *second) if math.isfinite(a)), 0.0)


def _unequal(one: bytes, other: bytes, size: int) -> int:
    """How many elements of `size` bytes differ in their bits."""
    if size not in _CODES:
        return sum(one[at : at + size] != other[at : at + size] for at in range(0, len(one), size))
    end = min(len(one), len(other)) // size * size
    first, second = (int.from_bytes(data[:end], "little") for data in (one, other))
    return end // size - array(_CODES[size], (first ^ second).to_bytes(end, "little")).count(0)


def _count(first: Tensor, second: Tensor, most: int) -> Difference:
    """The difference of two tensors of one type, whose elements lie in the same order.

    If they have more than `most` elements, a part of the pieces that differ is looked at, everywhere in the tensor.
    """
    tally, total = _Tally(), max(1, math.prod(first.shape))
    size = elements.width(first.dtype) or 1
    piece = AT_ONCE // size * size
    of_block = max(1, math.ceil(most / total * BLOCK / piece))  # pieces that are looked at
    for _, a, b in blocks(first.source, second.source):
        pieces = [(x, y) for at in range(0, len(a), piece) if (x := a[at : at + piece]) != (y := b[at : at + piece])]
        step = math.ceil(len(pieces) / of_block) if most < total else 1
        for number, (x, y) in enumerate(pieces):
            if number % step:
                tally.skipped += len(x) // size
            else:
                tally.add(first, x, y)
    looked = total - tally.skipped
    if not tally.is_known or first.source.size != second.source.size:
        return Difference(count=tally.count, looked=looked, total=total, words="other bytes")
    scaled = tally.absolute / tally.largest if tally.largest else math.inf if tally.absolute else 0.0
    words, is_float = "" if tally.absolute else OTHER_BITS, elements.is_float(first.dtype)
    return Difference(tally.absolute, None, scaled, tally.count, looked, total, is_float, words)
