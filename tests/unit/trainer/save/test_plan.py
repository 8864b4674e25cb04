"""What each rank copies: together the ranks copy every byte once."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast_train.format.tree import Leaf
from holdfast_train.save.plan import GRAIN, make_plan

sizes = st.lists(st.integers(0, 20_000), max_size=12)


def leaves(sizes: list[int], prefix: str = "t") -> list[Leaf]:
    return [Leaf(f"{prefix}{number}", "numpy", "|u1", (size,), size, None) for number, size in enumerate(sizes)]


@given(sizes, sizes, st.integers(1, 5))
def test_the_ranks_together_write_every_byte_once(replicated: list[int], own: list[int], ranks: int) -> None:
    common, mine = leaves(replicated), leaves(own, "own")
    plans = [make_plan([*common, *mine], len(common), rank, ranks) for rank in range(ranks)]
    written: dict[int, list[tuple[int, int]]] = {}
    for made in plans:
        used: list[tuple[int, int]] = []
        for copy in made.copies:
            if copy.leaf < len(common):
                written.setdefault(copy.leaf, []).append((copy.start, copy.stop))
            else:
                assert (copy.start, copy.stop) == (0, own[copy.leaf - len(common)])
            used.append((copy.at, copy.at + copy.stop - copy.start))
        assert used == sorted(used)
        assert all(before[1] <= after[0] for before, after in pairwise(used))
        assert all(stop <= made.size for _, stop in used)
        assert made.share % GRAIN == made.size % GRAIN == 0  # as direct writes to a disk require
    for number, size in enumerate(replicated):
        edges = sorted(written.get(number, []))
        assert [edge[0] for edge in edges] == [0, *(edge[1] for edge in edges)][:-1] if size else not edges
        assert sum(stop - start for start, stop in edges) == size


@given(sizes, st.integers(1, 5))
def test_shares_end_to_end_are_the_common_stream(replicated: list[int], ranks: int) -> None:
    """Offsets of tensors count through the shares of all ranks in order. Shares differ by two grains at most."""
    plans = [make_plan(leaves(replicated), len(replicated), rank, ranks) for rank in range(ranks)]
    ends = [entry.shards[0].offset + entry.size for entry in plans[0].common]
    assert sum(made.share for made in plans) >= max(ends, default=0)
    assert max(made.share for made in plans) - min(made.share for made in plans) <= 2 * GRAIN
    assert all(made.common == plans[0].common for made in plans)
    begin = 0
    for made in plans:
        for copy in made.copies:
            assert plans[0].common[copy.leaf].shards[0].offset + copy.start == begin + copy.at
        begin += made.share


@given(sizes, st.sets(st.integers(0, 11)), st.integers(0, 12), st.integers(1, 5))
def test_frozen_tensors_come_first_and_can_be_left_out(
    all_sizes: list[int], frozen: set[int], alike: int, ranks: int
) -> None:
    """Offsets of tensors count through the frozen shares of all ranks, the other shares, and each rank's own bytes."""
    made = leaves(all_sizes)
    alike = min(alike, len(made))
    for plan in (make_plan(made, alike, rank, ranks, frozen) for rank in range(ranks)):
        light = plan.without_frozen
        assert (light.common, light.own_tensors, light.form) == (plan.common, plan.own_tensors, plan.form)
        assert light.size == plan.size - plan.frozen == sum(light.sections)
        assert light.frozen_copies == ()
        assert [(c.leaf, c.at + plan.frozen) for c in light.copies] == [
            (c.leaf, c.at) for c in plan.copies if c not in plan.frozen_copies
        ]
        assert {c.leaf for c in plan.frozen_copies} <= frozen
        assert not frozen & {c.leaf for c in light.copies}
        assert all(size % GRAIN == 0 for size in plan.sections)
        own = {entry.name: entry.shards[0].offset for entry in plan.own_tensors}
        for copy in plan.copies:
            if copy.leaf >= alike:
                before = plan.frozen_share if copy in plan.frozen_copies else plan.frozen_share + plan.share
                assert copy.at == before + own[made[copy.leaf].name]


def test_byte_strings_that_all_ranks_have_are_written_by_rank_0_alone() -> None:
    blob = Leaf("blob", "bytes", "uint8", (9000,), 9000, b"x" * 9000)
    first, second = (make_plan([blob], 1, rank, 2) for rank in range(2))
    assert [(c.start, c.stop) for c in first.copies] == [(0, 9000)]
    assert [entry.name for entry in first.own_tensors] == ["blob"]
    assert (second.copies, second.own_tensors, second.size) == ((), (), 0)
    assert first.form == second.form
