"""Walks over the same state again and again: what a walk has found is used again if only values have changed since.

A state of a hundred thousand small tensors takes half a second to walk, for which training waits. But from one save to
the next nothing changes in most states but the bytes of tensors and some plain values.
"""

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from holdfast_train.errors import StateError
from holdfast_train.format.mappings import MAPPINGS, type_of
from holdfast_train.format.tree import COLUMNS, LONG, METADATA, Leaf, Tree, Walk

MISSES: Final = 2


class _ChangedError(Exception):
    """The state has to be walked again."""


class _Place(NamedTuple):
    """One place of a tensor in a tree: its `ref` there, the `number` of its leaf, and what was found in it `before`."""

    ref: Tree
    number: int
    before: Any
    address: int
    dtype: Any


_NO_ADDRESS: Final = -1  # of a shard: shards are always walked again
_NOWHERE: Final = _Place(None, 0, None, 0, None)


class RepeatedWalk:
    """Walks a state, and remembers what it has found.

    The result is always that of a new walk. Names and ties of tensors follow from the structure of the state and from
    the memory, type and layout of each tensor. If one of these has changed anywhere, everything is walked again. Of the
    tree, the parts in which no plain value has changed are the same objects as before.

    `is_again`: the last walk has used what the one before had found. To remember takes time too, so a state that has
    changed MISSES times in a row is remembered no more: shards, for example, are always walked again.
    """

    def __init__(self) -> None:
        self.is_again = False
        self._misses = 0
        self._usual: tuple[Any, ...] = ()
        self._walk: Walk | None = None
        self._tree: Tree = None
        self._leaves: list[Leaf] = []
        self._numbers: dict[str, int] = {}  # of leaves, by name
        self._places: list[_Place] = []
        self._next: Iterator[_Place] = iter(())  # the places that the walk in progress has not come to
        self._byte_strings: list[int] = []  # numbers of leaves
        self._met: dict[Any, Any] = {}  # numbers of arrays by their memory, and the memory by the number, in this walk
        self._sources: list[Any] = []  # by leaf: the tensor of the program that the leaf was made of

    def walk(self, state: Any) -> tuple[Walk, Tree]:
        """The tree of `state`, and a walk that has its leaves. The walk may go on with other states."""
        if self._walk is not None:
            with contextlib.suppress(_ChangedError, RuntimeError):  # RuntimeError: of a tensor without plain memory
                self._next, self._met = iter(self._places), {}
                self._tree = self._value(state, self._tree)
                self.is_again, self._misses = True, 0
                return self._with_leaves(self._walk), self._tree
            self._misses += 1
        self.forget()
        walk = Walk()
        tree = walk.tree(state, "")
        if self._misses >= MISSES:
            return walk, tree
        torch: Any = sys.modules.get("torch")
        self._usual = () if torch is None else (torch.Tensor, torch.nn.Parameter)
        self._walk, self._tree, self._leaves = walk, tree, list(walk.leaves)
        self._numbers = {leaf.name: number for number, leaf in enumerate(walk.leaves)}
        self._byte_strings = [number for number, leaf in enumerate(walk.leaves) if leaf.kind == "bytes"]
        self._sources = [None] * len(walk.leaves)
        walk.leaves = []
        self._places = self._places_in(tree)
        return self._with_leaves(walk), tree

    def forget(self) -> None:
        """Free what is remembered. The next walk is a new one."""
        self._walk, self._tree, self.is_again = None, None, False
        self._leaves, self._places, self._sources, self._next = [], [], [], iter(())
        self._byte_strings = []

    def _with_leaves(self, base: Walk) -> Walk:
        walk = Walk(base)
        walk.leaves = list(self._leaves)
        for number in self._byte_strings:  # not kept until the next walk: columns may take much memory
            self._leaves[number] = self._leaves[number]._replace(value=None)
        return walk

    def _places_in(self, tree: Tree) -> list[_Place]:
        found: list[_Place] = []

        def collect(tree: Any) -> None:
            if isinstance(tree, list):
                for item in tree:
                    collect(item)
            elif isinstance(tree, dict) and "$tensor" in tree:
                number = self._numbers[tree["$tensor"]]
                leaf = self._leaves[number]
                if leaf.kind == "torch":
                    address = leaf.value.data_ptr() if leaf.box is None else _NO_ADDRESS
                    found.append(_Place(tree, number, leaf.value, address, leaf.value.dtype))
            elif isinstance(tree, dict):
                for item in tree.values():
                    collect(item)

        collect(tree)
        return found

    def _value(self, value: Any, old: Tree) -> Tree:
        """The tree of `value`, of which a walk has made `old` before; `old` itself if no plain value has changed."""
        kind = type(value)
        if kind in self._usual:
            self._tensor(value, old)
            return old
        if (
            value is None
            or kind in (bool, str)
            or (kind is int and -LONG <= value < LONG)
            or (kind is float and math.isfinite(value))
        ):
            if type(old) in (list, dict):
                raise _ChangedError
            plain: Tree = value
            return old if plain is old else plain
        if isinstance(old, dict) and COLUMNS in old:
            return self._other(value, old)
        if kind in MAPPINGS:
            return self._mapping(value, old)
        if kind is tuple:
            items: Any = old.get("$tuple") if isinstance(old, dict) and "$type" not in old else None
            if items is None:
                raise _ChangedError
            found: list[Tree] = self._items(value, items)
            return {"$tuple": found} if found is not items else old
        if kind is list:
            if not isinstance(old, list):
                raise _ChangedError
            return self._items(value, old)
        return self._other(value, old)

    def _mapping(self, value: Mapping[Any, Any], old: Tree) -> Tree:
        pairs: Any = old.get("$dict") if isinstance(old, dict) else None
        items = list(value.items())  # at once: another thread may add items
        if pairs is None or len(pairs) != len(items) or not self._is_of_type(value, old):
            raise _ChangedError
        changed: list[Tree] | None = None
        for number, ((key, item), (known, of_item)) in enumerate(zip(items, pairs, strict=True)):
            if known is not key and (type(known) is not type(key) or known != key):
                raise _ChangedError
            if type(item) in self._usual:
                self._tensor(item, of_item)
                continue
            tree = self._value(item, of_item)
            if tree is not of_item:
                changed = list(pairs) if changed is None else changed
                changed[number] = [known, tree]
        return old if changed is None else {**cast("dict[str, Tree]", old), "$dict": changed}

    @staticmethod
    def _is_of_type(value: Mapping[Any, Any], old: Tree) -> bool:
        """True if the mapping in `old` has the type of `value`, the same factory and the same metadata."""
        known, about = (old.get("$type"), old.get(METADATA)) if isinstance(old, dict) else (None, None)
        if about != (getattr(value, "_metadata", None) or None):
            return False
        if type(value) is dict or known is None:
            return type(value) is dict and known is None
        return known == type_of(value, "")

    def _items(self, value: list[Any] | tuple[Any, ...], old: list[Tree]) -> list[Tree]:
        value = list(value)  # at once: another thread may add items
        if len(value) != len(old):
            raise _ChangedError
        # Numbers of parameters in an optimizer: thousands, and always the same.
        if set(map(type, value)) == {int} == set(map(type, old)) and value == old:
            return old
        found = [self._value(item, of_item) for item, of_item in zip(value, old, strict=True)]
        return old if all(new is of_item for new, of_item in zip(found, old, strict=True)) else found

    def _tensor(self, tensor: Any, old: Tree) -> None:
        """Find the leaf of `tensor`, which may have other values than before, but nothing else."""
        ref, number, before, address, dtype = next(self._next, _NOWHERE)
        if (
            ref is not old
            or tensor.dtype is not dtype
            or not before.is_set_to(tensor)  # the same memory on the same device, shape and strides
            or tensor.data_ptr() != address  # a storage can get other memory
            or tensor.is_neg()
            or tensor.is_conj()
        ):
            raise _ChangedError
        # Another tensor of the program has a version counter of its own, also over the same memory.
        if tensor is not self._sources[number]:
            self._sources[number] = tensor
            name, kind, type_name, shape, size, _, box = self._leaves[number]
            self._leaves[number] = Leaf._make((name, kind, type_name, shape, size, tensor.detach(), box))

    def _other(self, value: Any, old: Tree) -> Tree:
        """As `_value`, for all other types, and for columns.

        An array takes the place of one of the same form. A byte string may have another size: a buffer grows.
        """
        fresh = Walk()
        try:
            tree = fresh.tree(value, "here")
        except StateError as error:  # a new walk says where it is
            raise _ChangedError from error
        if not fresh.leaves and isinstance(tree, dict) and isinstance(old, dict) and tree.keys() == old.keys():
            return tree
        if not isinstance(tree, dict) or not isinstance(old, dict) or {**tree, "$tensor": old.get("$tensor")} != old:
            raise _ChangedError
        number = self._numbers.get(str(old.get("$tensor")))
        (leaf,) = fresh.leaves
        if number is None or leaf.kind == "torch":
            raise _ChangedError
        before = self._leaves[number]
        if leaf[1:5] != before[1:5] and not leaf.kind == before.kind == "bytes":
            raise _ChangedError
        for memory in fresh.arrays if leaf.size else ():
            if self._met.setdefault(memory, number) != number or self._met.setdefault(number, memory) != memory:
                raise _ChangedError  # two places have the same array now, or have it no more
        self._leaves[number] = leaf._replace(name=before.name)
        return old
