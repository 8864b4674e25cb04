"""Where the bytes of a state go: what each rank copies into its arena, and where it lies in the checkpoint's data.

Replicated state, the same on all ranks (everything but shards), is one stream of bytes that is cut evenly: each of N
ranks copies and uploads 1/N. After it comes what a rank has alone: its shards and its per-rank state.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from holdfast_train.format.sealed_json import canonical
from holdfast_train.format.tree import Leaf, Shard, TensorEntry
from holdfast_train.save.arena import ALIGNMENT

__all__ = ["Copy", "Plan", "make_plan", "merge_entries"]

GRAIN: Final = 4096  # bytes: streams are cut at, and padded to, multiples of it, as direct disk writes require


@dataclass(frozen=True)
class Copy:
    """Bytes `start` to `stop` of leaf number `leaf` go to offset `at` in the arena."""

    leaf: int
    at: int
    start: int
    stop: int


@dataclass(frozen=True)
class Plan:
    """What one of `ranks` ranks saves. The arena contains its `share` of the common stream, then its `own` bytes.

    `common` and `own_tensors` say where tensors lie: in the common stream, and from the start of the own bytes.
    """

    rank: int
    ranks: int
    copies: tuple[Copy, ...]
    share: int
    own: int
    common: tuple[TensorEntry, ...]
    own_tensors: tuple[TensorEntry, ...]

    @property
    def size(self) -> int:
        """Bytes in the arena."""
        return self.share + self.own

    @cached_property
    def form(self) -> str:
        """A hash of the tensors in the common stream. If two ranks differ in it, they do not save the same state."""
        return hashlib.sha256(canonical({"ranks": self.ranks, "common": self.common})).hexdigest()


def make_plan(leaves: Sequence[Leaf], replicated: int, rank: int, ranks: int) -> Plan:
    """The plan for `leaves`, the first `replicated` of which are the same on all ranks unless they are shards."""
    common: list[TensorEntry] = []
    own: list[TensorEntry] = []
    of_common: list[tuple[int, int]] = []  # (leaf, offset in the common stream)
    of_own: list[tuple[int, int]] = []
    common_size = own_size = 0
    for number, leaf in enumerate(leaves):
        if number < replicated and leaf.box is None:
            common.append(_entry(leaf, common_size))
            of_common.append((number, common_size))
            common_size = _aligned(common_size + leaf.size)
        else:
            own.append(_entry(leaf, own_size))
            of_own.append((number, own_size))
            own_size = _aligned(own_size + leaf.size)
    first, last = _slice(common_size, rank, ranks)
    copies = []
    for number, offset in of_common:
        start, stop = max(first - offset, 0), min(last - offset, leaves[number].size)
        if start < stop:
            copies.append(Copy(number, offset + start - first, start, stop))
    share = last - first
    copies += [Copy(number, share + offset, 0, leaves[number].size) for number, offset in of_own if leaves[number].size]
    return Plan(rank, ranks, tuple(copies), share, _aligned(own_size, GRAIN), tuple(common), tuple(own))


def _slice(size: int, rank: int, ranks: int) -> tuple[int, int]:
    """The bytes of the common stream that `rank` saves."""
    grains = -(-size // GRAIN)
    return grains * rank // ranks * GRAIN, grains * (rank + 1) // ranks * GRAIN


def _aligned(size: int, to: int = ALIGNMENT) -> int:
    return -(-size // to) * to


def _entry(leaf: Leaf, offset: int) -> TensorEntry:
    shard = Shard(offset, leaf.size, leaf.start, leaf.extent)
    return TensorEntry(leaf.name, leaf.kind, leaf.dtype, leaf.shape, (shard,))


def _moved(entry: TensorEntry, by: int) -> TensorEntry:
    """The entry with `by` added to all its offsets."""
    return replace(entry, shards=tuple(replace(shard, offset=shard.offset + by) for shard in entry.shards))


def merge_entries(ranks: Sequence[tuple[Sequence[TensorEntry], int]]) -> list[TensorEntry]:
    """The own tensors of all ranks in one list; the shards of one tensor become one entry.

    `ranks`: the tensors of each rank, and where its own bytes begin in the checkpoint's data.
    """
    found: dict[str, TensorEntry] = {}
    for entries, begin in ranks:
        for entry in entries:
            here = _moved(entry, begin)
            known = found.get(entry.name)
            found[entry.name] = here if known is None else replace(known, shards=(*known.shards, *here.shards))
    return list(found.values())
