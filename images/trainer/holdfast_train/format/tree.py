"""Between Python state and bytes: a tree that JSON can hold, and tensors beside it. No pickle: data is never code."""

import base64
import importlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from holdfast_train.errors import StateError
from holdfast_train.format.sharding import Box, is_sharded, own_part

__all__ = ["Leaf", "Shard", "TensorEntry", "Tree", "Walk", "names", "unpack"]

T = TypeVar("T")

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"


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


class Leaf(NamedTuple):
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
    """Trees of some states, and beside them their tensors as `leaves`. Nothing is copied but small things.

    Training stands still meanwhile, and a large model has thousands of tensors: each takes a few microseconds.
    """

    separator: ClassVar[str] = "/"  # between the keys in a name

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self._torch: Any = sys.modules.get("torch")
        self._names: set[str] = set()
        self._seen: dict[int, list[Leaf]] = {}  # by address
        self._dtypes: dict[Any, str] = {}

    def tree(self, value: Any, path: str) -> Tree:
        """The tree of `value`, whose tensors' names begin with `path`.

        StateError names the place of a value that a checkpoint cannot hold.
        """
        if self._torch is not None and isinstance(value, self._torch.Tensor):
            return {"$tensor": self._tensor(value, path)}
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, (bytes, bytearray)):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, Mapping):
            # Pairs, not a JSON object: keys may be numbers (optimizers), and the order is kept.
            pairs: list[Tree] = [
                [
                    k if type(k) in (str, int) else self.tree(k, f"{path} (a key)"),
                    self.tree(v, self._below(path, k)),
                ]
                for k, v in value.items()
            ]
            return {"$dict": pairs}
        if isinstance(value, tuple):
            return {"$tuple": self._items(value, path)}
        if isinstance(value, list):
            return self._items(value, path)
        return self._array(value, path)

    def _items(self, values: Sequence[Any], path: str) -> list[Tree]:
        return [v if type(v) is int else self.tree(v, self._below(path, i)) for i, v in enumerate(values)]

    def _below(self, path: str, key: Any) -> str:
        return f"{path}{self.separator}{key}" if path else f"{key}"

    def _array(self, value: Any, path: str) -> Tree:
        torch, numpy = self._torch, sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            if value.dtype.hasobject:
                raise StateError(f"{path} is a NumPy array of Python objects; a checkpoint holds numbers only")
            if numpy.dtype(value.dtype.str) != value.dtype:  # fields, and types of other libraries, have no such name
                raise StateError(
                    f"{path} is a NumPy array of {value.dtype}; a checkpoint holds types that NumPy has one name for, "
                    f"such as float32: give each field by itself, or what it holds in such a type, in state_dict()"
                )
            array = numpy.ascontiguousarray(value).reshape(-1)
            name = self._unique(path)
            self.leaves.append(Leaf(name, "numpy", value.dtype.str, value.shape, array.nbytes, array))
            return {"$tensor": name, "$scalar": True} if isinstance(value, numpy.generic) else {"$tensor": name}
        if torch is not None and isinstance(value, torch.dtype):
            return {"$dtype": str(value).removeprefix("torch.")}
        raise StateError(
            f"{path} is a {type(value).__name__}; a checkpoint holds numbers, strings, bytes, lists, tuples, dicts, "
            f"NumPy arrays and tensors"
        )

    def _tensor(self, tensor: Any, path: str) -> str:
        if tensor.layout is not self._torch.strided or tensor.is_quantized:
            raise StateError(f"{path} is a {tensor.layout} tensor; convert it to a dense one in state_dict()")
        # Detached, it stays what it is now, also if the program gives its tensor other memory while this is copied.
        tensor, box, whole = tensor.detach(), None, tuple(tensor.shape)
        if type(tensor) is not self._torch.Tensor and is_sharded(tensor):
            tensor, box = own_part(tensor, path)
        if tensor.is_neg() or tensor.is_conj():  # a view such as x.conj(): its memory holds other values than it has
            tensor = tensor.resolve_conj().resolve_neg()
        # Tied weights appear under several names and are stored once. A leaf keeps its tensor alive, so that its
        # address cannot be given to another one meanwhile.
        size, kind = tensor.nbytes, tensor.dtype
        same = self._seen.setdefault(tensor.data_ptr(), [])
        for leaf in same:
            if size and _are_alike(leaf.value, tensor):
                return leaf.name
        dtype = self._dtypes.get(kind) or self._dtypes.setdefault(kind, str(kind).removeprefix("torch."))
        name = self._unique(path)
        leaf = Leaf(name, "torch", dtype, whole, size, tensor, box)
        same.append(leaf)
        self.leaves.append(leaf)
        return name

    def _unique(self, name: str) -> str:
        while name in self._names:  # keys may hold the separator, or be 1 and "1"
            name = f"{name}'"
        self._names.add(name)
        return name


def _are_alike(one: Any, other: Any) -> bool:
    """Do two tensors at the same address say the same of it?"""
    return bool(
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.device == other.device
    )


def unpack(tree: Tree, tensors: Mapping[str, T], value_of: Callable[[T, bool], Any]) -> Any:
    """The value whose `Walk.tree` this is. StateError if it is no tree of ours.

    `tensors`: by the names that the tree has for them. `value_of` says what stands where one was; True for one that was
    a NumPy scalar.
    """

    def value(tree: Tree) -> Any:
        if isinstance(tree, list):
            return [value(v) for v in tree]
        if not isinstance(tree, dict):
            return tree
        tag, body = next(iter(sorted(tree.items(), key=lambda item: item[0] == "$scalar")), ("", None))
        if tag == "$dict" and isinstance(body, list):
            return {value(k): value(v) for k, v in map(_pair, body)}
        if tag == "$tuple" and isinstance(body, list):
            return tuple(value(v) for v in body)
        if tag == "$float" and isinstance(body, str):
            return float(body)
        if tag == "$bytes" and isinstance(body, str):
            return base64.b64decode(body)
        if tag == "$dtype" and isinstance(body, str):
            return getattr(importlib.import_module("torch"), body)
        if tag == "$tensor" and isinstance(body, str) and body in tensors:
            return value_of(tensors[body], "$scalar" in tree)
        raise StateError(
            f"the checkpoint holds a value of unknown kind {tag!r}; it was written by a newer holdfast-train"
        )

    return value(tree)


def names(tree: Tree) -> Iterator[str]:
    """The names of the tensors in the tree `tree`."""
    if isinstance(tree, list):
        for item in tree:
            yield from names(item)
    elif isinstance(tree, dict):
        if isinstance(name := tree.get("$tensor"), str):
            yield name
        for item in tree.values():
            yield from names(item)


def _pair(tree: Tree) -> tuple[Tree, Tree]:
    if not isinstance(tree, list) or len(tree) != 2:
        raise StateError("the checkpoint holds a dict that is not made of pairs")
    return tree[0], tree[1]
