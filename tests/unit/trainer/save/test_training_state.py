"""What one rank saves: what is alike on all ranks, and what it has of its own."""

from typing import Any

import torch

from holdfast_train.format.alike import Apart
from holdfast_train.format.stateful import Stateful
from holdfast_train.save.plan import make_plan
from holdfast_train.save.training_state import TrainingState

APART = Apart(frozenset({"model/running_mean"}), frozenset({"model"}))


class Thing:
    """An object with a state."""

    def __init__(self, **state: Any) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: Any, /) -> None:
        self.state = state


def names(rank: int, apart: Apart, **per_rank: Stateful) -> tuple[list[str], list[str], Any]:
    """The tensors that are alike, those of the rank (without random numbers), and the rank's tree."""
    state = TrainingState({"model": torch.nn.BatchNorm1d(3), "other": Thing(x=torch.ones(2))}, per_rank)
    walk, alike, _, own = state.walk(rank, apart)
    assert isinstance(own, dict)
    mine = [leaf.name for leaf in walk.leaves[alike:] if "/rng/" not in leaf.name]
    return [leaf.name for leaf in walk.leaves[:alike]], mine, own


def test_each_rank_has_what_is_apart_under_a_name_of_its_own() -> None:
    for rank, name in enumerate(["model/running_mean", "@1/differing/model/running_mean"]):
        alike, mine, own = names(rank, APART)
        assert "model/running_mean" not in alike
        assert {"model/weight", "model/running_var", "other/x"} <= set(alike)
        assert mine == [name]
        trees = dict(own["$dict"])
        assert (name in str(trees.get("differing"))) == (rank == 1)
        assert "other" not in str(trees.get("differing"))


def test_without_differences_nothing_is_apart() -> None:
    alike, mine, own = names(1, Apart())
    assert "model/running_mean" in alike
    assert mine == []
    assert [key for key, _ in own["$dict"]] == ["rng", "objects"]


def test_an_own_object_that_shares_memory_with_what_is_apart_has_the_ranks_values() -> None:
    shared = torch.zeros(3)
    state = TrainingState({"model": Thing(mean=shared)}, {"own": Thing(mean=shared)})
    walk, alike, _, own = state.walk(1, Apart(frozenset({"model/mean"}), frozenset({"model"})))
    assert "@1/differing/model/mean" in str(own)
    assert "'model/mean'" not in str(own)
    plan = make_plan(walk.leaves, alike, 1, 2)
    assert plan.common == ()


def test_parameters_have_to_be_the_same_and_buffers_may_differ() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    average = Thing(weight=torch.zeros(2), seen=3)
    _, facts = TrainingState({"model": model, "average": average}, {}).facts(0, frozenset())
    assert set(facts.leaves) == {
        "model/1.running_mean",
        "model/1.running_var",
        "model/1.num_batches_tracked",
        "average/weight",
    }
    assert set(facts.objects) == {"model", "average"}
