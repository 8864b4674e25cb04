"""A save that its writer keeps during an outage: training makes no other copy of its state, and no save is blocked."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.trainer.attempts import attempt
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import environment, identity
from tests.support.waiting import wait_for

from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.errors import HoldfastTrainError, StorageFullError, StorageUnreachableError, WriterLostError
from holdfast_train.progress import Progress
from holdfast_train.ranks import Ranks
from holdfast_train.save import arena
from holdfast_train.save.coordinator import SaveCoordinator
from holdfast_train.save.messages import Open
from holdfast_train.save.schedule import SaveSchedule
from holdfast_train.save.training_state import TrainingState
from holdfast_train.save.upload import Upload
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.timings import Timings

NEVER = 1e9  # seconds


class State:
    """Bytes that are all alike, so that a mixture of two steps shows."""

    def __init__(self) -> None:
        self.values = np.zeros(50_000, np.uint8)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


class Training:
    """A training whose storage fails with `error` while `down` is set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, retry: float) -> None:
        self.storage = FolderStorage(folder / "prefix")
        where = replace(environment(self.storage.uri), timings=Timings(retry=retry))
        checkpoints = attempt(self.storage, where.identity)
        self.down = False
        self.error: HoldfastTrainError = StorageUnreachableError("no answer")
        self.tries = 0
        write = FolderStorage.write

        def write_if_up(*args: Any, **more: Any) -> None:
            self.tries += 1
            if self.down:
                raise self.error
            write(*args, **more)

        monkeypatch.setattr(FolderStorage, "write", write_if_up)
        self.progress = Progress()
        self.state = State()
        self.schedule = SaveSchedule(self.progress, timings=where.timings)
        self.coordinator = SaveCoordinator(
            Open(where, 0, 1, checkpoints.log.fence),
            TrainingState({"state": self.state}, {}),
            ranks=Ranks(connect=False),
            schedule=self.schedule,
            on_change=lambda: None,
            metrics=dict,
        )
        self.saver = self.coordinator.saver

    def begin(self, step: int, at_most: float = float("inf")) -> None:
        """Save `step`, then change the state as the next step does."""
        self.state.values[:] = step
        self.coordinator.begin(step, 0.0, at_most)
        self.state.values[:] = 255

    def begin_in_outage(self, step: int) -> None:
        """A save that its writer keeps."""
        self.down = True
        self.begin(step)
        wait_for(lambda: self.saver._arenas.names("kept"), 30, "the save to be kept")

    def newest(self) -> int:
        """The step of the newest checkpoint, which must be intact."""
        found = restore_whole(attempt(self.storage, identity(2)))
        assert found is not None
        assert (found.state["objects"]["state"]["values"] == found.step).all()
        return found.step

    def steps(self) -> list[int]:
        """The steps of which the storage has data."""
        return sorted({int(key[5:17]) for key in self.storage.keys("data/")})


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Training]:
    """It tries a save that it keeps again at once, or after the seconds that are given."""
    found = Training(tmp_path, monkeypatch, getattr(request, "param", 0.05))
    yield found
    found.down = False
    found.saver.close()


def test_the_copy_of_a_step_is_committed_when_the_storage_answers_again(
    training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    """Breaks if training stops for another copy of its state at each try."""
    training.begin_in_outage(1)
    wait_for(lambda: training.tries > 5, 30, "further tries")
    assert training.progress.save_error == "StorageUnreachable: no answer"
    wait_for(lambda: not training.saver.is_busy and training.saver.can_begin, 30, "a pause between two tries")
    training.down = False
    wait_for(lambda: training.schedule.saved_step == 1, 30, "the commit")
    assert training.progress.save_error is None
    assert training.schedule.costs == ()  # its seconds are those of the outage
    assert training.newest() == 1
    assert capsys.readouterr().err.count("the copy of its state is tried again every 0 s") == 1


def no_memory_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "fits", lambda size: False)


@pytest.mark.parametrize("training", [NEVER], indirect=True)
@pytest.mark.parametrize("arenas", [1, 2])
def test_a_newer_save_takes_the_place_of_a_kept_one(
    training: Training, arenas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a kept save blocks the next one, or if both are in one arena: a commit of mixed steps."""
    if arenas == 1:
        no_memory_for_another(monkeypatch)
    training.begin_in_outage(1)
    assert training.saver.can_begin
    training.begin(2)
    wait_for(lambda: training.saver._arenas.names("kept") and not training.saver.is_busy, 30, "step 2 to be kept")
    wait_for(lambda: len(training.saver._arenas.loans) == 1, 30, "step 1 to be dropped")
    assert len(training.saver._arenas.by_number) == arenas
    training.down = False
    training.begin(3)
    wait_for(lambda: training.schedule.saved_step == 3, 30, "the commit of step 3")
    assert training.newest() == 3
    wait_for(lambda: training.steps() == [3], 30, "what steps 1 and 2 have left to be deleted")


def test_the_last_save_of_a_pod_is_not_blocked_by_a_try_that_hangs(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a pod that has to leave waits until a further try has come to its end by itself."""
    no_memory_for_another(monkeypatch)
    training.begin_in_outage(1)
    hanging, go_on, get = threading.Event(), threading.Event(), Checkpoints.publish

    def hang(*_: Any, **__: Any) -> Any:
        hanging.set()
        assert go_on.wait(30)
        raise StorageUnreachableError("no answer")

    monkeypatch.setattr(Checkpoints, "publish", hang)
    training.down = False
    assert hanging.wait(30)
    wait_for(lambda: training.saver._arenas.names("retrying"), 30, "the further try")
    assert not training.saver.can_begin
    last = threading.Thread(target=training.begin, args=(2, 60.0))
    last.start()
    wait_for(lambda: not last.is_alive() or training.saver._arenas.names("retrying"), 30, "the last save")
    monkeypatch.setattr(Checkpoints, "publish", get)
    go_on.set()
    last.join(30)
    assert not last.is_alive()
    assert training.saver.wait(lambda: 30.0)
    assert training.newest() == 2


@pytest.mark.parametrize("drops", [True, False])
def test_a_run_that_ends_gives_a_kept_save_up_or_lets_its_writer_try_it_once_more(
    tmp_path: Path, drops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if the state of a program that fails in an outage is lost although the storage is back."""
    before = set(threading.enumerate())
    training = Training(tmp_path, monkeypatch, NEVER)
    training.begin_in_outage(1)
    training.down = False
    if drops:
        training.saver.drop_kept()
    training.saver.close()
    wait_for(lambda: set(threading.enumerate()) <= before, 30, "the writer to end")
    assert training.steps() == ([] if drops else [1])
    if not drops:
        assert training.newest() == 1


def test_a_kept_save_is_lost_with_its_writer(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if its arena is never free again, or if no other save follows."""
    unhandled: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    training.begin_in_outage(1)
    with monkeypatch.context() as broken:
        broken.setattr(Upload, "run", lambda *_: 1 / 0)
        wait_for(lambda: isinstance(training.schedule.failure, WriterLostError), 30, "the end of the writer")
    wait_for(lambda: not training.saver._arenas.loans, 30, "the arena")
    training.down = False
    training.begin(2)
    wait_for(lambda: training.schedule.saved_step == 2, 30, "the commit")
    assert training.newest() == 2


def test_another_error_ends_a_kept_save(training: Training) -> None:
    training.begin_in_outage(1)
    training.error = StorageFullError("no space")
    wait_for(lambda: not training.saver._arenas.loans, 30, "the end of the save")
    assert isinstance(training.schedule.failure, StorageFullError)
    assert training.schedule._retry_at is not None


def test_a_save_that_the_program_waits_for_answers_when_it_is_kept(training: Training) -> None:
    """Breaks if `run.save()` waits for the end of an outage."""
    training.down = True
    assert not training.coordinator.save(1, 0.0, lambda: float("inf"))
    with pytest.raises(StorageUnreachableError):
        training.coordinator.save(2, 0.0, lambda: float("inf"), last=True)
    training.down = False
    assert training.coordinator.save(3, 0.0, lambda: float("inf"))
    assert isinstance(training.coordinator._result, Saved)
