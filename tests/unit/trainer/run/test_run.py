"""Run: resume, save, leave, end. With plain Python state; torch is in test_language_model."""

import json
import math
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.environment import Environment
from holdfast_train.errors import StateError, StorageDeniedError, StorageError, StorageUnreachableError
from holdfast_train.examples.stub import Counter
from holdfast_train.format.manifest import decode
from holdfast_train.run import run as session
from holdfast_train.save import schedule
from holdfast_train.save.interval import Cost
from holdfast_train.storage.folder import FolderStorage


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file://{tmp_path}/prefix"


def pod(uri: str | None, attempt: int = 1, /, **more: str) -> Environment:
    return environment(uri, attempt, **more)


def verdict(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "rank-0.json").read_text())
    return found


def train(where: Environment | None, goal: int, stop: int | None = None) -> tuple[list[float], Run]:
    """A "training" whose losses hang on every generator and on its own state. `stop`: SIGTERM in this step."""
    counter, losses = Counter(), []
    with Run(counter=counter, environment=where) as run:
        for step in run.steps(goal):
            counter.add(step)
            losses.append(counter.total + random.random() + float(np.random.random()))
            settle(run)
            if step == stop:
                os.kill(os.getpid(), signal.SIGTERM)
    return losses, run


def settle(run: Run) -> None:
    """Wait for the checkpoint that is on its way: steps take no time here, and one that is due would be skipped."""
    if run._checkpointer is not None:
        assert run._checkpointer.saver.wait(lambda: math.inf)


def test_outside_a_pod_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    with Run(counter=Counter()) as run:
        assert signal.getsignal(signal.SIGTERM) is before
        assert list(run.steps(5)) == [0, 1, 2, 3, 4]
        assert not run.save()
        run.report(loss=1.0)
    assert (run.step, run.left) == (5, False)
    assert list(tmp_path.iterdir()) == []


def test_resumed_run_equals_an_uninterrupted_one(uri: str, tmp_path: Path) -> None:
    random.seed(1)
    np.random.seed(2)
    whole, _ = train(pod(f"{uri}-whole"), 50)
    random.seed(1)
    np.random.seed(2)
    first, left = train(pod(uri), 50, stop=19)
    assert (left.left, left.step) == (True, 20)
    random.seed(99)  # another process has other numbers
    second, done = train(pod(uri, 2), 50)
    assert (done.resumed_from, done.left) == (20, False)
    assert first + second == whole


def test_leaving_says_so(uri: str, tmp_path: Path) -> None:
    train(pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 50, stop=3)
    found = verdict(tmp_path)
    assert (found["result"], found["step"], found["savedStep"]) == ("saved", 4, 4)


def test_completion_is_recorded_and_final(uri: str, tmp_path: Path) -> None:
    train(pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert (verdict(tmp_path)["result"], verdict(tmp_path)["savedStep"]) == ("completed", 5)
    with pytest.raises(SystemExit) as ended:
        train(pod(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert ended.value.code == 0
    found = verdict(tmp_path)
    assert (found["result"], found["reason"], found["step"]) == ("completed", "AlreadyComplete", 5)


def test_sigterm_in_the_last_step_still_completes(uri: str, tmp_path: Path) -> None:
    _, run = train(pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5, stop=4)
    assert (run.left, verdict(tmp_path)["result"]) == (False, "completed")


def test_zombie_ends_fenced(uri: str, tmp_path: Path) -> None:
    where = pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), HOLDFAST_CHECKPOINT_EVERY="5 steps")
    with pytest.raises(SystemExit) as ended, Run(counter=Counter(), environment=where) as run:
        for step in run.steps(100):
            settle(run)
            if step == 7:
                with Run(counter=Counter(), environment=pod(uri, 2)) as successor:
                    assert successor.step == 5
                    successor._goal = 0
                    assert successor.save()
                    successor.left = True  # leave without a complete record
    assert ended.value.code == 76
    assert run.step == 11  # the save after step 10 is refused while the next step is computed
    assert verdict(tmp_path)["result"] == "fenced"


def test_lower_attempt_is_fenced_at_the_start(uri: str) -> None:
    train(pod(uri, 2), 50, stop=3)
    with pytest.raises(SystemExit) as ended:
        train(pod(uri, 1), 50)
    assert ended.value.code == 76


def test_prefix_of_another_job(uri: str, tmp_path: Path) -> None:
    train(pod(uri), 50, stop=3)
    other = pod(uri, HOLDFAST_JOB="other", HOLDFAST_JOB_UID="u", HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        train(other, 50)
    assert ended.value.code == 78
    found = verdict(tmp_path)
    assert (found["result"], found["reason"]) == ("misconfigured", "StoragePrefixInUse")


@pytest.mark.parametrize(("resume", "step"), [("Auto", 4), ("Never", None)])
def test_job_created_anew(uri: str, resume: str, step: int | None) -> None:
    train(pod(uri, 7), 50, stop=3)
    anew = pod(uri, 1, HOLDFAST_JOB_UID="uid-2", HOLDFAST_CHECKPOINT_RESUME=resume)
    _, run = train(anew, 50, stop=10)
    assert run.resumed_from == step
    _, run = train(pod(uri, 2, HOLDFAST_JOB_UID="uid-2", HOLDFAST_CHECKPOINT_RESUME=resume), 50, stop=20)
    assert run.resumed_from == 11


@pytest.mark.parametrize("whole_prefix", [True, False])
def test_resume_from_another_prefix(uri: str, tmp_path: Path, whole_prefix: bool) -> None:
    train(pod(uri), 50, stop=3)
    before = FolderStorage(uri.removeprefix("file://")).keys("")
    (manifest,) = FolderStorage(uri.removeprefix("file://")).keys("manifests/")
    address = uri if whole_prefix else f"{uri}/{manifest}"
    other = {"HOLDFAST_JOB": "other", "HOLDFAST_JOB_UID": "u", "HOLDFAST_CHECKPOINT_RESUME": address}
    _, run = train(pod(f"{uri}-2", **other), 50, stop=10)
    assert run.resumed_from == 4
    assert FolderStorage(uri.removeprefix("file://")).keys("") == before  # read only
    _, run = train(pod(f"{uri}-2", 2, **other), 50, stop=20)
    assert run.resumed_from == 11  # the address counts once


@pytest.mark.parametrize("resume", ["Sometimes", "file:///nowhere/at/all", "s4://x/y"])
def test_resume_that_makes_no_sense(uri: str, resume: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        train(pod(uri, HOLDFAST_CHECKPOINT_RESUME=resume, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert ended.value.code == 78
    assert verdict(tmp_path)["result"] == "misconfigured"


def test_corrupt_newest_falls_back(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    losses, _ = train(pod(uri, HOLDFAST_CHECKPOINT_EVERY="2 steps"), 50, stop=6)
    folder = Path(uri.removeprefix("file://"))
    newest = max((folder / "manifests").iterdir())
    newest.write_bytes(newest.read_bytes().replace(b'"total"', b'"totul"'))
    again, run = train(pod(uri, 2), 50)
    assert run.resumed_from == 6
    assert again[0] == losses[6]
    assert "checkpoint of step 7 does not hold" in capsys.readouterr().err


def test_user_exception_is_a_failure(uri: str, tmp_path: Path) -> None:
    where = pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(ValueError, match="bad"), Run(counter=Counter(), environment=where) as run:
        for _ in run.steps(5):
            raise ValueError("bad")
    found = verdict(tmp_path)
    assert (found["result"], found["reason"], found["message"]) == ("failed", "UserException", "ValueError: bad")


def test_out_of_memory_is_named(uri: str, tmp_path: Path) -> None:
    where = pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(MemoryError), Run(counter=Counter(), environment=where):
        raise MemoryError
    assert verdict(tmp_path)["reason"] == "OutOfMemory"


class Flaky:
    """Breaks the folder store while `down`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.down = False
        self.error: StorageError = StorageUnreachableError("down")
        original = FolderStorage.put

        def put(store: FolderStorage, key: str, body: bytes | bytearray) -> None:
            if self.down:
                raise self.error
            original(store, key, body)

        monkeypatch.setattr(FolderStorage, "put", put)
        monkeypatch.setattr(session, "SAVE_PATIENCE", 0.0)
        monkeypatch.setattr(schedule, "RETRY_SECONDS", 0.0)
        monkeypatch.setattr(session, "FINAL_PATIENCE", 0.0)


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> Iterator[Flaky]:
    return Flaky(monkeypatch)  # type: ignore[return-value]


def test_storage_down_during_a_save_costs_no_training(uri: str, flaky: Flaky) -> None:
    where = pod(uri, HOLDFAST_CHECKPOINT_EVERY="5 steps")
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(20):
            settle(run)
            flaky.down = 4 <= step < 8
            if step == 9:
                assert run._saving.saved_step == 9  # as soon as it answered again, not five steps later
    assert run.step == 20


def test_last_save_that_fails_is_an_error(uri: str, flaky: Flaky, tmp_path: Path) -> None:
    """Else a training that is nowhere would count as completed."""
    flaky.down = True
    with pytest.raises(SystemExit) as ended:
        train(pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
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
    """A storage that has worked for this run is not misconfigured: the job is tried again, not ended for good."""
    if worked:
        train(pod(uri), 50, stop=3)
    flaky.down, flaky.error = True, StorageDeniedError("a rotated key")
    with pytest.raises(SystemExit) as ended:
        train(pod(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path)), 10)
    found = verdict(tmp_path)
    assert (ended.value.code, found["result"], found["reason"]) == end
    assert "a rotated key" in found["message"]


def test_completion_that_is_refused_is_tried_again(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StorageDeniedError("a rotated key")

    monkeypatch.setattr("holdfast_train.commitlog.checkpoints.Checkpoints.complete", refuse)
    with pytest.raises(SystemExit) as ended:
        train(pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert (ended.value.code, verdict(tmp_path)["savedStep"]) == (75, 5)


def test_save_that_is_refused_is_told_and_ends_nothing(uri: str, flaky: Flaky, endpoint: Endpoint) -> None:
    where = pod(uri, HOLDFAST_CHECKPOINT_EVERY="5 steps", **endpoint.variables)
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(20):
            settle(run)
            flaky.down, flaky.error = 8 <= step < 12, StorageDeniedError("a rotated\nkey")
            if step == 11:
                told = endpoint.wait_for(lambda r: r["saveError"] is not None)
                assert told["saveError"] == "StorageDenied: a rotated key"
                assert told["checkpoint"]["step"] == 5
            if step == 14:
                endpoint.wait_for(lambda r: r["saveError"] is None and (r["checkpoint"] or {}).get("step", 0) > 5)
    assert (run.step, run.left) == (20, False)
    assert endpoint.reports[-1]["saveError"] is None


def test_save_that_cannot_be_done_in_time_is_not_begun(uri: str, tmp_path: Path) -> None:
    where = pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
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


def test_a_metric_counts_for_the_step_at_which_it_was_reported(uri: str) -> None:
    """Breaks if a checkpoint of a step without an evaluation is among the best by the one before."""
    found = []
    with Run(counter=Counter(), environment=pod(uri)) as run:
        for step in run.steps(4):
            run.report(loss=10.0 - step, metrics={"accuracy": 0.5} if step == 1 else None)
            if step in (2, 3):
                assert run.save()
        storage = FolderStorage(uri.removeprefix("file://"))
        for key in storage.keys("manifests/"):
            found.append(decode(storage.get(key)).metrics)
    assert found == [{"loss": "9.0", "accuracy": "0.5"}, {"loss": "8.0"}]


def test_a_metric_that_is_no_number_is_named(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), Run(counter=Counter(), environment=pod(uri)) as run:
        for _ in run.steps(1):
            run.report(metrics={"words": "many"})
    assert "the metric 'words' given to run.report is a str, not one number" in capsys.readouterr().err


def test_leaving_does_not_wait_for_a_save_that_hangs(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the last save waits for memory that a save before it will not give back in time."""
    hanging = threading.Event()
    original = FolderStorage.write

    def write(*arguments: Any, **options: Any) -> None:
        assert hanging.wait(60)
        original(*arguments, **options)

    monkeypatch.setattr(FolderStorage, "write", write)
    monkeypatch.setattr("holdfast_train.save.saver.fits", lambda size: False)  # one arena, and no other
    where = pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), HOLDFAST_CHECKPOINT_EVERY="2 steps")
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(50):
            if step == 4:
                run._notice.give(1.0, "a short notice")
    assert (run.left, run.step) == (True, 5)
    assert verdict(tmp_path)["result"] == "left"
    hanging.set()


def test_notice_during_a_save_starts_no_other_step(uri: str, tmp_path: Path) -> None:
    class Slow(Counter):
        def state_dict(self) -> dict[str, Any]:
            if run.step == 5:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().state_dict()

    where = pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), HOLDFAST_CHECKPOINT_EVERY="5 steps")
    with Run(counter=Slow(), environment=where) as run:
        done = list(run.steps(50))
    assert done == [0, 1, 2, 3, 4]
    assert verdict(tmp_path)["result"] == "saved"
    assert len(FolderStorage(uri.removeprefix("file://")).keys("manifests/")) == 1


def test_drain_order_saves_and_leaves(uri: str, endpoint: Endpoint, tmp_path: Path) -> None:
    where = pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), **endpoint.variables)
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps():
            run.report(loss=1.5, samples=4)
            if step == 10:
                endpoint.wait_for(lambda r: r["state"] == "training")
                endpoint.order("drain", 15.0, "the node is going away")
            if step >= 10:
                endpoint.wait_for(lambda r: r["acknowledged"] == 1)
    assert run.left
    assert verdict(tmp_path)["result"] == "saved"
    assert "the node is going away" in verdict(tmp_path)["message"]
    last = endpoint.reports[-1]
    assert (last["state"], last["checkpoint"]["step"], last["step"]) == ("left", 11, 11)
    assert endpoint.wait_for(lambda r: r["fenced"])


def test_checkpoint_order_saves_and_stays(uri: str, endpoint: Endpoint) -> None:
    with Run(counter=Counter(), environment=pod(uri, **endpoint.variables)) as run:
        for step in run.steps(20):
            if step == 10:
                endpoint.order("checkpoint")
                endpoint.wait_for(lambda r: r["acknowledged"] == 1)
            if step == 12:
                assert endpoint.wait_for(lambda r: r["checkpoint"] is not None)["checkpoint"]["step"] == 11
    assert run.step == 20
    assert endpoint.reports[-1]["state"] == "completed"


def test_resume_is_reported(uri: str, endpoint: Endpoint) -> None:
    train(pod(uri), 50, stop=3)
    train(pod(uri, 2, **endpoint.variables), 50, stop=8)
    report = endpoint.wait_for(lambda r: r["resumedFrom"] is not None)
    assert report["resumedFrom"]["step"] == 4
    assert report["resumedFrom"]["uri"].startswith(uri)


def test_loop_of_another_shape(uri: str) -> None:
    counter = Counter()
    with Run(counter=counter, environment=pod(uri)) as run:
        while not run.should_stop:
            counter.add(run.step)
            run.advance(loss=1.0, samples=2)
            if run.step == 6:
                os.kill(os.getpid(), signal.SIGTERM)
    assert run.left
    assert run.step == 7


def test_what_a_checkpoint_lacks_is_named(uri: str, tmp_path: Path) -> None:
    train(pod(uri), 50, stop=3)
    where = pod(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit), Run(counter=Counter(), other=Counter(), environment=where):
        pytest.fail("entered")
    words = "holds no 'other', only 'counter': put the program back as it was, or start on another prefix"
    assert words in verdict(tmp_path)["message"]


class Picky(Counter):
    """Does not take a state."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def load_state_dict(self, state: Any, /) -> None:
        raise self.error


@pytest.mark.parametrize(
    "error", [RuntimeError("size mismatch:\n\tx"), ValueError("x"), KeyError("order"), TypeError("x")]
)
@pytest.mark.parametrize("alone", [False, True])
def test_state_that_does_not_fit_is_named(uri: str, tmp_path: Path, error: Exception, alone: bool) -> None:
    def objects(counter: Counter) -> dict[str, Any]:
        return {"other": Counter(), "per_rank": {"counter": counter}} if alone else {"counter": counter}

    with Run(**objects(Counter()), environment=pod(uri)) as run:
        next(run.steps(5))
        run.advance()
        assert run.save()
        run.left = True
    where = pod(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit) as ended, Run(**objects(Picky(error)), environment=where):
        pytest.fail("entered")
    assert ended.value.__cause__ is not None
    assert ended.value.__cause__.__cause__ is error
    found = verdict(tmp_path)
    assert found["reason"] == "StateInvalid"
    words = " ".join(str(error).split())
    assert f"'counter' does not take what {uri}/manifests/" in found["message"]
    assert f"holds: {type(error).__name__}: {words}. So put the program back as it was, or" in found["message"]


def test_of_many_words_what_to_do_is_not_cut_off(uri: str, tmp_path: Path) -> None:
    train(pod(uri), 50, stop=3)
    where = pod(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit), Run(counter=Picky(RuntimeError("size mismatch.\n" * 1000)), environment=where):
        pytest.fail("entered")
    assert " and more. So put the program back as it was, or start on another prefix" in verdict(tmp_path)["message"]


def test_no_memory_while_restoring_says_nothing_of_the_state(uri: str) -> None:
    class OutOfMemoryError(RuntimeError):
        """As torch's."""

    train(pod(uri), 50, stop=3)
    with pytest.raises(OutOfMemoryError), Run(counter=Picky(OutOfMemoryError()), environment=pod(uri, 2)):
        pytest.fail("entered")


class Told(Counter):
    """Hears how many steps are done, and says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[int] = []

    def trained(self, step: int) -> None:
        self.told.append(step)


def test_what_counts_steps_and_is_new_hears_how_many_are_done(uri: str) -> None:
    train(pod(uri), 50, stop=3)
    told = Told()
    with Run(counter=Counter(), per_rank={"told": told}, environment=pod(uri, 2)) as run:
        assert told.told == [4]
        run.advance()
        assert told.told == [4, 5]
        run.left = True


def test_a_run_of_state_that_each_rank_has_alone(uri: str) -> None:
    for attempt in (1, 2):
        with Run(per_rank={"counter": Counter()}, environment=pod(uri, attempt)) as run:
            assert run.resumed_from == (None, 1)[attempt - 1]
            next(run.steps(5))
            run.advance()
            assert run.save()
            run.left = True


def test_objects_without_state_are_refused() -> None:
    with pytest.raises(StateError, match="'model' is a int"):
        Run(model=3)  # type: ignore[arg-type]


def test_without_storage_it_runs_and_leaves(tmp_path: Path) -> None:
    _, run = train(pod(None, HOLDFAST_VERDICT_DIR=str(tmp_path)), 50, stop=3)
    assert run.left
    assert verdict(tmp_path)["result"] == "left"


def test_interval_in_seconds(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Run(counter=Counter(), environment=pod(uri, HOLDFAST_CHECKPOINT_EVERY="60s")) as run:
        for step in run.steps(20):
            if step == 7:
                run._saving.state_at -= 61
                continue
            settle(run)
            if step == 9:
                assert run._saving.saved_step == 8
    assert run._saving.saved_step == 20


@pytest.mark.parametrize(("before", "result"), [(4, "saved"), (0, "left")])
def test_told_to_leave_before_the_first_step(uri: str, tmp_path: Path, before: int, result: str) -> None:
    """Restoring took long, and the node goes already: no step is begun, and nothing is written twice."""
    if before:
        train(pod(uri), 50, stop=before - 1)
    where = pod(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with Run(counter=Counter(), environment=where) as run:
        os.kill(os.getpid(), signal.SIGTERM)
        assert list(run.steps(50)) == []
    assert (run.left, run.step, verdict(tmp_path)["result"]) == (True, before, result)
    assert len(FolderStorage(uri.removeprefix("file://")).keys("manifests/")) == (1 if before else 0)


def test_verdict_of_an_earlier_process_is_forgotten(uri: str, tmp_path: Path) -> None:
    """torchrun has restarted a rank that failed: if the pod is lost now, that is no failure any more."""
    (tmp_path / "rank-0.json").write_text('{"result": "failed"}')
    with Run(counter=Counter(), environment=pod(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))):
        assert not (tmp_path / "rank-0.json").exists()


def test_a_save_that_training_waits_for_hears_that_it_is_time_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if who waits goes by the time there was when the wait began: the pod would be killed in the middle."""
    go_on, original = threading.Event(), Checkpoints.publish

    def publish(*args: Any) -> Any:
        assert go_on.wait(30)
        return original(*args)

    monkeypatch.setattr(Checkpoints, "publish", publish)
    with Run(counter=Counter(), environment=pod(f"file://{tmp_path}/prefix")) as run:
        run.step = 1
        told = threading.Timer(0.1, lambda: run._notice.give(0.3, "a drain order"))
        told.start()
        assert not run.save()
        assert not go_on.is_set()
        told.join()
        go_on.set()
        run.left = True


def test_a_storage_that_is_silent_is_not_waited_for_beyond_the_time_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a notice changes nothing while the storage is tried again and again, at the very end for example."""
    asked: list[str] = []

    def silent(_: FolderStorage, key: str) -> bytes:
        asked.append(key)
        raise StorageUnreachableError("no answer")

    with Run(counter=Counter(), environment=pod(f"file://{tmp_path}/prefix")) as run:
        monkeypatch.setattr(FolderStorage, "get", silent)
        assert run._storage is not None
        with run._storage.within(1.0), pytest.raises(StorageUnreachableError):
            run._notice.give(0.0, "a drain order")
            run._storage.get("key")
        monkeypatch.undo()
        run.left = True
    assert asked == ["key"]
