"""An exported state: tensors by flat names, and a description of the state that they belong to."""

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from holdfast_train.errors import StateError
from holdfast_train.format import columns
from holdfast_train.format.numpy_types import numpy_type
from holdfast_train.format.sealed_json import decoded_json
from holdfast_train.format.sharding import Box
from holdfast_train.format.strides import with_strides
from holdfast_train.format.tree import COLUMNS, Form, Tree, Walk, reference, unpack
from holdfast_train.restore.lazy_tensors import Lazy

DESCRIPTION: Final = "holdfast"  # the key of the description in a file
VERSION: Final = 1
BYTES: Final = "bytes"  # the type of a byte string


@dataclass(frozen=True)
class Description:
    """The state that some tensors belong to. `names`: of its objects. `tree`: of a single object, or of all by name.

    `tied`: names of tied tensors, each with the name of the tensor that it equals. `arrays`: names of NumPy arrays
    and of byte strings, with type and shape. `facts`: about the data (see `program.data_facts`).
    """

    step: int
    names: tuple[str, ...]
    tree: Tree
    tied: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> str:
        """As JSON."""
        plain = {"tied": dict(self.tied), "arrays": dict(self.arrays), "facts": dict(self.facts)}
        body = {"v": VERSION, **vars(self), **plain}
        return json.dumps(body, separators=(",", ":"), allow_nan=False)

    @classmethod
    def decode(cls, text: str) -> "Description":
        """From JSON. StateError if `text` is not a description of this version."""
        try:
            body: dict[str, Any] = decoded_json(text)
            if body["v"] != VERSION:
                raise StateError(
                    f"another holdfast-train exported it, with version {body['v']} of the description; this one reads "
                    f"version {VERSION}"
                )
            arrays = {name: (str(dtype), tuple(shape)) for name, (dtype, shape) in body["arrays"].items()}
            step, names, facts = int(body["step"]), tuple(body["names"]), dict(body["facts"])
            return cls(step, names, body["tree"], dict(body["tied"]), arrays, facts)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise StateError(f"the description of the state cannot be read: {error!r}") from error

    def objects(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The states of the objects by name. StateError if a tensor of theirs is not in `tensors`."""
        value = self.value(tensors)
        return {self.names[0]: value} if len(self.names) == 1 else dict(value)

    def value(self, tensors: Mapping[str, Any]) -> Any:
        """The state with `tensors` in it. Tied names get the same tensor."""

        def restore(name: str) -> Any:
            found = tensors[name]
            return _to_array(found, *self.arrays[name]) if name in self.arrays else found

        made = {name: restore(name) for name in tensors}
        laid: dict[int, Any] = {}  # by address

        def value_of(found: Any, form: Form) -> Any:
            if isinstance(form, tuple):
                return laid.setdefault(id(found), with_strides(found, form))
            return columns.decode(found) if form == COLUMNS and isinstance(found, bytes | bytearray) else found

        return unpack(self.tree, made, value_of)


def _libraries() -> tuple[Any, Any]:
    """NumPy and torch. The command line of Holdfast uses this module without both."""
    return importlib.import_module("numpy"), importlib.import_module("torch")


def _to_array(tensor: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """The NumPy array or byte string that was exported as `tensor`."""
    np, torch = _libraries()
    if dtype == BYTES:
        return tensor.contiguous().numpy().tobytes()
    if not tensor.numel():
        return np.empty(shape, dtype=numpy_type(dtype))
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().view(numpy_type(dtype)).reshape(shape)


def to_tensor(array: Any) -> Any:
    """A NumPy array as a tensor: of the same type if torch has it, otherwise of bytes. A byte string as a tensor."""
    np, torch = _libraries()
    if isinstance(array, bytes):
        return torch.frombuffer(bytearray(array), dtype=torch.uint8)
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError):  # strings, times, or another byte order
        return torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


class _Naming(Walk):
    """Gives flat names to tensors that are not read yet."""

    separator = "."

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[str, Lazy] = {}
        self.tied: dict[str, str] = {}
        self._first: dict[tuple[str, Box], str] = {}

    def _array(self, value: Any, path: str) -> Tree:
        if not isinstance(value, Lazy):
            return super()._array(value, path)
        name = self._first.get(value.key)
        if name is None:
            name = self._first[value.key] = self._unique(path)
            self.tensors[name] = value if value.form != COLUMNS else replace(value, form=None)  # the bytes are exported
        else:
            self.tied[self._unique(path)] = name
        return reference(name, value.form)

    def _columns(self, value: Any) -> None:
        """A state that is exported has the columns of its checkpoint, and no others."""


@dataclass(frozen=True)
class Content:
    """What is exported: `tensors` by name, which are not read yet, and the description of their state."""

    tensors: Mapping[str, Lazy]
    description: Description

    @classmethod
    def of(cls, step: int, objects: Mapping[str, Any], facts: Mapping[str, str]) -> "Content":
        """Of outlines; `facts` are about the data.

        With several objects, the names of tensors begin with the name of the object.
        """
        walk = _Naming()
        (value, *more) = objects.values()
        tree = walk.tree(dict(objects) if more else value, "")
        arrays = {
            name: (BYTES if lazy.entry.kind == "bytes" else lazy.entry.dtype, lazy.entry.shape)
            for name, lazy in walk.tensors.items()
            if lazy.entry.kind != "torch"
        }
        return cls(walk.tensors, Description(step, tuple(objects), tree, walk.tied, arrays, facts))

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(lazy.entry.size for lazy in self.tensors.values())
