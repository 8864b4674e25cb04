"""What ranks have alike is found out together, and a save notices when it is alike no more."""

from typing import Any

import numpy as np
import pytest
import torch

from holdfast_train.format.names import CheckpointName
from holdfast_train.format.rank_agreement import (
    ALL_ALIKE,
    SAMPLED,
    Apart,
    Sample,
    byte_sums,
    compare,
    difference,
    draw_of,
    facts_of,
    tree_sums,
)
from holdfast_train.format.tree import Leaf, Tree, Walk


def leaves(*values: Any) -> list[Leaf]:
    walk = Walk()
    walk.tree(dict(enumerate(values)), "t")
    return walk.leaves


def found(mine: list[Leaf], other: list[Leaf], step: int = 1) -> str:
    """The first tensor in which a save of `step` sees a difference."""
    names = [leaf.name for leaf in mine]
    return difference(({}, Sample(mine, step).sums()), ({}, Sample(other, step).sums()), names, step)


def changed(value: Any) -> Any:
    return value + 1 if isinstance(value, np.ndarray) or value.dtype != torch.bool else ~value


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(()),
        torch.zeros(1000),
        torch.zeros(30, 50).t(),
        torch.zeros(4, 5, 6)[:, ::2],
        torch.zeros(7, dtype=torch.bool),
        torch.zeros(9, dtype=torch.bfloat16),
        torch.zeros(9, dtype=torch.complex64),
        np.zeros((3, 4)),
    ],
    ids=str,
)
def test_a_sample_sees_other_values(value: Any) -> None:
    for step in (0, 1, 7, 100_003):
        assert found(leaves(value), leaves(value), step) == ""
        assert found(leaves(torch.ones(3), value), leaves(torch.ones(3), changed(value)), step) == "t/1"


def test_empty_tensors_are_alike() -> None:
    assert found(leaves(torch.zeros(0), torch.zeros(3, 0)), leaves(torch.zeros(0), torch.zeros(3, 0))) == ""


def test_of_many_tensors_some_are_sampled_and_later_saves_take_the_others() -> None:
    """Breaks if a save of a hundred thousand tensors reads them all, or if some are never read."""
    mine = [torch.full((2,), float(number)) for number in range(3 * SAMPLED)]
    other = [*mine[:-1], mine[-1] + 1]
    seen = [found(leaves(*mine), leaves(*other), step) for step in range(3)]
    assert len(Sample(leaves(*mine), 1).sums()) == 8 * SAMPLED
    assert sorted(seen) == ["", "", f"t/{3 * SAMPLED - 1}"]


def test_saves_of_every_hundredth_step_sample_all_tensors_in_time() -> None:
    """Breaks if the step alone decides what is sampled: saves at even steps would see half of the tensors."""
    mine = [torch.full((2,), float(number)) for number in range(2 * SAMPLED)]
    draws = [draw_of(CheckpointName(step, 1, f"{step * 7919:08x}")) for step in range(100, 4000, 100)]
    for wrong in (0, 1):
        other = [*mine[:wrong], mine[wrong] + 1, *mine[wrong + 1 :]]
        assert f"t/{wrong}" in {found(leaves(*mine), leaves(*other), draw) for draw in draws}


def test_byte_strings_have_a_checksum_of_their_own() -> None:
    """Rank 0 alone saves them: without it the other ranks would get those of rank 0 without a word."""
    mine, other = (byte_sums(leaves(torch.zeros(2), bytes([value]) * 5000)) for value in (1, 2))
    assert difference((mine, ""), (other, ""), [], 0) == "t/1"
    assert difference((mine, ""), (mine, ""), [], 0) == ""


def test_a_sample_is_of_the_moment_in_which_it_is_made() -> None:
    """Training goes on before the writer gets the checksums."""
    value = torch.zeros(5)
    before, sample = Sample(leaves(value), 1).sums(), Sample(leaves(value), 1)
    value += 1
    assert sample.sums() == before


def objects(**state: Any) -> tuple[Tree, list[Leaf]]:
    walk = Walk()
    return {"$dict": [["objects", walk.tree(state, "")]]}, walk.leaves


def apart(*ranks: dict[str, Any], doubted: tuple[str, ...] = ()) -> Apart:
    made = [objects(**state) for state in ranks]
    return compare(made[0][0], [facts_of(*one) for one in made], doubted)


@pytest.mark.parametrize("size", [3, 3_000_000])
def test_a_tensor_that_differs_is_apart_with_its_object(size: int) -> None:
    ranks = [
        {"model": {"mean": torch.full((size,), float(rank)), "same": torch.ones(2)}, "lr": {"x": 1}}
        for rank in (0, 0, 1)
    ]
    assert apart(*ranks) == Apart(frozenset({"model/mean"}), frozenset({"model"}))


def test_an_object_whose_plain_values_differ_is_apart() -> None:
    assert apart({"a": {"x": 1}, "b": {"y": [2]}}, {"a": {"x": 1}, "b": {"y": [3]}}) == Apart(objects=frozenset({"b"}))


def test_what_is_alike_is_not_apart() -> None:
    state = {"a": {"x": torch.ones(3)}, "b": {"y": float("nan")}}
    assert apart(state, state) == ALL_ALIKE


@pytest.mark.parametrize(
    ("doubted", "wanted"),
    [("a/x", Apart(frozenset({"a/x"}), frozenset({"a"}))), ("b", Apart(objects=frozenset({"b"})))],
)
def test_what_a_save_has_found_to_differ_is_apart(doubted: str, wanted: Apart) -> None:
    state = {"a": {"x": torch.ones(3)}, "b": {"y": 1}}
    assert apart(state, state, doubted=(doubted,)) == wanted


def test_names_of_tensors_do_not_count_as_a_difference() -> None:
    """Of tied tensors a rank with empty shards names another one."""
    one, _ = objects(a={"x": torch.ones(3), "y": torch.ones(3)})
    tied = torch.ones(3)
    other, _ = objects(a={"x": tied, "y": tied})
    assert tree_sums(one, ALL_ALIKE) == tree_sums(other, ALL_ALIKE)


def test_an_object_is_named_before_a_tensor() -> None:
    def plain(x: int) -> tuple[dict[str, str], str]:
        return tree_sums(objects(a={"x": x})[0], ALL_ALIKE), ""

    assert difference(plain(1), plain(2), [], 1) == "a"
    assert difference(plain(1), plain(1), [], 1) == ""
