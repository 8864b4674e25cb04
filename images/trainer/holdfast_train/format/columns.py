"""A container of many small values as columns in one byte string.

In a tree each value takes time and a part of the manifest: an array takes 150 bytes there, however small it is. A
replay buffer or the statistics of each sample have a hundred thousand values. So such a container becomes one byte
string, with a column for each type at each depth: all arrays of one dtype are one run of bytes. The work in Python and
the description of the columns grow with the number of types and depths, not with the number of values.

The form, with all numbers little-endian: the length of a JSON text (8 bytes); this text, `[column, [size, ...]]`; and
the buffers of these sizes, each at the next multiple of ALIGNMENT. A column is `[kind, ...]`; see `_Reader`.
"""

import importlib
import json
import math
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise
from operator import attrgetter, methodcaller
from typing import Any, Final, TypeAlias

from holdfast_train.errors import StateError
from holdfast_train.format.mappings import MAPPINGS, mapping_of, type_of
from holdfast_train.format.numpy_types import numpy_type
from holdfast_train.format.strides import Strides, of_array, of_tensor, with_strides

FEW: Final = 16  # a container of fewer items is a part of the tree; what is in it may become columns
MANY: Final = 1000  # arrays, at all depths, in a container that becomes columns
PLAIN: Final = 16  # so many other values count as one array
SMALL_BYTES: Final = 4096  # of an array, on average: larger ones are leaves, which a save copies once and not twice
DEEPEST: Final = 32  # levels of containers
ALIGNMENT: Final = 64
BESIDE: Final = -1  # in the form of an array that does not lie row by row: between its shape and its strides
_TENSORS: Final = frozenset(
    f"torch.{name}"
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64",
        "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    )
)  # fmt: skip
_WIDTHS: Final = (("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32), ("Q", 1 << 64))
_Column: TypeAlias = "list[Any]"


class _OtherError(Exception):
    """The container has a value that has to be a leaf, or that a checkpoint cannot contain."""


def encode(value: Any) -> bytearray | None:
    """A list, a tuple or a mapping of many small values as columns; None if it has to be a part of the tree.

    These are parts of the tree: a mapping of fewer than MANY items by strings, which are names; a mapping that contains
    tensors of torch, as the state of a model or of an optimizer does; and a container with a sharded tensor, a tensor
    on a GPU, or a value that a checkpoint cannot contain.

    Types, lengths, dtypes and shapes decide, and no plain value does: a `RepeatedWalk` need not decide again.
    """
    is_mapping = type(value) in MAPPINGS
    if len(value) < FEW or (is_mapping and len(value) < MANY and all(type(key) is str for key in value)):
        return None
    writer = _Writer(None if is_mapping else sys.modules.get("torch"))
    try:
        column = writer.column([value])
    except (_OtherError, StateError):  # the walk of the tree names the place of a value that is refused
        return None
    if writer.arrays * PLAIN + writer.plain < MANY * PLAIN or writer.array_bytes > SMALL_BYTES * writer.arrays:
        return None
    return writer.joined(column)


def decode(data: bytes | bytearray) -> Any:
    """The container of which `encode` made `data`. Each array has memory of its own.

    StateError if the form is unknown.
    """
    view = memoryview(bytearray(data) if isinstance(data, bytes) else data)  # torch requires memory that may be written
    try:
        (length,) = struct.unpack_from("<Q", view)
        column, sizes = json.loads(bytes(view[8 : 8 + length]))
        (value,) = _Reader(view, 8 + length, sizes).values(column, 1)
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, StopIteration, struct.error) as error:
        raise StateError(
            f"the checkpoint contains columns that cannot be read ({error!r}); a newer holdfast-train has written them"
        ) from error
    return value


class _Writer:
    """Describes columns, and notes what fills their buffers: nothing large is copied before `joined`.

    `arrays`: how many arrays and tensors there are, with `array_bytes` in all. `plain`: other values.
    """

    def __init__(self, torch: Any) -> None:
        """`torch`: None if there may be no tensors."""
        self.arrays = self.array_bytes = self.plain = 0
        self._torch, self._numpy = torch, sys.modules.get("numpy")
        arrays = torch and torch.Tensor, self._numpy and self._numpy.ndarray
        self._shared = frozenset((tuple, list, *MAPPINGS, *filter(None, arrays)))  # types of what may have two places
        self._buffers: list[tuple[int, Callable[[memoryview], object]]] = []

    def column(self, values: Sequence[Any], above: frozenset[int] = frozenset(), depth: int = 0) -> _Column:
        """The description of `values`. `above`: the addresses of the lists and mappings that contain them."""
        return self._by(list(map(type, values)), values, lambda kind, some: self._of_type(kind, some, above, depth))

    def joined(self, column: _Column) -> bytearray:
        """The byte string."""
        sizes = [size for size, _ in self._buffers]
        text = json.dumps([column, sizes], separators=(",", ":")).encode()
        starts = list(_starts(8 + len(text), sizes))
        data = bytearray(starts.pop())
        view = memoryview(data)
        view[: 8 + len(text)] = struct.pack("<Q", len(text)) + text
        for start, (size, fill) in zip(starts, self._buffers, strict=True):
            if size:
                fill(view[start : start + size])
        return data

    def _by(self, keys: list[Any], values: Sequence[Any], write: Callable[[Any, Sequence[Any]], _Column]) -> _Column:
        """A column for the values of each key, and which value is in which column."""
        groups: dict[Any, list[Any]] = {key: [] for key in dict.fromkeys(keys)}
        if len(groups) == 1:
            return write(keys[0], values)
        for key, value in zip(keys, values, strict=True):
            groups[key].append(value)
        numbers = {key: number for number, key in enumerate(groups)}
        which = self._numbers(list(map(numbers.__getitem__, keys)))
        return ["mixed", which, [write(key, some) for key, some in groups.items()]]

    def _of_type(self, kind: type, values: Sequence[Any], above: frozenset[int], depth: int) -> _Column:
        if kind in self._shared and len(once := {id(value): value for value in values}) < len(values):
            if kind is tuple or kind is list or kind in MAPPINGS:
                self.plain += len(values) - len(once)
            else:
                self.arrays += len(values) - len(once)
            numbers = {address: number for number, address in enumerate(once)}
            which = self._numbers([numbers[id(value)] for value in values])
            return ["same", len(once), which, self._of_type(kind, list(once.values()), above, depth)]
        if kind is tuple or kind is list or kind in MAPPINGS:
            if kind is not tuple:
                addresses = frozenset(map(id, values))
                if not addresses.isdisjoint(above):  # perhaps a container within itself, which has no end
                    raise _OtherError
                above |= addresses
            if depth == DEEPEST:
                raise _OtherError
            return self._containers(kind, values, above, depth + 1)
        numpy, torch = self._numpy, self._torch
        if numpy is not None and kind is numpy.ndarray:
            return self._by([value.dtype for value in values], values, self._arrays)
        if torch is not None and kind is torch.Tensor:
            return self._by([value.dtype for value in values], values, self._tensors)
        self.plain += len(values)
        return self._plain(kind, values)

    def _plain(self, kind: type, values: Sequence[Any]) -> _Column:
        if kind is type(None):
            return ["none"]
        if kind is bool:
            return self._with(["bool"], bytes(values))
        if kind is float:
            return self._with(["float"], struct.pack(f"<{len(values)}d", *values))
        if kind is int:
            try:
                return self._with(["int"], struct.pack(f"<{len(values)}q", *values))
            except struct.error:  # one has more than 64 bits
                return self._with(["hex"], json.dumps(list(map(hex, values))).encode())
        if kind is str:
            return self._with(["json"], json.dumps(values).encode())
        if kind is bytes:
            return self._with(["bytes", self._numbers(list(map(len, values)))], b"".join(values))
        numpy: Any = self._numpy
        if numpy is not None and issubclass(kind, numpy.generic):
            dtype = values[0].dtype
            if dtype.kind in "biufc" and numpy.dtype(dtype.str) == dtype:
                return self._with(["scalar", dtype.str], numpy.array(values, dtype=dtype).tobytes())
        raise _OtherError

    def _containers(self, kind: type, values: Sequence[Any], above: frozenset[int], depth: int) -> _Column:
        if kind in MAPPINGS:
            kinds = [type_of(value, "") for value in values]
            return self._by(kinds, values, lambda name, some: self._mappings(name, some, above, depth))
        lengths = list(map(len, values))
        items = _joined(values, lengths)
        return [kind.__name__, self._numbers(lengths), self.column(items, above, depth)]

    def _mappings(self, name: str, values: Sequence[Any], above: frozenset[int], depth: int) -> _Column:
        keys = list(map(tuple, values))
        items = _joined(map(methodcaller("values"), values), list(map(len, keys)))
        # 1, 1.0 and True are equal, and so are tuples of them.
        are_exact = {str, int}.issuperset(map(type, chain.from_iterable(keys)))
        forms = self._forms(keys, above, depth, are_exact=are_exact)
        return ["mapping", name, *forms, self.column(items, above, depth)]

    def _arrays(self, dtype: Any, values: Sequence[Any]) -> _Column:
        numpy: Any = self._numpy
        if dtype.hasobject or not dtype.itemsize or numpy.dtype(dtype.str) != dtype:
            raise _OtherError

        def fill(view: memoryview) -> None:
            numpy.concatenate([value.reshape(-1) for value in values], out=numpy.frombuffer(view, dtype))

        return self._of_arrays(["numpy", dtype.str], values, fill, of_array)

    def _tensors(self, dtype: Any, values: Sequence[Any]) -> _Column:
        torch: Any = self._torch
        forms = set(map(attrgetter("layout", "device.type", "is_quantized", "is_nested"), values))
        if forms != {(torch.strided, "cpu", False, False)} or str(dtype) not in _TENSORS:
            raise _OtherError
        if any(value.numel() and not value.data_ptr() for value in values):  # memory that was freed
            raise _OtherError

        def fill(view: memoryview) -> None:
            with torch.no_grad():
                torch.cat([value.reshape(-1) for value in values], out=torch.frombuffer(view, dtype=dtype))

        return self._of_arrays(["torch", str(dtype).removeprefix("torch.")], values, fill, of_tensor)

    def _of_arrays(
        self,
        column: _Column,
        values: Sequence[Any],
        fill: Callable[[memoryview], object],
        strides_of: Callable[[Any], Strides | None],
    ) -> _Column:
        size = sum(value.nbytes for value in values)
        self.arrays += len(values)
        self.array_bytes += size
        found = [(tuple(value.shape), strides_of(value)) for value in values]
        forms = [shape if strides is None else (*shape, BESIDE, *strides) for shape, strides in found]
        column += self._forms(forms, frozenset(), 0, are_exact=True)
        self._buffers.append((size, fill))
        return column

    def _forms(
        self, tuples: Sequence[tuple[Any, ...]], above: frozenset[int], depth: int, *, are_exact: bool
    ) -> _Column:
        """The keys of mappings, or the shapes of arrays: most have the same. `are_exact`: equal ones are the same."""
        forms, which = tuples, list(range(len(tuples)))
        if are_exact:
            numbers = {found: number for number, found in enumerate(dict.fromkeys(tuples))}
            forms, which = list(numbers), list(map(numbers.__getitem__, tuples))
        counted = self.plain, self.arrays, self.array_bytes
        found: _Column = [len(forms), self._numbers(which), self.column(forms, above, depth)]
        if self.arrays != counted[1]:  # the walk of the tree refuses keys with arrays
            raise _OtherError
        self.plain, self.arrays, self.array_bytes = counted  # neither keys nor shapes are values
        return found

    def _numbers(self, values: Sequence[int]) -> int | str:
        """Lengths or numbers: the number if all are equal, otherwise the type of the next buffer."""
        least, most = min(values, default=0), max(values, default=0)
        if least == most:
            return most
        width = next(letter for letter, bound in _WIDTHS if most < bound)
        self._with([], struct.pack(f"<{len(values)}{width}", *values))
        return width

    def _with(self, column: _Column, data: bytes) -> _Column:
        """`column`, whose next buffer has `data`."""

        def fill(view: memoryview) -> None:
            view[:] = data

        self._buffers.append((len(data), fill))
        return column


class _Reader:
    """Reads the columns that a `_Writer` has described: their buffers in the same order."""

    def __init__(self, view: memoryview, begin: int, sizes: Sequence[int]) -> None:
        places = zip(_starts(begin, sizes), sizes, strict=False)
        self._buffers = iter([view[start : start + size] for start, size in places])

    def values(self, column: _Column, count: int) -> list[Any]:
        """The `count` values of a column."""
        kind, *about = column
        if kind in ("list", "tuple"):
            lengths = self._numbers(about[0], count)
            items = iter(self.values(about[1], sum(lengths)))
            make = list if kind == "list" else tuple
            return [make(islice(items, length)) for length in lengths]
        if kind == "mapping":
            keys = self._forms(about[1:4], count)
            items = iter(self.values(about[4], sum(map(len, keys))))
            return [mapping_of(about[0], zip(some, items, strict=False)) for some in keys]
        if kind == "mixed":
            which = self._numbers(about[0], count)
            parts = [iter(self.values(part, which.count(number))) for number, part in enumerate(about[1])]
            return [next(parts[number]) for number in which]
        if kind == "same":
            which = self._numbers(about[1], count)
            once = self.values(about[2], about[0])
            return [once[number] for number in which]
        if kind in ("numpy", "torch", "scalar"):
            return self._arrays(kind, about, count)
        return self._plain(kind, about, count)

    def _plain(self, kind: str, about: Sequence[Any], count: int) -> list[Any]:
        if kind == "none":
            return [None] * count
        if kind == "bytes":
            lengths = self._numbers(about[0], count)
            text = bytes(next(self._buffers))
            return [text[start:stop] for start, stop in _cuts(lengths)]
        data = next(self._buffers)
        if kind == "bool":
            return list(map(bool, data))
        if kind == "int":
            return list(struct.unpack(f"<{count}q", data))
        if kind == "float":
            return list(struct.unpack(f"<{count}d", data))
        if kind == "json":
            return list(json.loads(bytes(data)))
        if kind == "hex":
            return [int(text, 16) for text in json.loads(bytes(data))]
        raise StateError(f"the checkpoint contains a column of unknown kind {kind!r}; a newer holdfast-train wrote it")

    def _arrays(self, kind: str, about: Sequence[Any], count: int) -> list[Any]:
        forms = [] if kind == "scalar" else list(map(_shape_and_strides, self._forms(about[1:4], count)))
        data, cuts = next(self._buffers), _cuts(math.prod(shape) for shape, _ in forms)
        if kind == "torch":
            torch = importlib.import_module("torch")
            dtype = getattr(torch, about[0])
            flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
            return [_own(flat[a:b].reshape(form[0]).clone(), form[1]) for (a, b), form in zip(cuts, forms, strict=True)]
        numpy = importlib.import_module("numpy")
        flat = numpy.frombuffer(data, numpy_type(about[0]))
        if kind == "scalar":
            return list(flat)
        return [_own(flat[a:b].reshape(form[0]).copy(), form[1]) for (a, b), form in zip(cuts, forms, strict=True)]

    def _forms(self, about: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
        number, which, column = about
        numbers = self._numbers(which, count)
        forms = self.values(column, number)
        return [forms[number] for number in numbers]

    def _numbers(self, number: int | str, count: int) -> list[int]:
        if isinstance(number, int):
            return [number] * count
        return list(struct.unpack(f"<{count}{number}", next(self._buffers)))


def _shape_and_strides(form: tuple[int, ...]) -> tuple[tuple[int, ...], Strides | None]:
    """What a form of an array says."""
    if BESIDE not in form:
        return form, None
    middle = form.index(BESIDE)
    return form[:middle], form[middle + 1 :]


def _own(array: Any, strides: Strides | None) -> Any:
    return array if strides is None else with_strides(array, strides)


def _joined(containers: Iterable[Iterable[Any]], lengths: Sequence[int]) -> list[Any]:
    """All items of `containers`, which had these `lengths`."""
    items = list(chain.from_iterable(containers))
    if len(items) != sum(lengths):  # another thread changes them
        raise _OtherError
    return items


def _starts(begin: int, sizes: Iterable[int]) -> Iterator[int]:
    """Where each buffer starts, and where the last one ends. `begin`: the first byte that may be used."""
    for size in sizes:
        start = -(-begin // ALIGNMENT) * ALIGNMENT
        yield start
        begin = start + size
    yield begin


def _cuts(lengths: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Start and stop of pieces of these lengths, one after the other."""
    return pairwise(accumulate(lengths, initial=0))
