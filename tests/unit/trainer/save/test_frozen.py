"""Frozen parameters are uploaded once, a change of them is noticed, and nothing deletes what a checkpoint uses."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.trainer.adapted import Adapted, Training
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Keep, Settings
from holdfast_train.commitlog import records
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.rules import check_may_use
from holdfast_train.errors import CheckpointCorruptError, StorageError, StorageFullError, WriterLostError
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.tree import Walk
from holdfast_train.save import frozen as frozen_module
from holdfast_train.save.arena import Arena
from holdfast_train.save.frozen import Choice, Fingerprint, Frozen, FrozenNames
from holdfast_train.save.plan import make_plan
from holdfast_train.save.upload import Upload

FRESH = [CheckpointName(step, 1, "0f") for step in range(9)]


def leaves_of(*objects: Any) -> list[Any]:
    walk = Walk()
    walk.tree([thing.state_dict() for thing in objects], "")
    return walk.leaves


def test_frozen_are_parameters_without_gradient_that_no_optimizer_has() -> None:
    model = Adapted()
    leaves = leaves_of(model)
    optimizer = torch.optim.SGD(model.adapter.parameters(), lr=0.1)
    found = Frozen([model, optimizer], Settings()).leaves(leaves)
    assert [leaves[number].name for number in sorted(found)] == ["0/base.weight", "0/base.bias"]
    everything = torch.optim.SGD(model.parameters(), lr=0.1)  # it may decay weights without a gradient
    assert Frozen([model, everything], Settings()).leaves(leaves) == frozenset()
    model.base.weight.requires_grad_(True)
    assert [leaves[n].name for n in Frozen([model, optimizer], Settings()).leaves(leaves)] == ["0/base.bias"]


def test_a_tensor_that_shares_memory_with_a_trained_one_is_not_frozen() -> None:
    model = Adapted()
    model.base.weight = torch.nn.Parameter(model.adapter.weight.detach()[:2], requires_grad=False)
    optimizer = torch.optim.SGD(model.adapter.parameters(), lr=0.1)
    leaves = leaves_of(model)
    assert [leaves[n].name for n in Frozen([model, optimizer], Settings()).leaves(leaves)] == ["0/base.bias"]


def sums_of(data: torch.Tensor, start: int, stop: int) -> tuple[Any, ...]:
    return Fingerprint([(data, start, stop, 0)]).result()


SUMS: list[Callable[..., Any]] = [sums_of, lambda *piece: int(frozen_module._sum_on_device(*piece))]


@pytest.mark.parametrize("summed", SUMS)
def test_a_checksum_sees_every_bit_and_every_pair_of_signs(summed: Callable[..., Any]) -> None:
    """Two signs: a weighted sum of the words would not see them."""
    data = torch.arange(64, dtype=torch.uint8)
    whole = summed(data, 0, 64)
    assert summed(data.clone(), 0, 64) == whole
    for byte, bit in itertools.product(range(64), range(8)):
        data[byte] ^= 1 << bit
        assert summed(data, 0, 64) != whole
        data[byte] ^= 1 << bit
    for one, other in itertools.combinations(range(7, 64, 8), 2):
        data[one] ^= 128
        data[other] ^= 128
        assert summed(data, 0, 64) != whole
        data[one] ^= 128
        data[other] ^= 128
    assert summed(data, 0, 64) == whole


@pytest.mark.parametrize("size", [0, 1, 7, 8, 4096, 5001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.bool])
def test_checksums_are_of_the_range_alone(size: int, dtype: torch.dtype) -> None:
    data = torch.zeros(20_000, dtype=torch.uint8)
    tensor = data.view(dtype)
    for piece in ((tensor, 4096, 4096 + size),):
        before = sums_of(*piece), [frozen_module._sum_on_device(*piece).item()]
        data[4095] += 1
        data[4096 + size] += 1
        assert (sums_of(*piece), [frozen_module._sum_on_device(*piece).item()]) == before


CHANGES: list[Callable[[Any], Any]] = [
    lambda weight: weight.add_(1.0),
    lambda weight: weight.data.add_(1.0),  # as an adapter is merged: no version counter changes
    lambda weight: weight.detach().numpy().__setitem__((3, 4), 7.0),
    lambda weight: setattr(weight, "data", torch.ones_like(weight)),
]


class Saves:
    """What is chosen for the frozen bytes of `model` in one save after the other."""

    def __init__(self, model: Any) -> None:
        self.frozen = Frozen([model], Settings())
        self._model = model

    def choose(self, step: int, *committed: int, waits: bool = False) -> Choice:
        leaves = leaves_of(self._model)
        plan = make_plan(leaves, len(leaves), 0, 1, self.frozen.leaves(leaves))
        names = FrozenNames(FRESH[step], frozenset(FRESH[number] for number in committed))
        chosen = self.frozen.choose(plan, leaves, names, waits=waits)
        self.arena = Arena(plan.size)
        for copy in plan.frozen_copies:
            address = leaves[copy.leaf].value.data_ptr() + copy.start
            self.arena.copy_from(copy.at, address, copy.stop - copy.start)
        return chosen

    def save(self, step: int, *committed: int, waits: bool = False) -> CheckpointName | str | None:
        """The name of the data that has the frozen bytes, None if they are copied, or why the save is given up."""
        kept, confirm = self.choose(step, *committed, waits=waits)
        return (confirm is not None and confirm(self.arena)) or kept


@pytest.mark.parametrize("change", CHANGES)
def test_committed_data_is_used_again_only_with_equal_bytes(change: Callable[[Any], Any]) -> None:
    model = Adapted()
    saves = Saves(model)
    with torch.no_grad():
        assert [saves.save(step, waits=True) for step in (0, 1)] == [None, None]
        assert [saves.save(step, 1, waits=True) for step in (2, 3)] == [FRESH[1], FRESH[1]]
        change(model.base.weight)
        assert saves.save(4, 1, waits=True) is None
        assert [saves.save(step, 4, waits=True) for step in (5, 6)] == [FRESH[4], FRESH[4]]
        saves.frozen.forget()
        assert saves.save(7, 4, waits=True) is None


# Breaks if checksums of a GPU decide what is uploaded although no administrator has turned that on.
def test_without_its_gate_frozen_bytes_on_a_gpu_are_copied_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    leaves = [leaf._replace(value=leaf.value.to("meta")) for leaf in leaves_of(Adapted())]  # no CPU, as a GPU
    frozen = Frozen([], Settings())
    plan = make_plan(leaves, len(leaves), 0, 1, frozenset({0, 1}))
    assert plan.frozen
    for step in range(3):
        names = FrozenNames(FRESH[step], frozenset(FRESH[number] for number in range(step)))
        assert frozen.choose(plan, leaves, names, waits=True) == Choice(None)
        assert not frozen.is_stored
    said = "holdfast: frozen parameters on GPUs are saved in full: the gate FrozenChecksumsOnCuda is off\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_found_beside_training_gives_the_save_up(change: Callable[[Any], Any]) -> None:
    """Breaks if frozen bytes of an earlier save are committed with trained ones of a later one."""
    model = Adapted()
    saves = Saves(model)
    with torch.no_grad():
        assert saves.save(0) is None
        assert saves.save(1, 0) == FRESH[0]
        assert saves.save(2, 0) == FRESH[0]
        change(model.base.weight)
        assert "a frozen parameter has changed since it was uploaded" in str(saves.save(3, 0))
        assert saves.save(4, 0) is None
        assert saves.save(5, 4) == FRESH[4]
        model.base.weight.data.add_(1.0)
        assert saves.save(6, 4) is None  # this program's frozen parameters change: no other save is given up
        assert saves.save(7, 6) == FRESH[6]


def test_no_checksum_is_computed_while_training_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a large frozen model stops training for 0.2 s a GB at each save."""
    stood: list[str] = []
    result = Fingerprint.result

    def watched(prints: Fingerprint, *args: Any, **more: Any) -> Any:
        stood.append("a checksum")
        return result(prints, *args, **more)

    monkeypatch.setattr(Fingerprint, "result", watched)
    saves = Saves(Adapted())
    counts = []
    for step, committed in enumerate(([], [0], [0], [0])):
        stood.clear()
        confirm = saves.choose(step, *committed).confirm
        counts.append(len(stood))
        assert confirm is None or not confirm(saves.arena)
    assert counts == [0, 1, 0, 0]  # the second save finds out that they stay as they are
    stood.clear()
    saves.choose(4, 0, waits=True)
    assert stood


UNDONE: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda weight: weight.data.add_(1.0), lambda weight: weight.data.sub_(1.0)),  # all bytes, no version counter
    (lambda weight: weight[7].add_(1.0), lambda weight: weight[7].sub_(1.0)),  # some bytes, with a version counter
    (lambda weight: None, lambda weight: setattr(weight, "data", weight.data.clone())),
]


@pytest.mark.parametrize(("change", "undo"), UNDONE)
def test_a_change_that_is_undone_before_its_checksum_is_noticed(
    change: Callable[[Any], Any], undo: Callable[[Any], Any]
) -> None:
    """Breaks if a checkpoint gets the base as it was before an adapter was merged, and the adapter of the merge."""
    model = Adapted()
    saves = Saves(model)
    with torch.no_grad():
        model.base.weight.fill_(1.0)
        for step in range(3):
            saves.save(step, 0)
        change(model.base.weight)
        _, confirm = saves.choose(3, 0)
        undo(model.base.weight)
        assert confirm is not None
        why = confirm(saves.arena)
        assert bool(why) is (undo is not UNDONE[2][1])  # the memory of the moment of the save is still the same


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    found = Training(tmp_path / "prefix", keep=Keep(2))
    yield found
    found.saver.close()


def test_frozen_parameters_are_neither_copied_nor_uploaded_at_the_next_save(training: Training) -> None:
    size = training.model.base.weight.nbytes
    first, second = (training.save(step) for step in (1, 2))
    assert isinstance(first, Saved)
    assert isinstance(second, Saved)
    assert (first.reused, first.shared, first.uploaded) == (0, second.reused, first.size)
    assert (second.shared, second.uploaded) == (second.reused, second.size - second.reused)
    assert second.uploaded < size <= second.reused
    keys = training.keys()
    assert keys[1][0] == keys[2][0]
    assert set(keys[1][1:]).isdisjoint(keys[2])
    assert training.saver._sent_plan is not None
    assert training.saver._sent_plan.size < size <= sum(e.size for e in training.storage.entries("data/")) < 2 * size
    training.check(2)


def test_a_frozen_parameter_that_was_changed_is_saved_again(training: Training) -> None:
    training.save(1)
    training.model.base.weight.data.mul_(2)
    assert isinstance(training.save(2), Saved)
    keys = training.keys()
    assert set(keys[1]).isdisjoint(keys[2])
    training.save(3)
    assert training.keys()[3][0] == keys[2][0]
    training.check(3)


def test_a_frozen_parameter_that_changes_after_several_saves(training: Training) -> None:
    for step in (1, 2, 3):
        assert isinstance(training.save(step), Saved)
    training.model.base.weight.data.mul_(2)
    result = training.save(4)
    assert isinstance(result, StorageError)
    assert "a frozen parameter has changed" in str(result)
    training.check(3)


def test_the_save_after_a_change_has_the_changed_bytes(training: Training) -> None:
    for step in (1, 2, 3):
        training.save(step)
    training.model.base.weight.data.mul_(2)
    training.save(4)
    for step in (5, 6):
        assert isinstance(training.save(step), Saved)
    keys = training.keys()
    assert keys[6][0] == keys[5][0]
    training.check(6)


def test_shared_data_stays_while_a_checkpoint_uses_it_and_then_goes(training: Training) -> None:
    """The checkpoint that has written it is retired long before."""
    for step in range(1, 6):
        assert isinstance(training.save(step), Saved)
    wait_for(lambda: sorted(training.keys()) == [4, 5], 30, "old checkpoints to be deleted")
    keys = training.keys()
    shared = keys[5][0]
    assert CheckpointName.of_key(shared) not in {CheckpointName.of_key(key) for key in keys[5][1:]}
    training.check(5)


def test_shared_data_goes_with_its_last_checkpoint(tmp_path: Path) -> None:
    training = Training(tmp_path / "prefix", keep=Keep(1))
    training.save(1)
    shared = training.keys()[1][0]
    training.save(2)
    assert shared in training.keys()[2]
    training.model.base.bias.data.add_(1)
    assert isinstance(training.save(3), StorageError)  # the change is found beside training
    assert isinstance(training.save(4), Saved)
    training.saver.close()
    wait_for(lambda: shared not in training.storage.keys("data/"), 30, "the shared data to be deleted")
    training.check(4)


def test_a_new_writer_uploads_frozen_parameters_again(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not training.saver.frozen.is_stored
    training.save(1)
    assert training.saver.frozen.is_stored
    with monkeypatch.context() as broken:
        broken.setattr(Upload, "_draft", lambda *_: 1 / 0)
        monkeypatch.setattr("threading.excepthook", lambda _: None)
        assert isinstance(training.save(2), WriterLostError)
    assert not training.saver.frozen.is_stored
    assert isinstance(training.save(3), Saved)
    keys = training.keys()
    assert keys[3][0] != keys[1][0]
    training.check(3)


def test_data_of_a_save_that_failed_is_not_used_again(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:

        def full(*_: Any, **__: Any) -> None:
            raise StorageFullError("no space")

        broken.setattr(Checkpoints, "publish", full)
        assert isinstance(training.save(1), StorageFullError)
    assert isinstance(training.save(2), Saved)
    assert {CheckpointName.of_key(key).step for key in training.keys()[2]} == {2}  # type: ignore[union-attr]
    training.check(2)


def test_a_commit_does_not_use_data_that_may_be_deleted(training: Training) -> None:
    """The last guard: data that another program has deleted, or that no checkpoint uses any more, is written again."""
    training.save(1)
    (shared,) = training.saver.frozen.committed
    training.storage.delete(training.storage.keys(shared.data_prefix))
    assert isinstance(training.save(2), CheckpointCorruptError)
    assert isinstance(training.save(3), Saved)
    training.check(3)
    state = records.LogState()
    commit = records.Commit(0, 2, 1, "2026-01-01T00:00:00+00:00", FRESH[2], "", 1, uses=(records.Use(shared, 1),))
    check_may_use(state, commit, (shared,))
    with pytest.raises(CheckpointCorruptError, match="no checkpoint in the log uses any more"):
        check_may_use(state, commit, (FRESH[3],))
