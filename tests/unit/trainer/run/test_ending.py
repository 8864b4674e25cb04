"""How a run ends: the verdict, the exit code, the last save and the completion."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.adapted import Adapted
from tests.support.trainer.inside import believe_saves_cost, give_notice, save_in_step, settle
from tests.support.trainer.runs import Flaky, hasty, train, verdict
from tests.support.trainer.stores import environment
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Every
from holdfast_train import Run
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.environment import Environment
from holdfast_train.errors import StorageDeniedError, StorageUnreachableError
from holdfast_train.examples.stub import Counter
from holdfast_train.ranks import Ranks
from holdfast_train.save import job
from holdfast_train.save.upload import Upload
from holdfast_train.storage.folder import FolderStorage


def test_leaving_writes_a_verdict(uri: str, tmp_path: Path) -> None:
    train(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 50, stop=3)
    found = verdict(tmp_path)
    assert (found["result"], found["step"], found["savedStep"]) == ("saved", 4, 4)


def test_a_run_that_has_begun_says_so_until_it_ends(uri: str, tmp_path: Path) -> None:
    """Breaks if a process that dies inside its Run looks like a program that does not use the library."""
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with Run(counter=Counter(), environment=where) as run:
        assert (verdict(tmp_path)["result"], verdict(tmp_path).get("step")) == ("running", None)
        list(run.steps(2))
    assert verdict(tmp_path)["result"] == "completed"
    with Run(counter=Counter(), environment=environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))):
        assert not (tmp_path / "rank-0.json").exists()  # an earlier attempt has completed the training


def test_completion_is_recorded_and_final(uri: str, tmp_path: Path) -> None:
    train(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert (verdict(tmp_path)["result"], verdict(tmp_path)["savedStep"]) == ("completed", 5)
    losses, run = train(environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path)), 10)
    assert (losses, run.step, run.resumed_from, run.left) == ([], 5, 5, False)
    found = verdict(tmp_path)
    assert (found["result"], found["reason"], found["step"]) == ("completed", "AlreadyComplete", 5)
    assert (found["savedStep"], FolderStorage(uri.removeprefix("file://")).keys("log/")[5:]) == (5, [])


def decide(where: Environment, *, notice: bool = False) -> Run:
    """A training without a goal, which decides in step 3 that it ends with this step."""
    counter = Counter()
    with Run(counter=counter, environment=where) as run:
        for step in run.steps():
            counter.add(step)
            assert step <= 3
            if step == 3:
                run.finish()
                if notice:
                    give_notice(run, 20.0)
    return run


def test_a_notice_does_not_change_the_decision_to_end(uri: str, tmp_path: Path) -> None:
    """Breaks if the next attempt of a training that has ended trains on."""
    run = decide(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), notice=True)
    assert (run.step, run.left, verdict(tmp_path)["result"]) == (4, False, "completed")


def test_the_decision_to_end_is_in_the_last_checkpoint(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a node that is lost after the last checkpoint, and before its record, lets the training go on."""
    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "complete", lambda *_: os._exit(9))
        child = os.fork()
        if not child:
            decide(environment(uri))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with Run(counter=Counter(), environment=environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))) as run:
        assert (run.resumed_from, run.should_stop, list(run.steps(10))) == (4, True, [])
    assert (verdict(tmp_path)["result"], verdict(tmp_path)["step"]) == ("completed", 4)


def test_another_job_goes_on_from_the_end_of_a_training(uri: str, tmp_path: Path) -> None:
    """Breaks if a job that is created again, with a larger goal, trains no step."""
    train(environment(uri), 4)
    again = environment(uri, HOLDFAST_JOB_UID="uid-2")
    assert train(again, 6)[1].step == 6
    other = environment(f"file://{tmp_path}/other", resume=uri)
    assert train(other, 7)[1].step == 7


def test_what_comes_after_the_training_runs_again_with_its_last_state(uri: str, endpoint: Endpoint) -> None:
    """Breaks if a program that fails after its training is not given the trained state by the next attempt."""
    train(environment(uri), 5)
    counter = Counter()
    with Run(counter=counter, environment=environment(uri, 2, **endpoint.variables)) as run:
        assert run.should_stop
        assert list(run.steps()) == []
        assert not run.save()
    assert counter.total == 15
    last = endpoint.reports[-1]
    assert (last["state"], last["step"], last["fenced"]) == ("completed", 5, False)
    assert last["resumedFrom"]["note"] == "training was complete already"


def test_a_loop_that_trains_on_after_the_end_of_training_is_ended(uri: str, tmp_path: Path) -> None:
    train(environment(uri), 5)
    where = environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit) as ended, Run(counter=Counter(), environment=where) as run:
        run.advance()
    assert (ended.value.code, verdict(tmp_path)["reason"]) == (0, "AlreadyComplete")


@pytest.mark.parametrize("broken", [True, False])
def test_a_complete_training_without_its_last_checkpoint_is_refused(uri: str, tmp_path: Path, broken: bool) -> None:
    """Breaks if the rest of the program gets an older state than the trained one."""
    train(environment(uri, every=Every(2)), 5)
    (newest,) = (Path(uri.removeprefix("file://")) / "manifests").glob("000000000005-*")
    newest.write_bytes(b"{}") if broken else newest.unlink()
    with pytest.raises(SystemExit) as ended:
        train(environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert (ended.value.code, verdict(tmp_path)["reason"]) == (78, "CheckpointNotFound")


def test_a_second_run_after_the_first_has_completed_is_refused(uri: str, tmp_path: Path) -> None:
    """Breaks if the second phase of a program is skipped in silence, or gets the state of the first."""
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    train(where, 5)
    with pytest.raises(SystemExit) as ended:
        train(where, 5)
    found = verdict(tmp_path)
    assert (ended.value.code, found["result"], found["reason"]) == (1, "failed", "StateInvalid")
    assert "a second Run, and its first one has completed its training" in found["message"]


def test_a_second_run_inside_the_first_is_refused(uri: str, tmp_path: Path) -> None:
    """Breaks if the two fence each other off, which looks like a loss and is repeated for ever."""
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit) as ended, Run(counter=Counter(), environment=where):
        train(where, 5)
    found = verdict(tmp_path)
    assert (ended.value.code, found["result"]) == (1, "failed")
    assert "a second Run, and its first one runs" in found["message"]


def test_a_run_after_one_that_has_left_ends_the_program_as_saved(uri: str, tmp_path: Path) -> None:
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    train(where, 50, stop=3)
    with pytest.raises(SystemExit) as ended:
        train(where, 50)
    assert (ended.value.code, verdict(tmp_path)["result"]) == (0, "saved")


def test_a_run_after_one_that_has_failed_trains_on(uri: str) -> None:
    where = environment(uri)
    with pytest.raises(ValueError, match="bad"), Run(counter=Counter(), environment=where):
        raise ValueError("bad")
    _, run = train(where, 5)
    assert run.step == 5


def test_sigterm_in_the_last_step_still_completes(uri: str, tmp_path: Path) -> None:
    _, run = train(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5, stop=4)
    assert (run.left, verdict(tmp_path)["result"]) == (False, "completed")


def test_zombie_ends_fenced(uri: str, tmp_path: Path) -> None:
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), every=Every(5))
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
        train(hasty(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
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
        train(hasty(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path)), 10)
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
                save_in_step(run)
                believe_saves_cost(run, 30.0, 30.0)
            if step == 4:
                give_notice(run, 2.0, "a short notice")
    assert run.step == 5
    found = verdict(tmp_path)
    assert (found["result"], found["savedStep"]) == ("left", 2)


def test_the_last_save_of_an_adapter_is_as_short_as_its_upload(uri: str, tmp_path: Path) -> None:
    """Breaks if the estimate counts the base model, which the first save has stored."""
    model = Adapted()
    with Run(model=model, environment=environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))) as run:
        for step in run.steps(50):
            if step == 2:
                save_in_step(run)
                believe_saves_cost(run, 0.0, 100.0)
            if step == 4:
                give_notice(run, 20.0, "a notice")
    assert (verdict(tmp_path)["result"], verdict(tmp_path)["savedStep"]) == ("saved", 5)


class TwoRanks(Ranks):
    """This process is rank 0, on a node that stays; `gather` adds what rank 1 says, whose node has to go."""

    def __init__(self) -> None:
        super().__init__(connect=False)

    def gather(self, value: Any) -> list[Any]:
        return [value, ("SIGTERM", 1.5)]


# Breaks if rank 0 begins a save that the node of another rank does not live to see.
def test_the_earliest_deadline_of_all_nodes_counts(uri: str, tmp_path: Path) -> None:
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), grace=3600)
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(50):
            if step == 2:
                save_in_step(run)
                believe_saves_cost(run, 30.0, 30.0)
                run._ending._ranks = TwoRanks()
                run._ending.leave(step + 1)
    found = verdict(tmp_path)
    assert (found["result"], found["savedStep"]) == ("left", 2)
    assert "notice to leave (SIGTERM) at step 3" in found["message"]
    assert run._notice.seconds_left() <= 1.5


def test_leaving_does_not_wait_for_a_save_that_hangs(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the last save waits for memory that an earlier save does not free in time."""
    hanging = threading.Event()
    original = FolderStorage.write

    def write(*arguments: Any, **options: Any) -> None:
        assert hanging.wait(60)
        original(*arguments, **options)

    monkeypatch.setattr(FolderStorage, "write", write)
    monkeypatch.setattr("holdfast_train.save.arena.fits", lambda size: False)  # one arena, and no other
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), every=Every(2))
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(50):
            if step == 4:
                give_notice(run, 1.0, "a short notice")
    assert (run.left, run.step) == (True, 5)
    assert verdict(tmp_path)["result"] == "left"
    hanging.set()


def test_a_pod_that_leaves_gives_up_what_its_writer_keeps(
    uri: str, flaky: Flaky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if the writer uploads on, for a commit that the log refuses after the handover."""
    before, tries, run_job = set(threading.enumerate()), list[int](), Upload.run

    def count(upload: Upload, one: job.Job) -> Any:
        tries.append(one.save.step)
        return run_job(upload, one)

    monkeypatch.setattr(Upload, "run", count)
    where = hasty(uri, retry=1e9, HOLDFAST_VERDICT_DIR=str(tmp_path), every=Every(2))
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(50):
            settle(run)
            flaky.down = step == 3  # the save after step 4
            if step == 4:
                assert run._checkpointer is not None
                assert run._checkpointer.saver._arenas.names("kept")
                believe_saves_cost(run, 30.0, 30.0)
                give_notice(run, 2.0, "a short notice")
    wait_for(lambda: set(threading.enumerate()) <= before, 30, "the writer to end")
    assert (verdict(tmp_path)["result"], tries) == ("left", [2, 4])


def test_without_storage_it_runs_and_leaves(tmp_path: Path) -> None:
    _, run = train(environment(None, HOLDFAST_VERDICT_DIR=str(tmp_path)), 50, stop=3)
    assert run.left
    assert verdict(tmp_path)["result"] == "left"


@pytest.mark.parametrize(("before", "result"), [(4, "saved"), (0, "left")])
def test_a_notice_before_the_first_step(uri: str, tmp_path: Path, before: int, result: str) -> None:
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

    def publish(*args: Any, **more: Any) -> Any:
        assert go_on.wait(30)
        return original(*args, **more)

    monkeypatch.setattr(Checkpoints, "publish", publish)
    with Run(counter=Counter(), environment=environment(f"file://{tmp_path}/prefix")) as run:
        run.step = 1
        told = threading.Timer(0.1, lambda: give_notice(run, 0.3))
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
            give_notice(run, 0.0)
            run._storage.get("key")
        monkeypatch.undo()
        run.left = True
    assert asked == ["key"]
