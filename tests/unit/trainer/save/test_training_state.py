"""What one rank saves: what is alike on all ranks, and what it has of its own."""

import contextlib
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.trainer.attempts import attempt
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import environment, identity
from tests.support.waiting import wait_for

from holdfast_train.format.names import CheckpointName
from holdfast_train.format.rank_agreement import Apart
from holdfast_train.format.stateful import Stateful
from holdfast_train.save.channel import Channel
from holdfast_train.save.messages import Open, Save
from holdfast_train.save.plan import make_plan
from holdfast_train.save.saver import Saver
from holdfast_train.save.training_state import TrainingState
from holdfast_train.storage.folder import FolderStorage

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


def test_a_rank_saves_the_byte_strings_of_what_is_apart() -> None:
    """Breaks if rank 0 has a short history, in its tree, and the columns of another rank's long one are not saved."""
    state = TrainingState({"a": Thing(losses=[0.5] * 20_000), "b": Thing(losses=[0.5] * 20_000)}, {})
    walk, alike, _, own = state.walk(1, Apart(objects=frozenset({"a"})))
    assert [leaf.name for leaf in walk.leaves[:alike]] == ["b/losses"]
    assert "@1/differing/a/losses" in str(own)
    plan = make_plan(walk.leaves, alike, 1, 2)
    assert "@1/differing/a/losses" in [entry.name for entry in plan.own_tensors]


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


class Trained:
    """A model that is saved into a folder. `sent`: what its writers got for each save."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.storage = FolderStorage(folder / "prefix")
        where = environment(self.storage.uri)
        fence = attempt(self.storage, where.identity).log.fence
        model = torch.nn.Linear(3, 2)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        model(torch.ones(3)).sum().backward()
        self.optimizer.step()
        self.results: list[object] = []
        self.sent: list[object] = []
        send = Channel.send

        def watched(channel: Channel, message: Any, *more: Any) -> None:
            self.sent.append(message)
            send(channel, message, *more)

        monkeypatch.setattr(Channel, "send", watched)
        state = TrainingState({"model": model, "optimizer": self.optimizer}, {})
        self.saver = Saver(Open(where, 0, 1, fence), state, lambda _, result: self.results.append(result))

    def save(self, step: int, lr: float) -> Save:
        self.optimizer.param_groups[0]["lr"] = lr
        self.saver.begin(CheckpointName.new(step, 1), step, patience=0.0)
        assert self.saver.wait(lambda: math.inf)
        return next(message for message in reversed(self.sent) if isinstance(message, Save))

    def newest(self) -> tuple[int, float]:
        found = restore_whole(attempt(self.storage, identity(2)))
        assert found is not None
        return found.step, found.state["objects"]["optimizer"]["param_groups"][0]["lr"]


@pytest.mark.parametrize("saves", range(1, 6))
def test_a_save_sends_only_what_has_changed(tmp_path: Path, saves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if training waits for names that the writer knows, or if a checkpoint has the tree of another step."""
    trained = Trained(tmp_path, monkeypatch)
    trained.saver.prepare()
    lrs = [0.1, 0.1, 0.2, 0.2, 0.3][:saves]
    with contextlib.closing(trained.saver):
        for step, lr in enumerate(lrs, 1):
            sent = trained.save(step, lr)
            assert sent.plan is None  # `prepare` has sent it
            assert sent.is_change is (step > 1)
            if sent.is_change:
                assert "exp_avg" not in str(sent.tree)
    assert trained.newest() == (saves, lrs[-1])


def test_a_new_writer_gets_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(tmp_path, monkeypatch)
    with contextlib.closing(trained.saver):
        trained.save(1, 0.1)
        trained.save(2, 0.1)
        assert trained.saver._writer is not None
        trained.saver._writer.channel.finish()
        wait_for(lambda: trained.saver._writer is None, 30, "the end of the writer")
        sent = trained.save(3, 0.1)
        assert sent.plan is not None
        assert not sent.is_change
        trained.optimizer.state.clear()
        sent = trained.save(4, 0.4)  # other tensors
        assert sent.plan is not None
        assert not sent.is_change
    assert trained.newest() == (4, 0.4)


def test_a_closed_saver_keeps_no_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(tmp_path, monkeypatch)
    trained.save(1, 0.1)
    trained.saver.close()
    repeated_walk = trained.saver._state.repeated_walk
    assert (repeated_walk._leaves, repeated_walk._places, repeated_walk._sources) == ([], [], [])
