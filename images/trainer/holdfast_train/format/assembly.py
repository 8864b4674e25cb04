"""A manifest from the fragments of all ranks, if these fit together."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast_train.errors import RanksDifferError, StateError
from holdfast_train.format.fragment import Fragment
from holdfast_train.format.manifest import Manifest
from holdfast_train.format.rank_agreement import difference, draw_of
from holdfast_train.format.tree import TensorEntry, names


def check_fragment(draft: Manifest, first: Fragment, other: Fragment) -> None:
    """Check that the fragment of another rank belongs to the same state as the `first` one, of rank 0.

    `draft`: as for `assemble`. StateError if the rank has other tensors than rank 0, RanksDifferError if it has other
    values of what is equal on all ranks.
    """
    named = frozenset(names(draft.state))
    if wrong := _other_tensors(first, other, named):
        raise StateError(
            f"step {draft.step} cannot be saved: rank {other.rank} has {wrong}. The objects given to Run must be the "
            f"same on all ranks, or sharded (DTensor); pass objects that differ as per_rank"
        )
    alike = [entry.name for entry in draft.tensors]
    ours, theirs = (first.objects, first.sums), (other.objects, other.sums)
    if what := difference(ours, theirs, alike, draw_of(draft.name)):
        raise RanksDifferError(
            f"step {draft.step} is not saved: rank {other.rank} has other values of {what!r} than rank 0", what
        )


def _other_tensors(first: Fragment, other: Fragment, named: frozenset[str]) -> str:
    """How the tensors of a rank differ from those of rank 0, whose tree names `named`; empty if they do not."""
    for tensor in other.tensors:
        if tensor.size and tensor.name not in named and not tensor.name.startswith("@"):  # @: per-rank state
            return f"{tensor.name!r}, which rank 0 does not have"
    return "" if other.form == first.form else "other tensors than rank 0, or other types or shapes of them"


def assemble(draft: Manifest, fragments: Sequence[Fragment]) -> Manifest:
    """The manifest of a checkpoint with these `fragments`, one of each rank in order.

    `draft` has the facts that rank 0 knows: all fields but the parts, the tensors that ranks have alone, and the trees
    of the ranks.
    """
    common = tuple(part for f in fragments for part in f.frozen_share)
    common += tuple(part for f in fragments for part in f.share)
    begin = sum(part.size for part in common)
    begins = []
    for fragment in fragments:
        begins.append(begin)
        begin += sum(part.size for part in (*fragment.frozen_own, *fragment.own))
    own = merge_entries([(f.tensors, at) for f, at in zip(fragments, begins, strict=True)])
    return replace(
        draft,
        parts=common + tuple(part for f in fragments for part in (*f.frozen_own, *f.own)),
        tensors=(*draft.tensors, *own),
        ranks=tuple(fragment.tree for fragment in fragments),
    )


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


def _moved(entry: TensorEntry, by: int) -> TensorEntry:
    """The entry with `by` added to all its offsets."""
    return replace(entry, shards=tuple(replace(shard, offset=shard.offset + by) for shard in entry.shards))
