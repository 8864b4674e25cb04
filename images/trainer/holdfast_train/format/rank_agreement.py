"""What is equal on all ranks: how they find it out, and how each save shows that it is still true.

A checkpoint contains once what is equal on all ranks. Of buffers and plain values, those that differ are saved for each
rank. The ranks find out together which ones these are (`compare`), once and after each doubt. Every save checks the
rest: each rank takes checksums of some bytes of its tensors (`Sample`) and of its plain values (`tree_sums`), and the
writer of rank 0 compares them (`difference`).
"""

import ctypes
import hashlib
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast_train.format.names import CheckpointName
from holdfast_train.format.sealed_json import canonical
from holdfast_train.format.tree import Leaf, Tree, names

SAMPLED: Final = 256  # tensors of which one save reads bytes; the next save takes others
WINDOW: Final = 64  # bytes of each
WHOLE_BYTES: Final = 1 << 20  # the largest tensor that `facts_of` reads as a whole
DIGITS: Final = 8  # of a checksum


@dataclass(frozen=True)
class Apart:
    """What is saved for each rank: tensors (`leaves`, by name), and the trees of `objects`, because ranks differ."""

    leaves: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()


ALL_ALIKE: Final = Apart()


@dataclass(frozen=True)
class Facts:
    """What one rank has: a checksum of the plain values of each object, and of each tensor that may differ."""

    objects: Mapping[str, str]
    leaves: Mapping[str, str]


def facts_of(tree: Tree, leaves: Iterable[Leaf]) -> Facts:
    """The facts of this rank. `tree`: of all objects. `leaves`: those that may differ. Waits for their GPUs."""
    return Facts(tree_sums(tree, ALL_ALIKE), {leaf.name: _whole_sum(leaf) for leaf in leaves})


def compare(tree: Tree, facts: Sequence[Facts], doubted: Collection[str] = ()) -> Apart:
    """What differs between the ranks with these `facts`. `tree`: of all objects of one rank.

    `doubted`: objects and tensors of which a save has found other values, where `facts_of` may not have looked.
    """
    first, *others = facts
    leaves = frozenset(
        name
        for name, found in first.leaves.items()
        if name in doubted or any(other.leaves.get(name, found) != found for other in others)
    )
    objects = frozenset(
        name
        for name, of_object in _objects(tree).items()
        if name in doubted
        or any(other.objects.get(name) != first.objects[name] for other in others)
        or not leaves.isdisjoint(names(of_object))
    )
    return Apart(leaves, objects)


def is_own(tree: Tree, apart: Apart) -> Callable[[Leaf], bool]:
    """Whether each rank saves a leaf for itself. `tree`: of all objects of this rank.

    Of an object that is apart, these are also its byte strings: another rank may not have a byte string in that place,
    but a short one, or a container of few values, which are in the tree.
    """
    objects = _objects(tree) if apart.objects else {}
    within = {name for thing, found in objects.items() if thing in apart.objects for name in names(found)}
    return lambda leaf: leaf.name in apart.leaves or (leaf.kind == "bytes" and leaf.name in within)


def apart_trees(tree: Tree, apart: Apart, by: Mapping[str, str]) -> Tree:
    """The trees of the objects that are apart, with the names `by` for this rank's own tensors."""
    return {"$dict": [[name, renamed(found, by)] for name, found in _objects(tree).items() if name in apart.objects]}


def tree_sums(tree: Tree, apart: Apart) -> dict[str, str]:
    """A checksum of the plain values of each object in `tree` that is not `apart`."""
    return {name: _tree_sum(found) for name, found in _objects(tree).items() if name not in apart.objects}


def difference(
    mine: tuple[Mapping[str, str], str], others: tuple[Mapping[str, str], str], tensors: Sequence[str], draw: int
) -> str:
    """The first object or tensor of which another rank has other values than rank 0; empty if none is found.

    `mine` and `others`: `tree_sums` and `Sample.sums` of rank 0 and of the other rank. `tensors`: the names of those
    that were sampled with `draw`.
    """
    for name, found in mine[0].items():
        if others[0].get(name, found) != found:
            return name
    for number, leaf in enumerate(_chosen(len(tensors), draw)):
        part = slice(number * DIGITS, (number + 1) * DIGITS)
        if mine[1][part] != others[1][part]:
            return tensors[leaf]
    return ""


def byte_sums(leaves: Iterable[Leaf]) -> dict[str, str]:
    """A checksum of each byte string among `leaves`. Rank 0 alone saves them, so no `Sample` has them."""
    return {leaf.name: _whole_sum(leaf) for leaf in leaves if leaf.kind == "bytes"}


def renamed(tree: Tree, by: Mapping[str, str]) -> Tree:
    """`tree` with the names `by` for its tensors. A name that `by` lacks stays."""
    if isinstance(tree, list):
        return [renamed(item, by) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if isinstance(name := tree.get("$tensor"), str):
        return {**tree, "$tensor": by.get(name, name)}
    return {key: renamed(item, by) for key, item in tree.items()}


def _objects(tree: Tree) -> dict[str, Tree]:
    """The trees of the objects that Run was given, by their names."""
    body: Any = tree or {"$dict": []}  # without objects there is no tree
    return {name: found for key, objects in body["$dict"] if key == "objects" for name, found in objects["$dict"]}


def _tree_sum(tree: Tree) -> str:
    """Names of tensors do not count: of tied tensors, ranks with empty shards may take another name."""
    plain = renamed(tree, dict.fromkeys(names(tree), ""))
    return hashlib.blake2b(canonical(plain), digest_size=DIGITS // 2).hexdigest()


def _whole_sum(leaf: Leaf) -> str:
    """A checksum of a whole tensor or byte string, of a large tensor of its beginning."""
    data = leaf.value
    if leaf.kind == "bytes":
        return f"{zlib.crc32(data):08x}"
    if leaf.kind == "torch":
        torch: Any = sys.modules["torch"]
        data = data.reshape(-1)[: max(1, WHOLE_BYTES // data.itemsize)].contiguous().cpu().view(torch.uint8).numpy()
    return f"{zlib.crc32(data[:WHOLE_BYTES].tobytes()):08x}"


def draw_of(name: CheckpointName) -> int:
    """A number that is new for each save, and the same on all ranks. A step would not do: every tenth step is even."""
    return zlib.crc32(str(name).encode())


def _chosen(count: int, draw: int) -> range:
    """Which of `count` tensors a save samples: at most SAMPLED, the same on all ranks."""
    stride = -(-count // SAMPLED) or 1
    return range(draw % stride, count, stride)


class Sample:
    """Checksums of some bytes of some of the tensors `leaves`, as they are when this object is made.

    `draw`: `draw_of` the save. Nothing waits for a GPU before `sums`.
    """

    def __init__(self, leaves: Sequence[Leaf], draw: int) -> None:
        self._pieces: list[bytes | tuple[Any, int, int]] = []
        self._draw = draw
        far: dict[Any, list[Any]] = {}  # pieces of tensors, by their device
        for number in _chosen(len(leaves), draw):
            leaf = leaves[number]
            if leaf.kind == "numpy" or (leaf.value.device.type == "cpu" and leaf.value.is_contiguous()):
                self._pieces.append(self._read(leaf))
            else:
                piece = self._cut(leaf.value)
                pieces = far.setdefault(piece.device, [])
                self._pieces.append((piece.device, sum(map(len, pieces)), len(piece)))
                pieces.append(piece)
        self._copies = {device: HostCopy(pieces) for device, pieces in far.items()}

    def sums(self) -> str:
        """The checksums, one after the other. Waits for GPUs that have not come to the sample yet."""
        arrived = {device: copy.wait() for device, copy in self._copies.items()}
        found = ""
        for place in self._pieces:
            if isinstance(place, bytes):
                piece = place
            else:
                device, at, size = place
                piece = arrived[device][at : at + size]
            found += f"{zlib.crc32(piece):08x}"
        return found

    def _place(self, size: int, window: int) -> int:
        """Where the window begins: at another place in the next save."""
        return self._draw * window % max(1, size - window + 1)

    def _read(self, leaf: Leaf) -> bytes:
        window = min(WINDOW, leaf.size)
        address = leaf.value.ctypes.data if leaf.kind == "numpy" else leaf.value.data_ptr()
        return ctypes.string_at(address + self._place(leaf.size, window), window) if window else b""

    def _cut(self, tensor: Any) -> Any:
        """Bytes of one row of `tensor`, on its device: a copy of a whole tensor would take memory and time."""
        torch: Any = sys.modules["torch"]
        while tensor.dim() > 1 and tensor.numel():
            tensor = tensor[self._draw % tensor.shape[0]]
        flat = tensor.reshape(-1)
        window = min(max(1, WINDOW // tensor.itemsize), len(flat))
        start = self._place(len(flat), window)
        return flat[start : start + window].clone().view(torch.uint8)


class HostCopy:
    """A copy of `pieces` of bytes on one device to the CPU, in the order of the current stream of that device."""

    def __init__(self, pieces: Collection[Any]) -> None:
        torch: Any = sys.modules["torch"]
        joined = torch.cat(list(pieces))
        self._event: Any = None
        if joined.is_cuda:
            self._bytes = torch.empty(len(joined), dtype=torch.uint8, pin_memory=True)
            self._bytes.copy_(joined, non_blocking=True)
            self._event = torch.cuda.current_stream(joined.device).record_event()
        else:
            self._bytes = joined.cpu()

    def wait(self) -> bytes:
        """The bytes, once they have arrived."""
        if self._event is not None:
            self._event.synchronize()
        return bytes(self._bytes.numpy())
