"""Between Python state and bytes: a tree that JSON can hold, and tensors beside it. No pickle: data is never code."""

import base64
import importlib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from holdfast_train.errors import StateError
from holdfast_train.sharding import Box, is_sharded, own_part

__all__ = ["Counts", "Leaf", "Shard", "Stateful", "TensorEntry", "Tree", "Walk", "checked", "unpack", "unwrapped"]

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"


@runtime_checkable
class Stateful(Protocol):
    """What a checkpoint can hold: models, optimizers, schedules, and anything else with these two methods."""

    def state_dict(self) -> Mapping[str, Any]:
        """The state: numbers, strings, bytes, lists, tuples, dicts, NumPy arrays and tensors."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Take over what `state_dict` gave."""


@runtime_checkable
class Counts(Protocol):
    """What wants to know how many steps were trained, such as a sampler, whose position that is."""

    def trained(self, step: int) -> None:
        """`step` steps are done."""


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


@dataclass(frozen=True)
class Leaf:
    """A tensor or an array of a state, in the program's own memory. `box`: start and shape of a rank's shard."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    value: Any
    box: Box | None = None

    @property
    def start(self) -> tuple[int, ...]:
        """The index of the first corner of what this rank has."""
        return self.box[0] if self.box else (0,) * len(self.shape)

    @property
    def extent(self) -> tuple[int, ...]:
        """The shape of what this rank has."""
        return self.box[1] if self.box else self.shape


class Walk:
    """Trees of some states, and beside them their tensors as `leaves`. Nothing is copied but small things."""

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self._names: set[str] = set()
        self._seen: dict[tuple[Any, ...], str] = {}

    def tree(self, value: Any, path: str) -> Tree:
        """The tree of `value`, whose tensors' names begin with `path`.

        StateError names the place of a value that a checkpoint cannot hold.
        """
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, (bytes, bytearray)):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, Mapping):
            # Pairs, not a JSON object: keys may be numbers (optimizers), and the order is kept.
            pairs: list[Tree] = [
                [self.tree(k, f"{path} (a key)"), self.tree(v, f"{path}/{k}" if path else f"{k}")]
                for k, v in value.items()
            ]
            return {"$dict": pairs}
        if isinstance(value, tuple):
            return {"$tuple": [self.tree(v, f"{path}/{i}") for i, v in enumerate(value)]}
        if isinstance(value, list):
            return [self.tree(v, f"{path}/{i}") for i, v in enumerate(value)]
        return self._array(value, path)

    def _array(self, value: Any, path: str) -> Tree:
        torch: Any = sys.modules.get("torch")
        numpy: Any = sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor):
            return {"$tensor": self._tensor(value, path)}
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            if value.dtype.hasobject:
                raise StateError(f"{path} is a NumPy array of Python objects; a checkpoint holds numbers only")
            array = numpy.ascontiguousarray(value).reshape(-1)
            name = self._add(Leaf(path, "numpy", value.dtype.str, value.shape, array.nbytes, array))
            return {"$tensor": name, "$scalar": True} if isinstance(value, numpy.generic) else {"$tensor": name}
        if torch is not None and isinstance(value, torch.dtype):
            return {"$dtype": str(value).removeprefix("torch.")}
        raise StateError(
            f"{path} is a {type(value).__name__}; a checkpoint holds numbers, strings, bytes, lists, tuples, dicts, "
            f"NumPy arrays and tensors"
        )

    def _tensor(self, tensor: Any, path: str) -> str:
        torch: Any = sys.modules["torch"]
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise StateError(f"{path} is a {tensor.layout} tensor; convert it to a dense one in state_dict()")
        tensor, box, whole = tensor.detach(), None, tuple(tensor.shape)
        if is_sharded(tensor):
            tensor, box = own_part(tensor, path)
        # Tied weights appear under several names and are stored once. A leaf keeps its tensor alive, so that its
        # address cannot be given to another one meanwhile.
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() and key in self._seen:
            return self._seen[key]
        dtype = str(tensor.dtype).removeprefix("torch.")
        self._seen[key] = self._add(Leaf(path, "torch", dtype, whole, tensor.numel() * tensor.itemsize, tensor, box))
        return self._seen[key]

    def _add(self, leaf: Leaf) -> str:
        while leaf.name in self._names:  # keys may hold slashes, or be 1 and "1"
            leaf = replace(leaf, name=f"{leaf.name}'")
        self._names.add(leaf.name)
        self.leaves.append(leaf)
        return leaf.name


def unpack(tree: Tree, tensors: Mapping[str, TensorEntry], data: memoryview) -> Any:
    """The value whose `Walk.tree` this is; its arrays and tensors lie in `data`. StateError if it is no tree of ours.

    What was tied is not tied any more: only the first of several names of a tensor lies in `data`.
    """
    return _unpack(tree, dict(tensors), data, set())


def _unpack(tree: Tree, tensors: dict[str, TensorEntry], data: memoryview, used: set[str]) -> Any:
    if isinstance(tree, list):
        return [_unpack(v, tensors, data, used) for v in tree]
    if not isinstance(tree, dict):
        return tree
    tag, body = next(iter(sorted(tree.items(), key=lambda item: item[0] == "$scalar")), ("", None))
    if tag == "$dict" and isinstance(body, list):
        pairs = map(_pair, body)
        return {_unpack(k, tensors, data, used): _unpack(v, tensors, data, used) for k, v in pairs}
    if tag == "$tuple" and isinstance(body, list):
        return tuple(_unpack(v, tensors, data, used) for v in body)
    if tag == "$float" and isinstance(body, str):
        return float(body)
    if tag == "$bytes" and isinstance(body, str):
        return base64.b64decode(body)
    if tag == "$dtype" and isinstance(body, str):
        return getattr(importlib.import_module("torch"), body)
    if tag == "$tensor" and isinstance(body, str) and body in tensors:
        array = _tensor(tensors[body], data)
        if body in used:
            array = array.clone() if tensors[body].kind == "torch" else array.copy()
        used.add(body)
        return array[()] if "$scalar" in tree else array
    raise StateError(f"the checkpoint holds a value of unknown kind {tag!r}; it was written by a newer holdfast-train")


def _pair(tree: Tree) -> tuple[Tree, Tree]:
    if not isinstance(tree, list) or len(tree) != 2:
        raise StateError("the checkpoint holds a dict that is not made of pairs")
    return tree[0], tree[1]


def _tensor(entry: TensorEntry, data: memoryview) -> Any:
    if len(entry.shards) != 1:
        return _joined(entry, data)
    shard = entry.shards[0]
    raw = data[shard.offset : shard.offset + shard.size]
    if entry.kind == "numpy":
        numpy = importlib.import_module("numpy")
        return numpy.frombuffer(raw, dtype=numpy.dtype(entry.dtype)).reshape(entry.shape)
    torch = importlib.import_module("torch")
    dtype = getattr(torch, entry.dtype)
    if not entry.size:
        return torch.empty(entry.shape, dtype=dtype)
    return torch.frombuffer(raw, dtype=dtype).reshape(entry.shape)


def _joined(entry: TensorEntry, data: memoryview) -> Any:
    """A tensor that was sharded, whole."""
    torch = importlib.import_module("torch")
    dtype = getattr(torch, entry.dtype)
    whole = torch.empty(entry.shape, dtype=dtype)
    for shard in entry.shards:
        if not shard.size:
            continue
        box = tuple(slice(at, at + length) for at, length in zip(shard.start, shard.shape, strict=True))
        raw = data[shard.offset : shard.offset + shard.size]
        whole[box] = torch.frombuffer(raw, dtype=dtype).reshape(shard.shape)
    return whole


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
