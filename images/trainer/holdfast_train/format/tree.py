"""Python state as a tree for JSON, with its tensors beside the tree. No pickle: data is never code."""

import base64
import importlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

from holdfast_train.errors import StateError
from holdfast_train.format import columns
from holdfast_train.format.mappings import MAPPINGS, mapping_of, metadata_of, type_of
from holdfast_train.format.numpy_types import numpy_type
from holdfast_train.format.sharding import Box, is_sharded, own_part
from holdfast_train.format.strides import Strides, of_array, of_tensor

T = TypeVar("T")
APART: Final = "differing"  # in the tree of one rank: the trees of objects that differ from those of rank 0
COLUMNS: Final = "$columns"  # beside the name of a byte string: `columns.encode` made it of a container
STRIDES: Final = "$strides"  # beside the name of a tensor or an array: see `strides.of_tensor`
METADATA: Final = "$metadata"  # beside the pairs of a mapping: see `metadata_of`
_BESIDE: Final = (COLUMNS, METADATA, STRIDES, "$type")  # keys that say more of the value of another key
LEAST_BYTES: Final = 4096  # of a byte string that is a leaf: in a tree it takes several times its size
DEEPEST: Final = 100  # levels of containers: a walk, and each reader of JSON, needs some of Python's stack for each
LONG: Final = 1 << 63  # an int that is not below it is a text: Python reads no decimal of more than 4,300 digits

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"
Form: TypeAlias = Strides | str | None


@dataclass(frozen=True)
class Shard:
    """One box of a tensor, stored by rows: `size` bytes at `offset` in the data. `start`: index of its first value."""

    offset: int
    size: int
    start: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorEntry:
    """The place of one tensor in the data. `name`: the keys that lead to it, with slashes.

    `kind`: torch, numpy, or bytes for a large byte string.
    `shape`: of the whole tensor. Its `shards` cover it without overlap; a tensor that is not sharded has one.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    shards: tuple[Shard, ...]

    @property
    def size(self) -> int:
        """Bytes of data in all shards."""
        return sum(shard.size for shard in self.shards)


class Leaf(NamedTuple):
    """A tensor, an array or a large byte string of a state, in the program's memory. `box`: this rank's shard."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    value: Any
    box: Box | None = None

    @property
    def start(self) -> tuple[int, ...]:
        """The index of the first value of this rank's part."""
        return self.box[0] if self.box else (0,) * len(self.shape)

    @property
    def extent(self) -> tuple[int, ...]:
        """The shape of this rank's part."""
        return self.box[1] if self.box else self.shape


class Walk:
    """Makes trees of states and collects their tensors and large byte strings as `leaves`. It copies only small values.

    Places with the same tensor or array get one leaf. Places that share only a part of their memory get one each.
    Training waits for it, and a large model has thousands of tensors: each takes a few microseconds. `base`: a walk
    that came before, whose leaves are not collected again; it does not change.
    """

    separator: ClassVar[str] = "/"  # between the keys in a name

    def __init__(self, base: "Walk | None" = None) -> None:
        self.leaves: list[Leaf] = []
        self._torch: Any = sys.modules.get("torch")
        self._usual = () if self._torch is None else (self._torch.Tensor, self._torch.nn.Parameter)
        self._names: set[str] = set()
        self._seen: dict[int, list[Leaf]] = {}  # by address
        self._names_before: frozenset[str] | set[str] = frozenset() if base is None else base._names
        self._seen_before: Mapping[int, list[Leaf]] = {} if base is None else base._seen
        self.arrays: dict[Any, str] = {}  # names of NumPy arrays, by their memory
        self._dtypes: dict[Any, str] = {}
        self._depth = 0

    def tree(self, value: Any, path: str) -> Tree:
        """The tree of `value`. The names of its tensors begin with `path`.

        StateError names the place of a value that a checkpoint cannot contain.
        """
        if self._torch is not None and isinstance(value, self._torch.Tensor):
            return self._tensor(value, path)
        kind = type(value)
        if value is None or kind is bool or kind is str or (kind is int and -LONG <= value < LONG):
            plain: Tree = value
            return plain
        if kind is int:
            return {"$int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is bytes:
            return self._bytes(value, path)
        if kind is tuple or kind is list or kind in MAPPINGS:
            return self._container(value, path)
        if self._torch is not None and kind is self._torch.Size:
            return {"$tuple": list(value), "$type": "Size"}
        return self._array(value, path)

    def _container(self, value: Any, path: str) -> Tree:
        if len(value) >= columns.FEW and path and (data := self._columns(value)) is not None:
            return reference(self._byte_leaf(data, path), COLUMNS)
        if self._depth == DEEPEST:
            raise StateError(
                f"{path} is in {DEEPEST} containers, one in another: it is nested too deeply, or contains itself; "
                f"return it as a flat list or dict in state_dict()"
            )
        self._depth += 1
        try:
            return self._parts(value, path)
        finally:
            self._depth -= 1

    def _parts(self, value: Any, path: str) -> Tree:
        kind = type(value)
        if kind in MAPPINGS:
            # Pairs, not a JSON object: keys may be numbers (optimizers), and pairs keep their order.
            pairs: list[Tree] = [
                [k if type(k) is str else self._key(k, path), self.tree(v, self._below(path, k))]
                for k, v in list(value.items())  # at once: another thread may add items
            ]
            if kind is dict:
                return {"$dict": pairs}
            found: dict[str, Tree] = {"$dict": pairs, "$type": type_of(value, path)}
            return {**found, METADATA: about} if (about := metadata_of(value, path)) else found
        return {"$tuple": self._items(value, path)} if kind is tuple else self._items(value, path)

    def _key(self, key: Any, path: str) -> Tree:
        leaves = len(self.leaves)
        tree = self.tree(key, f"{path} (a key)")
        if any(names(tree)) or len(self.leaves) > leaves:
            raise StateError(
                f"{path} has a key with a tensor, an array or a byte string of {LEAST_BYTES} bytes or more; allowed: "
                f"numbers, strings, short byte strings, and tuples of these: use other keys in state_dict()"
            )
        return tree

    def _columns(self, value: Any) -> bytearray | None:
        """A container of many small values as one byte string; None if its values are walked one by one."""
        return columns.encode(value)

    def _bytes(self, value: bytes, path: str) -> Tree:
        if len(value) < LEAST_BYTES:
            return {"$bytes": base64.b64encode(value).decode()}
        return {"$tensor": self._byte_leaf(value, path)}

    def _byte_leaf(self, data: bytes | bytearray, path: str) -> str:
        name = self._unique(path)
        self.leaves.append(Leaf(name, "bytes", "uint8", (len(data),), len(data), data))
        return name

    def _items(self, values: Sequence[Any], path: str) -> list[Tree]:
        return [
            v if type(v) is int and -LONG <= v < LONG else self.tree(v, self._below(path, i))
            for i, v in enumerate(list(values))
        ]

    def _below(self, path: str, key: Any) -> str:
        return f"{path}{self.separator}{key}" if path else f"{key}"

    def _array(self, value: Any, path: str) -> Tree:
        torch, numpy = self._torch, sys.modules.get("numpy")
        if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
            if value.dtype.hasobject:
                raise StateError(
                    f"{path} is a NumPy array of Python objects; allowed: numbers; convert or remove it in state_dict()"
                )
            if (
                numpy.dtype(value.dtype.str) != value.dtype
            ):  # types with fields and types of other libraries have no name in NumPy
                raise StateError(
                    f"{path} is a NumPy array of {value.dtype}; allowed: types with a name in NumPy, such as float32. "
                    f"Return each field as its own array, or convert the array, in state_dict()"
                )
            if isinstance(value, numpy.generic):
                return {"$scalar": [value.dtype.str, base64.b64encode(value.tobytes()).decode()]}
            memory = (value.ctypes.data, value.dtype.str, value.shape, value.strides)
            name = self.arrays.get(memory, "")
            if not name or not value.nbytes:
                name = self.arrays[memory] = self._unique(path)
                array = numpy.ascontiguousarray(value).reshape(-1)
                self.leaves.append(Leaf(name, "numpy", value.dtype.str, value.shape, array.nbytes, array))
            return reference(name, of_array(value))
        if torch is not None and isinstance(value, torch.dtype):
            return {"$dtype": str(value).removeprefix("torch.")}
        raise StateError(
            f"{path} is a {type(value).__name__}; allowed: numbers, strings, bytes, lists, tuples, dicts, NumPy arrays "
            f"and tensors. A type derived from these would come back as another one: convert it in state_dict(), "
            f"and back in load_state_dict()"
        )

    def _tensor(self, tensor: Any, path: str) -> Tree:
        if tensor.layout is not self._torch.strided or tensor.is_quantized or tensor.is_nested:
            kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else tensor.layout
            raise StateError(f"{path} is a {kind} tensor; convert it to a dense tensor in state_dict()")
        if tensor.is_meta or (type(tensor) not in self._usual and self._torch.nn.parameter.is_lazy(tensor)):
            raise StateError(f"{path} is a tensor without values; give it values before Run is entered")
        # A detached tensor keeps its memory, also if the program assigns other memory to its tensor during the copy.
        tensor, box, whole = tensor.detach(), None, tuple(tensor.shape)
        if type(tensor) is not self._torch.Tensor:
            if is_sharded(tensor):
                tensor, box = own_part(tensor, path)
            tensor = self._plain(tensor, path)
        if tensor.is_neg() or tensor.is_conj():  # a view such as x.conj(): its values differ from its memory
            tensor = tensor.resolve_conj().resolve_neg()
        # Tied weights appear under several names and are stored once. A leaf keeps its tensor alive, so no other tensor
        # can get its address.
        size, kind = tensor.nbytes, tensor.dtype
        address = tensor.data_ptr()
        if size and not address:
            raise StateError(f"{path} is a tensor whose memory was freed; leave it out in state_dict()")
        strides = of_tensor(tensor) if box is None else None
        same = self._seen.setdefault(address, [])
        for leaf in (*self._seen_before.get(address, ()), *same) if self._seen_before else same:
            if size and _are_alike(leaf.value, tensor):
                return reference(leaf.name, strides)
        dtype = self._dtypes.get(kind) or self._dtypes.setdefault(kind, str(kind).removeprefix("torch."))
        name = self._unique(path)
        leaf = Leaf(name, "torch", dtype, whole, size, tensor, box)
        same.append(leaf)
        self.leaves.append(leaf)
        return reference(name, strides)

    def _plain(self, tensor: Any, path: str) -> Any:
        """The values of a tensor subclass as a tensor. StateError if it has none of its own, but other tensors inside.

        Its class cannot be restored: a checkpoint names no code.
        """
        if hasattr(tensor, "trigger_wait"):  # the result of a collective operation that may not have arrived
            return tensor.trigger_wait()
        if hasattr(tensor, "__tensor_flatten__") or (tensor.numel() and not tensor.data_ptr()):
            kind = type(tensor)
            raise StateError(
                f"{path} is a {kind.__module__}.{kind.__qualname__}, a tensor that keeps its values in other tensors; "
                f"return these, or a dense tensor (dequantize()), in state_dict(), and put it together again in "
                f"load_state_dict()"
            )
        with self._torch._C.DisableTorchFunctionSubclass():
            return tensor.as_subclass(self._torch.Tensor)

    def _unique(self, name: str) -> str:
        while name in self._names or name in self._names_before:  # keys may contain the separator, or be 1 and "1"
            name = f"{name}'"
        self._names.add(name)
        return name


def _are_alike(one: Any, other: Any) -> bool:
    """True if two tensors at the same address have the same type, shape and layout."""
    return bool(
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.device == other.device
    )


def reference(name: str, form: Form) -> Tree:
    """The place of a tensor in a tree. `form`: see `unpack`."""
    if form is None:
        return {"$tensor": name}
    return {"$tensor": name, **({COLUMNS: True} if form == COLUMNS else {STRIDES: list(form)})}


def unpack(tree: Tree, tensors: Mapping[str, T], value_of: Callable[[T, Form], Any]) -> Any:
    """The value of which `Walk.tree` made `tree`. StateError if `tree` has an unknown form.

    `tensors`: by their names in the tree. `value_of` returns the value for a tensor; its second argument is COLUMNS for
    a container, the strides of a tensor or an array that is not stored as it lies in memory, and otherwise None.
    """

    def value(tree: Tree) -> Any:
        if isinstance(tree, list):
            return [value(v) for v in tree]
        if not isinstance(tree, dict):
            return tree
        tag, body = next((item for item in tree.items() if item[0] not in _BESIDE), ("", None))
        if tag == "$dict" and isinstance(body, list):
            pairs = ((value(k), value(v)) for k, v in map(_pair, body))
            made = mapping_of(str(tree.get("$type", "dict")), pairs)
            if METADATA in tree:
                made._metadata = tree[METADATA]
            return made
        if tag == "$tuple" and isinstance(body, list):
            items = tuple(value(v) for v in body)
            return items if "$type" not in tree else importlib.import_module("torch").Size(items)
        if tag == "$int" and isinstance(body, str):
            return int(body, 16)
        if tag == "$scalar" and isinstance(body, list):
            return _scalar(*map(str, body))
        if tag == "$float" and isinstance(body, str):
            return float(body)
        if tag == "$bytes" and isinstance(body, str):
            return base64.b64decode(body)
        if tag == "$dtype" and isinstance(body, str):
            return getattr(importlib.import_module("torch"), body)
        if tag == "$tensor" and isinstance(body, str) and body in tensors:
            strides: Any = tree.get(STRIDES)
            return value_of(tensors[body], COLUMNS if COLUMNS in tree else strides and tuple(strides))
        raise StateError(
            f"the checkpoint contains a value of unknown kind {tag!r}; a newer holdfast-train has written it"
        )

    return value(tree)


def _scalar(name: str, text: str) -> Any:
    data, dtype = base64.b64decode(text), numpy_type(name)
    if len(data) < dtype.itemsize:  # an empty string of NumPy has more
        raise StateError(f"the checkpoint contains only {len(data)} bytes of a NumPy scalar of type {name!r}")
    return importlib.import_module("numpy").ndarray((), dtype, data)[()]


def names(tree: Tree) -> Iterator[str]:
    """The names of the tensors in `tree`."""
    if isinstance(tree, list):
        for item in tree:
            yield from names(item)
    elif isinstance(tree, dict):
        if isinstance(name := tree.get("$tensor"), str):
            yield name
        for item in tree.values():
            yield from names(item)


def delta(before: Tree, after: Tree) -> Any:
    """What `patched` needs beside `before` to make `after`. Short if most parts of both are the same objects."""
    if after is before:
        return ...
    if isinstance(after, list) and isinstance(before, list) and len(after) == len(before):
        return [delta(old, new) for old, new in zip(before, after, strict=True)]
    if isinstance(after, dict) and isinstance(before, dict) and after.keys() == before.keys():
        return {key: delta(before[key], new) for key, new in after.items()}
    return after


def patched(before: Tree, change: Any) -> Tree:
    """The tree of which `delta` has made `change`. `before` stays as it is."""
    if change is ...:
        return before
    if isinstance(change, list):
        old = before if isinstance(before, list) and len(before) == len(change) else [None] * len(change)
        return [patched(one, new) for one, new in zip(old, change, strict=True)]
    if isinstance(change, dict):
        known = before if isinstance(before, dict) else {}
        return {key: patched(known.get(key), new) for key, new in change.items()}
    unchanged: Tree = change
    return unchanged


def _pair(tree: Tree) -> tuple[Tree, Tree]:
    if not isinstance(tree, list) or len(tree) != 2:
        raise StateError("the checkpoint contains a dict that does not consist of pairs")
    return tree[0], tree[1]


def apart_name(rank: int, name: str) -> str:
    """The name under which `rank` saves its own value of tensor `name`, of which ranks have different ones."""
    return f"@{rank}/{APART}/{name}"


def is_apart(names: Iterable[str]) -> Callable[[str], bool]:
    """Whether ranks have different values of a tensor. `names`: of all tensors of a checkpoint."""
    differing = {found[1] for name in names if (found := re.fullmatch(rf"@[0-9]+/{APART}/(.+)", name))}
    return lambda name: name in differing or name.startswith("@")
