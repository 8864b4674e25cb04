"""The saves of a run: whose result counts."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.stores import environment

from holdfast_protocol.settings import Keep
from holdfast_train import memory
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import StorageFullError, StorageUnreachableError
from holdfast_train.examples.stub import Counter
from holdfast_train.progress import Progress
from holdfast_train.ranks import Ranks
from holdfast_train.save.coordinator import SaveCoordinator
from holdfast_train.save.messages import Open
from holdfast_train.save.schedule import SaveSchedule
from holdfast_train.save.training_state import TrainingState
from holdfast_train.storage.opening import open_retrying


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[SaveCoordinator]:
    where = environment(f"file://{tmp_path}/prefix")
    checkpoints = Checkpoints(open_retrying(where, where.settings.checkpoint_uri or ""), where.identity, Keep())
    checkpoints.start("Auto")
    found = SaveCoordinator(
        Open(where, 0, 1, checkpoints.log.fence),
        TrainingState({"counter": Counter()}, {}),
        ranks=Ranks(connect=False),
        schedule=SaveSchedule(Progress()),
        on_change=lambda: None,
        metrics=dict,
    )
    yield found
    found.saver.close()


def left() -> float:
    return math.inf


def fails(*_: object, **__: object) -> None:
    raise StorageFullError("no space")


def test_a_save_succeeds_only_by_its_own_commit(coordinator: SaveCoordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if `run.save()` returns True because an earlier save of the same step was committed."""
    assert coordinator.save(1, 0.0, left)
    with monkeypatch.context() as broken:
        broken.setattr(Checkpoints, "publish", fails)
        assert not coordinator.save(1, 0.0, left)
        with pytest.raises(StorageFullError, match="no space"):
            coordinator.save(1, 0.0, left, last=True)
    assert coordinator.save(1, 0.0, left)


def test_a_save_succeeds_although_an_earlier_one_fails_meanwhile(
    coordinator: SaveCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = Checkpoints.publish
    calls = iter([fails, publish])

    def publish_later(*args: Any, **more: Any) -> Any:
        return next(calls)(*args, **more)

    monkeypatch.setattr(Checkpoints, "publish", publish_later)
    coordinator.begin(1, 0.0, math.inf)
    assert coordinator.save(1, 0.0, left)


@pytest.mark.parametrize("has_torch", [True, False])
def test_that_a_save_has_no_room_is_reported_before_the_first_one(
    coordinator: SaveCoordinator, monkeypatch: pytest.MonkeyPatch, has_torch: bool
) -> None:
    """Breaks if the operator learns only from the kernel that a save did not fit."""
    told: list[str | None] = []
    progress = coordinator._schedule._progress
    coordinator._on_change = lambda: told.append(progress.memory_warning)
    monkeypatch.setattr(memory, "_machine", lambda: 0)
    if has_torch:
        pytest.importorskip("torch")
    else:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    coordinator.prepare()
    assert len(told) == has_torch, "the state of a program without torch is small, and copied at its first save"
    assert coordinator.save(1, 0.0, left)
    assert told[0] is not None
    assert told[0].startswith("a save copies the state: 0.0Gi of memory, of which 0.0Gi are left")


def test_a_save_that_cannot_begin_has_failed(coordinator: SaveCoordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise StorageUnreachableError("earlier checkpoints are still in flight")

    assert coordinator.save(1, 0.0, left)
    monkeypatch.setattr(coordinator.saver, "begin", late)
    assert not coordinator.save(1, 0.0, left)
