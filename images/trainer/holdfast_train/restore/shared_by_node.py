"""Memory that the ranks of one node share while they restore: each reads a part of the state, and all have the whole.

Alone, each rank reads and keeps everything that is equal on all ranks: eight copies on a node with eight ranks. Here
the node has one copy, in a file in memory that its first rank makes and the others open through /proc. Each rank reads
and checks its part. When all have read, each rank maps the file privately: the ranks share its pages until one of them
writes to a page, and that one then has its own. So a program may keep a tensor of the state and change it.
"""

import importlib
import mmap
import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast_train.format.manifest import Manifest
from holdfast_train.format.numpy_types import numpy_type
from holdfast_train.format.sharding import Box
from holdfast_train.memory_file import memory_file
from holdfast_train.ranks import Ranks
from holdfast_train.restore.chunk_reader import NOTHING, Held
from holdfast_train.restore.lazy_tensors import Filling, Lazy
from holdfast_train.say import say
from holdfast_train.storage.base import Storage

ALIGNMENT: Final = 64  # bytes: tensors start at multiples of it, as vector instructions prefer
SEGMENT_BYTES: Final = 64 << 20  # of one private mapping: it stays as long as the program keeps one of its tensors
_Key: TypeAlias = tuple[str, Box]


class _Place(NamedTuple):
    """A tensor at `offset` of the file; `before`: bytes of the tensors before it."""

    lazy: Lazy
    offset: int
    before: int


@dataclass(frozen=True)
class Layout:
    """Where in the file the tensors lie that every rank wants whole. `segments`: offsets at which mappings begin."""

    places: tuple[_Place, ...]
    segments: tuple[int, ...]
    size: int
    total: int

    @classmethod
    def of(cls, wanted: Iterable[Lazy]) -> "Layout":
        """For those of `wanted` of which no rank wants a part alone. The same on all ranks with the same objects."""
        whole = {lazy.key: lazy for lazy in wanted if lazy.like is None and lazy.entry.size}
        places, segments, offset, before = [], [0], 0, 0
        for lazy in sorted(whole.values(), key=lambda lazy: lazy.entry.shards[0].offset):
            if offset - segments[-1] >= SEGMENT_BYTES:
                offset = -(-offset // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
                segments.append(offset)
            places.append(_Place(lazy, offset, before))
            before += lazy.entry.size
            offset = -(-(offset + lazy.entry.size) // ALIGNMENT) * ALIGNMENT
        return cls(tuple(places), tuple(segments), offset, before)


class NodeSharing:
    """The ranks of this node. All ranks create it together, and call `open` together."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        nodes = [_node(ranks.rank)] if ranks.size == 1 else ranks.share(ranks.gather(_node(ranks.rank)))
        self._of_node = [rank for rank, node in enumerate(nodes) if ranks.size == 1 or node == nodes[ranks.rank]]
        self._anywhere = len(set(nodes)) < len(nodes)  # True if any node has several ranks

    @property
    def count(self) -> int:
        """The ranks of this node."""
        return len(self._of_node)

    def open(self, layout: Layout | None) -> "SharedState | None":
        """The memory for `layout`. None if each rank has to read for itself: it is alone, or they cannot share memory.

        `layout`: None if this rank cannot restore; then nobody on its node can share.
        """
        if not self._anywhere:
            return None
        several, size = len(self._of_node) > 1, 0 if layout is None else layout.size
        is_first = self._of_node[0] == self._ranks.rank
        descriptor = _new_file(size) if several and is_first and size else None
        offers = self._ranks.share(self._ranks.gather((size, os.getpid(), descriptor)))
        if several and not is_first and size:
            descriptor = _open_file(size, *offers[self._of_node[0]])
        opened = self._ranks.share(self._ranks.gather(descriptor is not None))
        if layout is not None and descriptor is not None and all(opened[rank] for rank in self._of_node):
            return SharedState(descriptor, layout, self._of_node.index(self._ranks.rank), len(self._of_node))
        if descriptor is not None:
            os.close(descriptor)
        if several and is_first and size:
            say("the ranks of this node cannot share memory: each reads the whole state for itself")
        return None


def _node(rank: int) -> object:
    """Equal for ranks that can open each other's files through /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return boot, Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return rank


def _new_file(size: int) -> int | None:
    try:
        descriptor = memory_file("holdfast-restore")
    except OSError:
        return None
    os.ftruncate(descriptor, size)
    return descriptor


def _open_file(size: int, its_size: int, process: int, descriptor: int | None) -> int | None:
    """The file `descriptor` of another process. None if it is of another size, or the kernel does not allow it."""
    if descriptor is None or size != its_size:
        return None
    try:
        return os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


class SharedState:
    """One restore in the memory of a node. This rank is number `index` of `count`."""

    def __init__(self, descriptor: int, layout: Layout, index: int, count: int) -> None:
        self._descriptor = descriptor
        self._layout = layout
        self._low, self._high = (layout.total * number // count for number in (index, index + 1))
        self._keys = {place.lazy.key for place in layout.places}

    def __contains__(self, key: _Key) -> bool:
        return key in self._keys

    def fill(self, storage: Storage, found: Manifest, held: Held = NOTHING) -> None:
        """Read this rank's part of the state. `held` and errors: see `chunk_reader.read`."""
        memory = mmap.mmap(self._descriptor, self._layout.size)
        filling, arrays = Filling(), []
        for place in self._layout.places:
            entry = place.lazy.entry
            rows = entry.shape[0] if entry.shape else 1
            first, last = (_row(bound - place.before, entry.size // rows, rows) for bound in (self._low, self._high))
            if first == last:
                continue
            array = _array(place.lazy, memory, place.offset)
            if not entry.shape:
                filling.add(place.lazy, array)
            else:
                array = array[first:last]
                start = (first, *(0,) * (len(entry.shape) - 1))
                filling.add_box(entry, (start, (last - first, *entry.shape[1:])), array)
            arrays.append(array)  # it must outlive the reading
        filling.run(storage, found, held=held)

    def take(self, kept: Collection[_Key] = ()) -> Mapping[_Key, Any]:
        """The tensors, arrays and byte strings. Call it once, when all ranks of the node have filled their parts.

        `kept`: tensors that the program keeps, so they get memory of their own now. Later the program may have views of
        them, which would stay behind.
        """
        bounds = [*self._layout.segments, self._layout.size]
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        maps = [
            mmap.mmap(self._descriptor, stop - start, flags=mmap.MAP_PRIVATE, prot=protection, offset=start)
            for start, stop in pairwise(bounds)
        ]
        self.close()
        made = {}
        for place in self._layout.places:
            segment = bisect_right(self._layout.segments, place.offset) - 1
            array = _array(place.lazy, maps[segment], place.offset - self._layout.segments[segment])
            if place.lazy.entry.kind == "torch":
                array = array.clone() if place.lazy.key in kept else array
            else:
                array = bytes(array) if place.lazy.entry.kind == "bytes" else array.copy()
            made[place.lazy.key] = array
        return made

    def close(self) -> None:
        """Close the file. Mappings of it stay."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _row(offset: int, size: int, rows: int) -> int:
    """The row of a tensor that is nearest to the byte at `offset`."""
    return min(max((offset + size // 2) // size, 0), rows)


def _array(lazy: Lazy, memory: mmap.mmap, offset: int) -> Any:
    """The tensor, the array or the bytes at `offset` of `memory`."""
    entry = lazy.entry
    if entry.kind == "bytes":
        return memoryview(memory)[offset : offset + entry.size]
    module = importlib.import_module(entry.kind)
    if entry.kind == "numpy":
        return module.ndarray(entry.shape, numpy_type(entry.dtype), buffer=memory, offset=offset)
    dtype = getattr(module, entry.dtype)
    count = entry.size // dtype.itemsize
    # Not a view of a flat tensor: each tensor has a storage of its own, as before the save.
    return module.frombuffer(memory, dtype=dtype, count=count, offset=offset).resize_(entry.shape)
