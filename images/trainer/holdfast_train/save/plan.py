"""Where the bytes of a state go: what each rank copies into its arena, and where it lies in the checkpoint's data.

Replicated state, the same on all ranks (everything but shards), is one stream of bytes that is cut evenly: each of N
ranks copies and uploads 1/N. After it comes what a rank has alone: its shards and its per-rank state. Each of the two
begins with its frozen tensors, which get parts of their own: a later checkpoint names these parts again.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from holdfast_train.format.sealed_json import canonical
from holdfast_train.format.tree import Leaf, Shard, TensorEntry
from holdfast_train.save.arena import ALIGNMENT

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
    """What one of `ranks` ranks saves.

    The arena contains four sections: the rank's share of the frozen and its own frozen bytes, then its share of the
    rest of the common stream and the rest of its own bytes. If `keeps` is True, the frozen ones are not in the arena:
    an earlier save of this rank has uploaded the same bytes.

    `common` and `own_tensors` say where tensors lie: in the common stream, and from the start of the own bytes. Both
    streams begin with the frozen bytes, also if `keeps` is True.
    """

    rank: int
    ranks: int
    copies: tuple[Copy, ...]
    share: int
    own: int
    common: tuple[TensorEntry, ...]
    own_tensors: tuple[TensorEntry, ...]
    frozen_share: int = 0
    frozen_own: int = 0
    keeps: bool = False

    @property
    def frozen(self) -> int:
        """Bytes of this rank that belong to frozen tensors."""
        return self.frozen_share + self.frozen_own

    @property
    def sections(self) -> tuple[int, int, int, int]:
        """Bytes of the four sections in the arena."""
        frozen = (0, 0) if self.keeps else (self.frozen_share, self.frozen_own)
        return (*frozen, self.share, self.own)

    @property
    def size(self) -> int:
        """Bytes in the arena."""
        return sum(self.sections)

    @property
    def frozen_copies(self) -> tuple[Copy, ...]:
        """The copies of frozen bytes. Empty if `keeps` is True."""
        return tuple(copy for copy in self.copies if not self.keeps and copy.at < self.frozen)

    def common_of(self, leaves: Iterable[Leaf]) -> list[Leaf]:
        """Those of `leaves` that are in the common stream, in its order, which is the same on all ranks."""
        by_name = {leaf.name: leaf for leaf in leaves}
        return [by_name[entry.name] for entry in self.common]

    @cached_property
    def without_frozen(self) -> "Plan":
        """The same plan for a save that keeps the frozen bytes of an earlier one."""
        rest = tuple(replace(copy, at=copy.at - self.frozen) for copy in self.copies if copy.at >= self.frozen)
        return replace(self, copies=rest, keeps=True)

    @cached_property
    def form(self) -> str:
        """A hash of the tensors in the common stream. If two ranks differ in it, they do not save the same state."""
        return hashlib.sha256(canonical({"ranks": self.ranks, "common": self.common})).hexdigest()


def make_plan(
    leaves: Sequence[Leaf], replicated: int, rank: int, ranks: int, frozen: Collection[int] = frozenset()
) -> Plan:
    """The plan for `leaves`, the first `replicated` of which are the same on all ranks unless they are shards.

    Byte strings are an exception: rank 0 writes them alone. Nothing promises that they are equal on all ranks, as two
    pickles of one object need not be, and a mixture of them could not be read.

    `frozen`: numbers of the leaves that no step of training changes.
    """
    common, own = _Stream(), _Stream()
    alike = [n for n, leaf in enumerate(leaves[:replicated]) if leaf.box is None and leaf.kind != "bytes"]
    alone = [
        n
        for n, leaf in enumerate(leaves)
        if n >= replicated or leaf.box is not None or (leaf.kind == "bytes" and rank == 0)
    ]
    for numbers, stream in ((alike, common), (alone, own)):
        stream.add(leaves, [n for n in numbers if n in frozen])
        stream.end_frozen()
        stream.add(leaves, [n for n in numbers if n not in frozen])
    whole = common.frozen, _aligned(common.size, GRAIN) - common.frozen
    of_frozen, of_rest = (_slice(size, rank, ranks) for size in whole)
    shares = (of_frozen[1] - of_frozen[0], of_rest[1] - of_rest[0])
    frozen_size = shares[0] + own.frozen
    copies = [
        *_cut(leaves, common.placed, of_frozen, 0),
        *_cut(leaves, own.placed, (0, own.frozen), shares[0]),
        *_cut(leaves, common.placed, (common.frozen + of_rest[0], common.frozen + of_rest[1]), frozen_size),
        *_cut(leaves, own.placed, (own.frozen, own.size), frozen_size + shares[1]),
    ]
    return Plan(
        rank,
        ranks,
        tuple(copies),
        shares[1],
        _aligned(own.size, GRAIN) - own.frozen,
        tuple(common.entries),
        tuple(own.entries),
        frozen_share=shares[0],
        frozen_own=own.frozen,
    )


class _Stream:
    """Tensors one after the other. `placed`: number and offset of each leaf; `frozen`: bytes before the rest."""

    def __init__(self) -> None:
        self.entries: list[TensorEntry] = []
        self.placed: list[tuple[int, int]] = []
        self.size = self.frozen = 0

    def add(self, leaves: Sequence[Leaf], numbers: Sequence[int]) -> None:
        """Append the leaves with these numbers."""
        for number in numbers:
            self.entries.append(_entry(leaves[number], self.size))
            self.placed.append((number, self.size))
            self.size = _aligned(self.size + leaves[number].size)

    def end_frozen(self) -> None:
        """All frozen leaves are in the stream: what follows begins at a grain."""
        self.size = self.frozen = _aligned(self.size, GRAIN)


def _cut(leaves: Sequence[Leaf], placed: Sequence[tuple[int, int]], part: tuple[int, int], at: int) -> list[Copy]:
    """The copies of the bytes from `part[0]` to `part[1]` of a stream to offset `at` of the arena."""
    found = []
    for number, offset in placed:
        start, stop = max(part[0] - offset, 0), min(part[1] - offset, leaves[number].size)
        if start < stop:
            found.append(Copy(number, at + offset + start - part[0], start, stop))
    return found


def _slice(size: int, rank: int, ranks: int) -> tuple[int, int]:
    """The bytes of the common stream that `rank` saves."""
    grains = -(-size // GRAIN)
    return grains * rank // ranks * GRAIN, grains * (rank + 1) // ranks * GRAIN


def _aligned(size: int, to: int = ALIGNMENT) -> int:
    return -(-size // to) * to


def _entry(leaf: Leaf, offset: int) -> TensorEntry:
    shard = Shard(offset, leaf.size, leaf.start, leaf.extent)
    return TensorEntry(leaf.name, leaf.kind, leaf.dtype, leaf.shape, (shard,))
