"""Between Python state and bytes: a tree that JSON can hold, and tensors beside it. No pickle: data is never code."""

import base64
import importlib
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from holdfast_train.errors import StateError

__all__ = ["Packer", "Shard", "Stateful", "TensorEntry", "Tree", "checked", "segments", "unpack", "unwrapped"]

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"
ALIGNMENT: Final = 64


@runtime_checkable
class Stateful(Protocol):
    """What a checkpoint can hold: models, optimizers, schedules, and anything else with these two methods."""

    def state_dict(self) -> Mapping[str, Any]:
        """The state: numbers, strings, bytes, lists, tuples, dicts, NumPy arrays and tensors."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Take over what `state_dict` gave."""


@dataclass(frozen=True)
class Shard:
    """One box of a tensor, row by row: `size` bytes at `offset` in the data. Its first corner is at index `start`."""

    offset: int
    size: int
    start: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorEntry:
    """Where one tensor lies in the data. `name`: the keys that lead to it, with slashes; `kind`: torch or numpy.

    `shape` is that of the whole tensor. Its `shards` do not overlap and cover it; one that is not sharded has one.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    shards: tuple[Shard, ...]

    @property
    def size(self) -> int:
        """Bytes of data, all shards together."""
        return sum(shard.size for shard in self.shards)


class Packer:
    """Collects trees and their tensors. `buffers` are views on the tensors' own memory wherever that is possible."""

    def __init__(self) -> None:
        self.tensors: list[TensorEntry] = []
        self.buffers: list[memoryview] = []
        self.size = 0
        self._seen: dict[tuple[Any, ...], int] = {}
        self._alive: list[Any] = []

    def pack(self, value: Any, path: str = "state") -> Tree:
        """The tree of `value`, whose tensors' names begin with `path`.

        StateError names the place of a value that a checkpoint cannot hold.
        """
        if value is None or isinstance(value, (bool, str)):
            return value
        if type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, (bytes, bytearray)):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, Mapping):
            # Pairs, not a JSON object: keys may be numbers (optimizers), and the order is kept.
            pairs: list[Tree] = [
                [self.pack(k, f"{path} (a key)"), self.pack(v, f"{path}/{k}")] for k, v in value.items()
            ]
            return {"$dict": pairs}
        if isinstance(value, tuple):
            return {"$tuple": [self.pack(v, f"{path}/{i}") for i, v in enumerate(value)]}
        if isinstance(value, list):
            return [self.pack(v, f"{path}/{i}") for i, v in enumerate(value)]
        return self._pack_array(value, path)

    def _pack_array(self, value: Any, path: str) -> Tree:
        torch: Any = sys.modules.get("torch")
        numpy: Any = sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor):
            return {"$tensor": self._pack_tensor(value, path)}
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            if value.dtype.hasobject:
                raise StateError(f"{path} is a NumPy array of Python objects; a checkpoint holds numbers only")
            flat = memoryview(numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)).cast("B")
            entry = self._add(path, "numpy", value.dtype.str, value.shape, flat)
            return {"$tensor": entry, "$scalar": True} if isinstance(value, numpy.generic) else {"$tensor": entry}
        if torch is not None and isinstance(value, torch.dtype):
            return {"$dtype": str(value).removeprefix("torch.")}
        raise StateError(
            f"{path} is a {type(value).__name__}; a checkpoint holds numbers, strings, bytes, lists, tuples, dicts, "
            f"NumPy arrays and tensors"
        )

    def _pack_tensor(self, tensor: Any, path: str) -> int:
        torch: Any = sys.modules["torch"]
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise StateError(f"{path} is a {tensor.layout} tensor; convert it to a dense one in state_dict()")
        tensor = tensor.detach()
        # Tied weights appear under several names and are stored once. The tensor is kept alive so that its address
        # cannot be given to another one meanwhile.
        key = (str(tensor.device), tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() and key in self._seen:
            return self._seen[key]
        self._alive.append(tensor)
        flat = tensor.cpu().contiguous().reshape(-1)
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        data = memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else memoryview(b"")
        self._seen[key] = self._add(path, "torch", dtype, shape, data)
        return self._seen[key]

    def _add(self, name: str, kind: str, dtype: str, shape: Sequence[int], data: memoryview) -> int:
        padding = -self.size % ALIGNMENT
        if padding:
            self.buffers.append(memoryview(bytes(padding)))
            self.size += padding
        shard = Shard(self.size, data.nbytes, (0,) * len(shape), tuple(shape))
        self.tensors.append(TensorEntry(name, kind, dtype, tuple(shape), (shard,)))
        self.buffers.append(data)
        self.size += data.nbytes
        return len(self.tensors) - 1


def unpack(tree: Tree, tensors: Sequence[TensorEntry], data: memoryview) -> Any:
    """The value that `Packer.pack` was given; tensors are copies on the CPU. StateError if it is not a tree of ours."""
    if isinstance(tree, list):
        return [unpack(v, tensors, data) for v in tree]
    if not isinstance(tree, dict):
        return tree
    tag, body = next(iter(sorted(tree.items(), key=lambda item: item[0] == "$scalar")), ("", None))
    if tag == "$dict" and isinstance(body, list):
        return {unpack(_pair(p)[0], tensors, data): unpack(_pair(p)[1], tensors, data) for p in body}
    if tag == "$tuple" and isinstance(body, list):
        return tuple(unpack(v, tensors, data) for v in body)
    if tag == "$float" and isinstance(body, str):
        return float(body)
    if tag == "$bytes" and isinstance(body, str):
        return base64.b64decode(body)
    if tag == "$dtype" and isinstance(body, str):
        return getattr(importlib.import_module("torch"), body)
    if tag == "$tensor" and isinstance(body, int) and body < len(tensors):
        array = _tensor(tensors[body], data)
        return array[()] if "$scalar" in tree else array
    raise StateError(f"the checkpoint holds a value of unknown kind {tag!r}; it was written by a newer holdfast-train")


def _pair(tree: Tree) -> tuple[Tree, Tree]:
    if not isinstance(tree, list) or len(tree) != 2:
        raise StateError("the checkpoint holds a dict that is not made of pairs")
    return tree[0], tree[1]


def _tensor(entry: TensorEntry, data: memoryview) -> Any:
    shard = entry.shards[0]
    raw = data[shard.offset : shard.offset + shard.size]
    if entry.kind == "numpy":
        numpy = importlib.import_module("numpy")
        return numpy.frombuffer(raw, dtype=numpy.dtype(entry.dtype)).reshape(entry.shape).copy()
    torch = importlib.import_module("torch")
    dtype = getattr(torch, entry.dtype)
    if not entry.size:
        return torch.empty(entry.shape, dtype=dtype)
    return torch.frombuffer(raw, dtype=dtype).reshape(entry.shape).clone()


def segments(buffers: Iterable[memoryview], length: int) -> Iterator[bytearray]:
    """The bytes of `buffers`, one after the other, cut into pieces of `length` bytes (the last may be shorter)."""
    piece = bytearray()
    for buffer in buffers:
        start = 0
        while start < buffer.nbytes:
            taken = min(length - len(piece), buffer.nbytes - start)
            piece += buffer[start : start + taken]
            start += taken
            if len(piece) == length:
                yield piece
                piece = bytearray()
    if piece:
        yield piece


def checked(name: str, thing: object) -> Stateful:
    """`thing`, which the program calls `name`. StateError if a checkpoint cannot hold it."""
    if not isinstance(thing, Stateful):
        raise StateError(f"{name!r} is a {type(thing).__name__}: Run takes objects with state_dict and load_state_dict")
    return thing


def unwrapped(thing: Any) -> Any:
    """The model inside DistributedDataParallel and torch.compile, so that a checkpoint fits with and without them."""
    while True:
        kind = type(thing).__name__
        if kind in ("DistributedDataParallel", "DataParallel"):
            thing = thing.module
        elif kind == "OptimizedModule":
            thing = thing._orig_mod
        else:
            return thing
