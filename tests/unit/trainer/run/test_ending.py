"""How a run ends: the verdict, the exit code, the last save and the completion."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.runs import Flaky, settle, train, verdict
from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import StorageDeniedError, StorageUnreachableError
from holdfast_train.examples.stub import Counter
from holdfast_train.save.interval import Cost
from holdfast_train.storage.folder import FolderStorage


def test_leaving_writes_a_verdict(uri: str, tmp_path: Path) -> None:
    train(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 50, stop=3)
    found = verdict(tmp_path)
    assert (found["result"], found["step"], found["savedStep"]) == ("saved", 4, 4)


def test_completion_is_recorded_and_final(uri: str, tmp_path: Path) -> None:
    train(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert (verdict(tmp_path)["result"], verdict(tmp_path)["savedStep"]) == ("completed", 5)
    with pytest.raises(SystemExit) as ended:
        train(environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert ended.value.code == 0
    found = verdict(tmp_path)
    assert (found["result"], found["reason"], found["step"]) == ("completed", "AlreadyComplete", 5)


def test_a_run_that_was_complete_already_has_the_last_step(uri: str) -> None:
    train(environment(uri), 5)
    run = Run(counter=Counter(), environment=environment(uri, 2))
    with pytest.raises(SystemExit), run:
        pass
    assert run.step == 5


def test_sigterm_in_the_last_step_still_completes(uri: str, tmp_path: Path) -> None:
    _, run = train(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5, stop=4)
    assert (run.left, verdict(tmp_path)["result"]) == (False, "completed")


def test_zombie_ends_fenced(uri: str, tmp_path: Path) -> None:
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), HOLDFAST_CHECKPOINT_EVERY="5 steps")
    with pytest.raises(SystemExit) as ended, Run(counter=Counter(), environment=where) as run:
        for step in run.steps(100):
            settle(run)
            if step == 7:
                with Run(counter=Counter(), environment=environment(uri, 2)) as successor:
                    assert successor.step == 5
                    successor._goal = 0
                    assert successor.save()
                    successor.left = True  # leave without a complete record
    assert ended.value.code == 76
    assert run.step == 11  # the save after step 10 is refused while the next step is computed
    assert verdict(tmp_path)["result"] == "fenced"


def test_user_exception_is_a_failure(uri: str, tmp_path: Path) -> None:
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(ValueError, match="bad"), Run(counter=Counter(), environment=where) as run:
        for _ in run.steps(5):
            raise ValueError("bad")
    found = verdict(tmp_path)
    assert (found["result"], found["reason"], found["message"]) == ("failed", "UserException", "ValueError: bad")


def test_out_of_memory_is_named(uri: str, tmp_path: Path) -> None:
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(MemoryError), Run(counter=Counter(), environment=where):
        raise MemoryError
    assert verdict(tmp_path)["reason"] == "OutOfMemory"


def test_last_save_that_fails_is_an_error(uri: str, flaky: Flaky, tmp_path: Path) -> None:
    """Breaks if a training that is saved nowhere counts as completed."""
    flaky.down = True
    with pytest.raises(SystemExit) as ended:
        train(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert ended.value.code == 75
    found = verdict(tmp_path)
    assert (found["result"], found["reason"]) == ("failed", "StorageUnreachable")


@pytest.mark.parametrize(
    ("worked", "end"),
    [(True, (75, "failed", "StorageUnreachable")), (False, (78, "misconfigured", "StorageDenied"))],
)
def test_last_save_that_is_refused(
    uri: str, flaky: Flaky, tmp_path: Path, worked: bool, end: tuple[int, str, str]
) -> None:
    """A storage that has worked for this run is not misconfigured: the job is tried again, and does not end."""
    if worked:
        train(environment(uri), 50, stop=3)
    flaky.down, flaky.error = True, StorageDeniedError("a rotated key")
    with pytest.raises(SystemExit) as ended:
        train(environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path)), 10)
    found = verdict(tmp_path)
    assert (ended.value.code, found["result"], found["reason"]) == end
    assert "a rotated key" in found["message"]


def test_completion_that_is_refused_is_tried_again(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StorageDeniedError("a rotated key")

    monkeypatch.setattr("holdfast_train.commitlog.checkpoints.Checkpoints.complete", refuse)
    with pytest.raises(SystemExit) as ended:
        train(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert (ended.value.code, verdict(tmp_path)["savedStep"]) == (75, 5)


def test_save_that_cannot_be_done_in_time_is_not_begun(uri: str, tmp_path: Path) -> None:
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(50):
            if step == 2:
                assert run.save()
                run._saving.costs = (Cost(30.0, 30.0, run._saving.costs[-1].size),)
            if step == 4:
                run._notice.give(2.0, "a short notice")
    assert run.step == 5
    found = verdict(tmp_path)
    assert (found["result"], found["savedStep"]) == ("left", 2)


def test_leaving_does_not_wait_for_a_save_that_hangs(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the last save waits for memory that an earlier save does not free in time."""
    hanging = threading.Event()
    original = FolderStorage.write

    def write(*arguments: Any, **options: Any) -> None:
        assert hanging.wait(60)
        original(*arguments, **options)

    monkeypatch.setattr(FolderStorage, "write", write)
    monkeypatch.setattr("holdfast_train.save.saver.fits", lambda size: False)  # one arena, and no other
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), HOLDFAST_CHECKPOINT_EVERY="2 steps")
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(50):
            if step == 4:
                run._notice.give(1.0, "a short notice")
    assert (run.left, run.step) == (True, 5)
    assert verdict(tmp_path)["result"] == "left"
    hanging.set()


def test_without_storage_it_runs_and_leaves(tmp_path: Path) -> None:
    _, run = train(environment(None, HOLDFAST_VERDICT_DIR=str(tmp_path)), 50, stop=3)
    assert run.left
    assert verdict(tmp_path)["result"] == "left"


@pytest.mark.parametrize(("before", "result"), [(4, "saved"), (0, "left")])
def test_told_to_leave_before_the_first_step(uri: str, tmp_path: Path, before: int, result: str) -> None:
    """The notice comes during a long restore: no step begins, and nothing is written twice."""
    if before:
        train(environment(uri), 50, stop=before - 1)
    where = environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with Run(counter=Counter(), environment=where) as run:
        os.kill(os.getpid(), signal.SIGTERM)
        assert list(run.steps(50)) == []
    assert (run.left, run.step, verdict(tmp_path)["result"]) == (True, before, result)
    assert len(FolderStorage(uri.removeprefix("file://")).keys("manifests/")) == (1 if before else 0)


def test_a_notice_shortens_a_save_that_training_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the wait keeps the deadline that it began with: the pod would be killed during the save."""
    go_on, original = threading.Event(), Checkpoints.publish

    def publish(*args: Any) -> Any:
        assert go_on.wait(30)
        return original(*args)

    monkeypatch.setattr(Checkpoints, "publish", publish)
    with Run(counter=Counter(), environment=environment(f"file://{tmp_path}/prefix")) as run:
        run.step = 1
        told = threading.Timer(0.1, lambda: run._notice.give(0.3, "a drain order"))
        told.start()
        assert not run.save()
        assert not go_on.is_set()
        told.join()
        go_on.set()
        run.left = True


def test_a_notice_shortens_the_retries_of_a_silent_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if retries go on after a notice, for example at the very end."""
    asked: list[str] = []

    def silent(_: FolderStorage, key: str) -> bytes:
        asked.append(key)
        raise StorageUnreachableError("no answer")

    with Run(counter=Counter(), environment=environment(f"file://{tmp_path}/prefix")) as run:
        monkeypatch.setattr(FolderStorage, "get", silent)
        assert run._storage is not None
        with run._storage.within(1.0), pytest.raises(StorageUnreachableError):
            run._notice.give(0.0, "a drain order")
            run._storage.get("key")
        monkeypatch.undo()
        run.left = True
    assert asked == ["key"]
