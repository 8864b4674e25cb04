"""Tensors of a checkpoint that are not read yet, and how they are read: only the wanted parts."""

import copy
import ctypes
import importlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

from holdfast_train.errors import MisconfiguredStorageError
from holdfast_train.format import columns
from holdfast_train.format.manifest import OF_FOLDER, Manifest
from holdfast_train.format.numpy_types import numpy_type
from holdfast_train.format.sharding import Box, as_sharded, is_sharded, place
from holdfast_train.format.strides import with_strides
from holdfast_train.format.tree import COLUMNS, Form, Shard, TensorEntry, Tree, unpack
from holdfast_train.restore.chunk_reader import NOTHING, Fill, Held, read
from holdfast_train.storage.base import Storage

T = TypeVar("T")
DETOUR_BYTES: Final = 256 << 20  # memory for rows of shards that are cut differently from the wanted box
_Slices: TypeAlias = "tuple[slice, ...]"


@dataclass(frozen=True)
class Lazy:
    """A tensor, an array or a large byte string in a checkpoint.

    `form`: see `tree.unpack`. `like`: a DTensor if only this rank's part of it is wanted.
    """

    entry: TensorEntry
    form: Form = None
    like: Any = field(default=None, compare=False)

    @property
    def box(self) -> Box:
        """Start and shape of the wanted part."""
        return ((0,) * len(self.entry.shape), self.entry.shape) if self.like is None else place(self.like)

    @property
    def size(self) -> int:
        """Bytes of the wanted part."""
        whole = math.prod(self.entry.shape)
        return self.entry.size * math.prod(self.box[1]) // whole if whole else 0

    @property
    def key(self) -> tuple[str, Box]:
        """Equal for Lazies with the same bytes."""
        return self.entry.name, self.box


def outline(tree: Tree, found: Manifest) -> Any:
    """The value that `tree`, of the manifest `found`, describes, with a Lazy for each tensor and array.

    MisconfiguredStorageError if the checkpoint has files and no state.
    """
    if OF_FOLDER in found.program:
        raise MisconfiguredStorageError(
            f"the checkpoint {found.name} was saved with checkpoint.folder: it has the files of a program, and no "
            f"objects of a Run; set checkpoint.folder again, or give the job a prefix of its own"
        )
    return unpack(tree, {entry.name: entry for entry in found.tensors}, Lazy)


def lazies(value: Any) -> Iterator[Lazy]:
    """The Lazies in `value`, which consists of dicts, lists and tuples."""
    if isinstance(value, Lazy):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from lazies(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from lazies(item)


def fitted(saved: Any, thing: Any) -> Any:
    """`saved`, the outline of the state of `thing`, with sharded tensors cut to this rank's part."""
    if hasattr(thing, "param_groups") and isinstance(saved, Mapping) and "state" in saved:
        parameters = [parameter for group in thing.param_groups for parameter in group["params"]]
        if not any(map(is_sharded, parameters)) or not isinstance(saved["state"], Mapping):
            return saved
        state = {
            number: {key: _cut(value, parameters[number]) for key, value in values.items()}
            for number, values in saved["state"].items()
        }
        return {**saved, "state": state}
    if hasattr(thing, "parameters") and any(map(is_sharded, thing.parameters())):
        return _cut(saved, thing.state_dict())
    if "torch.distributed.tensor" in sys.modules and any(
        lazies(saved)
    ):  # an object whose state_dict gathers the parts of all ranks
        return _cut(saved, thing.state_dict())
    return saved


def _cut(value: Any, like: Any) -> Any:
    """This rank's part of `value` if `like` is a DTensor of the same shape. Mappings are cut value by value."""
    if isinstance(value, dict) and isinstance(like, Mapping):
        found = copy.copy(value)  # of the same type, with its factory and its metadata
        for key, item in value.items():
            found[key] = _cut(item, like.get(key))
        return found
    same = isinstance(value, Lazy) and is_sharded(like) and value.entry.shape == tuple(like.shape)
    return replace(value, like=like) if same else value


def materialise(storage: Storage, found: Manifest, value: Any, advance: Callable[[int], None] = lambda _: None) -> Any:
    """`value` with tensors and arrays for its Lazies. Tied tensors stay tied. Errors: see `chunk_reader.read`."""
    return with_tensors(value, read_tensors(storage, found, lazies(value), advance))


def read_tensors(
    storage: Storage,
    found: Manifest,
    wanted: Iterable[Lazy],
    advance: Callable[[int], None] = lambda _: None,
    held: Held = NOTHING,
) -> dict[tuple[str, Box], Any]:
    """The tensors, arrays and byte strings of `wanted`, by their keys. Errors: see `chunk_reader.read`."""
    made: dict[tuple[str, Box], Any] = {}
    filling = Filling()
    for lazy in wanted:
        if lazy.key not in made:
            made[lazy.key] = _empty(lazy)
            filling.add(lazy, made[lazy.key])
    filling.run(storage, found, advance, held)
    return made


def with_tensors(value: Any, made: dict[tuple[str, Box], Any]) -> Any:
    """`value` with what was `made` for its Lazies, which it takes out of `made`.

    Places that had the same tensor or array get the same one.
    """
    known: dict[tuple[str, Box], Any] = {}

    def whole(lazy: Lazy) -> Any:
        if (found := known.get(lazy.key)) is None:
            found = known[lazy.key] = _whole(lazy, made.pop(lazy.key))
        return found

    return _replaced(value, whole)


def _whole(lazy: Lazy, array: Any) -> Any:
    if lazy.entry.kind == "bytes":
        return columns.decode(array) if lazy.form == COLUMNS else bytes(array)
    if lazy.like is not None:
        return as_sharded(array, lazy.like)
    return with_strides(array, lazy.form) if isinstance(lazy.form, tuple) else array


def _replaced(value: Any, by: Callable[[Lazy], Any]) -> Any:
    if isinstance(value, Lazy):
        return by(value)
    if isinstance(value, dict):
        found = copy.copy(value)  # of the same type, with its factory and its metadata
        for key, item in value.items():
            found[key] = _replaced(item, by)
        return found
    if type(value) in (list, tuple):
        return type(value)(_replaced(item, by) for item in value)
    return value


def _empty(lazy: Lazy) -> Any:
    """An empty tensor, array or byte string for the wanted part."""
    if lazy.entry.kind == "bytes":
        return bytearray(lazy.entry.size)
    module = importlib.import_module(lazy.entry.kind)
    dtype = getattr(module, lazy.entry.dtype) if lazy.entry.kind == "torch" else numpy_type(lazy.entry.dtype)
    return module.empty(lazy.box[1], dtype=dtype)


def memory_of(array: Any, kind: str) -> memoryview:
    """The bytes of a contiguous array, CPU tensor or byte string, which must outlive the returned view."""
    if kind == "bytes":
        return memoryview(array)
    address, size = (array.data_ptr(), array.numel() * array.itemsize) if kind == "torch" else (
        array.ctypes.data, array.nbytes,
    )  # fmt: skip
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B") if size else memoryview(b"")


@dataclass(frozen=True)
class Detour:
    """Rows of a saved shard, read into separate memory; then their `source` is copied to `target` of `tensor`."""

    offset: int
    shape: tuple[int, ...]
    tensor: Any
    source: _Slices
    target: _Slices

    @property
    def size(self) -> int:
        """Bytes of the rows."""
        return math.prod(self.shape) * int(self.tensor.itemsize)


class Filling:
    """A list of reads into tensors."""

    def __init__(self) -> None:
        self._fills: list[Fill] = []
        self._detours: list[Detour] = []

    def add(self, lazy: Lazy, array: Any) -> None:
        """Read `lazy` into `array`, which has its shape and type, is contiguous and on the CPU."""
        self.add_box(lazy.entry, lazy.box, array)

    def add_box(self, entry: TensorEntry, box: Box, array: Any) -> None:
        """Read a box of a tensor into `array`. Only rows of saved shards that overlap the box are read."""
        memory, (start, shape) = memory_of(array, entry.kind), box
        for shard in entry.shards:
            self._add(shard, start, shape, memory, array)

    def _add(
        self, shard: Shard, start: tuple[int, ...], shape: tuple[int, ...], memory: memoryview, array: Any
    ) -> None:
        low = [max(a, b) for a, b in zip(shard.start, start, strict=True)]
        high = [min(a + n, b + m) for a, n, b, m in zip(shard.start, shard.shape, start, shape, strict=True)]
        if not shard.size or not memory or any(a >= b for a, b in zip(low, high, strict=True)):
            return
        if not shape:
            self._fills.append(Fill(shard.offset, memory))
            return
        row, rows = shard.size // shard.shape[0], high[0] - low[0]
        offset = shard.offset + (low[0] - shard.start[0]) * row
        if all(high[n] - low[n] == shard.shape[n] == shape[n] for n in range(1, len(shape))):
            at = (low[0] - start[0]) * row
            self._fills.append(Fill(offset, memory[at : at + rows * row]))
            return
        source = tuple(slice(a - s, b - s) for a, b, s in zip(low[1:], high[1:], shard.start[1:], strict=True))
        target = tuple(slice(a - s, b - s) for a, b, s in zip(low, high, start, strict=True))
        self._detours.append(Detour(offset, (rows, *shard.shape[1:]), array, (slice(None), *source), target))

    def run(
        self,
        storage: Storage,
        found: Manifest,
        advance: Callable[[int], None] = lambda _: None,
        held: Held = NOTHING,
    ) -> None:
        """Read everything. Errors: see `chunk_reader.read`."""
        read(storage, found.parts, self._fills, advance, held)
        for batch in batched(sorted(self._detours, key=lambda d: d.offset), lambda d: d.size):
            rows = [detour.tensor.new_empty(detour.shape) for detour in batch]
            fills = [Fill(d.offset, memory_of(tensor, "torch")) for d, tensor in zip(batch, rows, strict=True)]
            read(storage, found.parts, fills, advance, held)
            for detour, tensor in zip(batch, rows, strict=True):
                detour.tensor[detour.target] = tensor[detour.source]


def batched(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Batches of `items` that fit into DETOUR_BYTES. A larger item is a batch of its own."""
    batch: list[T] = []
    total = 0
    for item in items:
        if batch and total + size(item) > DETOUR_BYTES:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size(item)
    if batch:
        yield batch
