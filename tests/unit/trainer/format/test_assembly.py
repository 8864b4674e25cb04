"""A manifest from the fragments of all ranks."""

from dataclasses import replace

import pytest

from holdfast_train.errors import RanksDifferError, StateError
from holdfast_train.format.assembly import assemble, check_fragment, merge_entries
from holdfast_train.format.fragment import Fragment
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.tree import Leaf, Shard, TensorEntry
from holdfast_train.save.plan import make_plan

NAME = CheckpointName(9, 2, "aa")
COMMON = TensorEntry("w", "torch", "float32", (8,), (Shard(0, 32, (0,), (8,)),))
DRAFT = Manifest(NAME, 9, 2, "uid", "2026-01-01T00:00:00+00:00", {}, {}, {}, (), (COMMON,), {"$dict": []}, ())


def part(rank: int, number: int, size: int) -> Part:
    return Part(NAME.part_key(rank, number), size, 4, ("a",))


def fragment(rank: int) -> Fragment:
    own = (TensorEntry(f"@{rank}/x", "torch", "float32", (2,), (Shard(0, 8, (0,), (2,)),)),)
    return Fragment(rank, "form", share=(part(rank, 0, 16),), own=(part(rank, 1, 8),), tensors=own, tree={"r": rank})


def test_common_parts_come_first_and_then_those_of_each_rank() -> None:
    found = assemble(DRAFT, [fragment(0), fragment(1)])
    keys = [NAME.part_key(rank, number) for rank, number in ((0, 0), (1, 0), (0, 1), (1, 1))]
    assert [one.key for one in found.parts] == keys
    assert [(entry.name, entry.shards[0].offset) for entry in found.tensors] == [("w", 0), ("@0/x", 32), ("@1/x", 40)]
    assert found.ranks == ({"r": 0}, {"r": 1})
    assert replace(found, parts=(), tensors=(COMMON,), ranks=()) == DRAFT


def test_fragments_that_belong_together() -> None:
    check_fragment(DRAFT, fragment(0), fragment(1))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(fragment(1), form="another"), "rank 1 has other tensors than rank 0"),
        (
            replace(fragment(1), tensors=(replace(fragment(1).tensors[0], name="extra"),)),
            "rank 1 has 'extra', which rank 0 does not have",
        ),
    ],
)
def test_other_tensors_are_refused(other: Fragment, words: str) -> None:
    with pytest.raises(StateError, match=words):
        check_fragment(DRAFT, fragment(0), other)


def test_other_values_are_refused() -> None:
    with pytest.raises(RanksDifferError, match="rank 1 has other values of 'model'") as caught:
        check_fragment(
            DRAFT, replace(fragment(0), objects={"model": "1"}), replace(fragment(1), objects={"model": "2"})
        )
    assert caught.value.what == "model"


def test_shards_of_one_tensor_become_one_entry() -> None:
    boxes = [((0, 0), (2, 3)), ((2, 0), (1, 3))]
    entries = []
    for number, box in enumerate(boxes):
        leaf = Leaf("w", "torch", "float32", (3, 3), 4 * 3 * box[1][0], None, box)
        entries.append((make_plan([leaf], 1, number, 2).own_tensors, 1000 * number))
    (entry,) = merge_entries(entries)
    assert (entry.shape, entry.size) == ((3, 3), 36)
    assert [(s.offset, s.start, s.shape) for s in entry.shards] == [(0, (0, 0), (2, 3)), (1000, (2, 0), (1, 3))]
