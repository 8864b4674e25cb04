"""Run: start, resume, save and report. With plain Python state; torch is in test_language_model."""

import os
import random
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.runs import Flaky, hasty, settle, train, verdict
from tests.support.trainer.stores import environment
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Every
from holdfast_train import ElasticSampler, Run
from holdfast_train.errors import StateError, StorageDeniedError
from holdfast_train.examples.stub import Counter
from holdfast_train.format.manifest import decode
from holdfast_train.save.arena import Arena
from holdfast_train.storage.folder import FolderStorage


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
    whole, _ = train(environment(f"{uri}-whole"), 50)
    random.seed(1)
    np.random.seed(2)
    first, left = train(environment(uri), 50, stop=19)
    assert (left.left, left.step) == (True, 20)
    random.seed(99)  # another process has other numbers
    second, done = train(environment(uri, 2), 50)
    assert (done.resumed_from, done.left) == (20, False)
    assert first + second == whole


def test_lower_attempt_is_fenced_at_the_start(uri: str) -> None:
    train(environment(uri, 2), 50, stop=3)
    with pytest.raises(SystemExit) as ended:
        train(environment(uri, 1), 50)
    assert ended.value.code == 76


def test_prefix_of_another_job(uri: str, tmp_path: Path) -> None:
    train(environment(uri), 50, stop=3)
    other = environment(uri, HOLDFAST_JOB="other", HOLDFAST_JOB_UID="u", HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        train(other, 50)
    assert ended.value.code == 78
    found = verdict(tmp_path)
    assert (found["result"], found["reason"]) == ("misconfigured", "StoragePrefixInUse")


@pytest.mark.parametrize(("resume", "step"), [("Auto", 4), ("Never", None)])
def test_job_created_anew(uri: str, resume: str, step: int | None) -> None:
    train(environment(uri, 7), 50, stop=3)
    anew = environment(uri, 1, HOLDFAST_JOB_UID="uid-2", resume=resume)
    _, run = train(anew, 50, stop=10)
    assert run.resumed_from == step
    _, run = train(environment(uri, 2, HOLDFAST_JOB_UID="uid-2", resume=resume), 50, stop=20)
    assert run.resumed_from == 11


@pytest.mark.parametrize("whole_prefix", [True, False])
def test_resume_from_another_prefix(uri: str, tmp_path: Path, whole_prefix: bool) -> None:
    train(environment(uri), 50, stop=3)
    before = FolderStorage(uri.removeprefix("file://")).keys("")
    (manifest,) = FolderStorage(uri.removeprefix("file://")).keys("manifests/")
    address = uri if whole_prefix else f"{uri}/{manifest}"
    other = {"HOLDFAST_JOB": "other", "HOLDFAST_JOB_UID": "u", "resume": address}
    _, run = train(environment(f"{uri}-2", **other), 50, stop=10)
    assert run.resumed_from == 4
    assert FolderStorage(uri.removeprefix("file://")).keys("") == before  # read only
    _, run = train(environment(f"{uri}-2", 2, **other), 50, stop=20)
    assert run.resumed_from == 11  # the address counts once


# Breaks if nothing says that a checkpoint is of other code than the one that goes on.
def test_other_code(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(environment(uri, code="a" * 64), 50, stop=3)
    train(environment(uri, 2, code="a" * 64), 50, stop=6)
    assert "CodeChanged" not in capsys.readouterr().err
    train(environment(uri, 3, code="b" * 64), 50, stop=9)
    said = capsys.readouterr().err
    assert (
        "CodeChanged: the folder of the program (trainer.code) is bbbbbbbbbbbb, the checkpoint's was aaaaaaaaaa" in said
    )


@pytest.mark.parametrize("resume", ["Sometimes", "file:///nowhere/at/all", "s4://x/y"])
def test_resume_that_makes_no_sense(uri: str, resume: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        train(environment(uri, resume=resume, HOLDFAST_VERDICT_DIR=str(tmp_path)), 5)
    assert ended.value.code == 78
    assert verdict(tmp_path)["result"] == "misconfigured"


def test_corrupt_newest_falls_back(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    losses, _ = train(environment(uri, every=Every(2)), 50, stop=6)
    folder = Path(uri.removeprefix("file://"))
    newest = max((folder / "manifests").iterdir())
    newest.write_bytes(newest.read_bytes().replace(b'"total"', b'"totul"'))
    again, run = train(environment(uri, 2), 50)
    assert run.resumed_from == 6
    assert again[0] == losses[6]
    assert "checkpoint of step 7 is broken" in capsys.readouterr().err


def test_storage_down_during_a_save_costs_no_training(uri: str, flaky: Flaky) -> None:
    where = hasty(uri, every=Every(5))
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(20):
            settle(run)
            flaky.down = 4 <= step < 8
            if step == 8:  # as soon as the storage answers again, not when the next save is due
                wait_for(lambda: run._saving.saved_step == 5, 30, "the copy of step 5 to be committed")
    assert run.step == 20


def test_a_save_that_is_refused_is_reported_and_training_goes_on(uri: str, flaky: Flaky, endpoint: Endpoint) -> None:
    where = hasty(uri, retry=0.0, every=Every(5), **endpoint.variables)
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


def test_a_metric_counts_for_the_step_at_which_it_was_reported(uri: str) -> None:
    """Breaks if a step without an evaluation is ranked by the metric of an earlier step."""
    found = []
    with Run(counter=Counter(), environment=environment(uri)) as run:
        for step in range(4):
            if step in (2, 3):
                assert run.save()
            run.report(loss=10.0 - step, metrics={"accuracy": 0.5} if step == 1 else None)
            run.advance()
        storage = FolderStorage(uri.removeprefix("file://"))
        for key in storage.keys("manifests/"):
            found.append(decode(storage.get(key)).metrics)
    assert found == [{"loss": "9.0", "accuracy": "0.5"}, {"loss": "8.0"}]


def test_notice_during_a_save_starts_no_other_step(uri: str, tmp_path: Path) -> None:
    class Slow(Counter):
        def state_dict(self) -> dict[str, Any]:
            if run.step == 5:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().state_dict()

    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), every=Every(5))
    with Run(counter=Slow(), environment=where) as run:
        done = list(run.steps(50))
    assert done == [0, 1, 2, 3, 4]
    assert verdict(tmp_path)["result"] == "saved"
    assert len(FolderStorage(uri.removeprefix("file://")).keys("manifests/")) == 1


def test_drain_order_saves_and_leaves(uri: str, endpoint: Endpoint, tmp_path: Path) -> None:
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path), **endpoint.variables)
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
    with Run(counter=Counter(), environment=environment(uri, **endpoint.variables)) as run:
        for step in run.steps(20):
            if step == 10:
                endpoint.order("checkpoint")
                endpoint.wait_for(lambda r: r["acknowledged"] == 1)
            if step == 12:
                assert endpoint.wait_for(lambda r: r["checkpoint"] is not None)["checkpoint"]["step"] == 11
    assert run.step == 20
    assert endpoint.reports[-1]["state"] == "completed"


def test_resume_is_reported(uri: str, endpoint: Endpoint) -> None:
    train(environment(uri), 50, stop=3)
    train(environment(uri, 2, **endpoint.variables), 50, stop=8)
    report = endpoint.wait_for(lambda r: r["resumedFrom"] is not None)
    assert report["resumedFrom"]["step"] == 4
    assert report["resumedFrom"]["uri"].startswith(uri)


# Breaks if a program whose data starts again after a resume is not told so, or one whose sampler goes on is.
@pytest.mark.parametrize("has_sampler", [True, False])
def test_data_that_starts_again_is_said_in_log_and_report(
    uri: str, endpoint: Endpoint, capsys: pytest.CaptureFixture[str], has_sampler: bool
) -> None:
    for attempt in (1, 2):
        objects = {"sampler": ElasticSampler(100, batch=10)} if has_sampler else {"counter": Counter()}
        with Run(environment=environment(uri, attempt, **endpoint.variables), **objects) as run:
            run.advance(loss=1.0)
            assert run.save()
            run.left = True
    said = "no sampler or data loader is among the objects of Run: unless the program itself goes to step 1 in its data"
    note = endpoint.wait_for(lambda r: r["resumedFrom"] is not None)["resumedFrom"]["note"]
    assert (said in note, said in capsys.readouterr().err) == ((not has_sampler,) * 2)


def test_the_first_step_is_reported_with_every_later_one(uri: str, endpoint: Endpoint) -> None:
    """Breaks if the operator has to guess it from the first report that it gets, which may be late."""
    train(environment(uri), 50, stop=3)
    train(environment(uri, 2, **endpoint.variables), 50, stop=8)
    last = endpoint.wait_for(lambda r: r["state"] == "left")
    assert (last["step"], last["firstStep"]["step"]) == (9, 5)
    assert float(last["firstStep"]["secondsAgo"]) >= 0
    assert all(report["firstStep"] is None for report in endpoint.reports if (report["step"] or 0) < 5)


def test_loop_of_another_shape(uri: str) -> None:
    counter = Counter()
    with Run(counter=counter, environment=environment(uri)) as run:
        while not run.should_stop:
            counter.add(run.step)
            run.advance(loss=1.0, samples=2)
            if run.step == 6:
                os.kill(os.getpid(), signal.SIGTERM)
    assert run.left
    assert run.step == 7


# Breaks if a program that does not ask whether it has to stop saves twice, or ends as one whose fence a newer attempt
# has taken.
def test_a_loop_that_trains_on_after_a_notice_is_ended(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counter = Counter()
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit) as end, Run(counter=counter, environment=where) as run:
        while run.step < 10:
            counter.add(run.step)
            if run.step == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            run.advance()
    assert (end.value.code, run.step, verdict(tmp_path)["result"]) == (0, 4, "saved")
    told = capsys.readouterr().err
    assert told.count("notice to leave") == 1
    assert "trains on after it had to leave at step 4" in told


def test_an_object_that_the_checkpoint_lacks_is_named(uri: str, tmp_path: Path) -> None:
    train(environment(uri), 50, stop=3)
    where = environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit), Run(counter=Counter(), other=Counter(), environment=where):
        pytest.fail("entered")
    message = verdict(tmp_path)["message"]
    assert "ObjectAdded: Run is given 'other', which the checkpoint does not contain" in message
    assert 'Undo this change, or accept it with Run(rules={"ObjectAdded": "warn"}, ...)' in message


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_object_that_was_added_is_accepted_by_a_rule(
    uri: str, elsewhere: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    train(environment(uri), 50, stop=3)
    where = environment(uri, 2)
    if elsewhere:
        where = environment(f"{uri}-2", HOLDFAST_JOB="other", resume=uri)
    other = Counter()
    with Run(counter=Counter(), other=other, rules={"ObjectAdded": "warn"}, environment=where) as run:
        assert (run.resumed_from, other.total) == (4, 0)
        other.total = 7
        run.advance()
        assert run.save()
        run.left = True
    assert "the checkpoint has no object 'other': it keeps its initial state" in capsys.readouterr().err
    again = Counter()
    with Run(counter=Counter(), other=again, environment=replace(where, identity=replace(where.identity, attempt=3))):
        assert again.total == 7


# Breaks if a save that the program has spoilt is repeated after the time that a storage gets to recover.
def test_a_save_that_was_given_up_is_repeated_at_the_next_step(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reached, may_go_on = threading.Event(), threading.Event()
    original = Arena.copy_from

    def copy_from(*arguments: Any) -> None:
        if threading.current_thread().name == "holdfast-capture":
            reached.set()
            assert may_go_on.wait(30)
        original(*arguments)

    monkeypatch.setattr(Arena, "copy_from", copy_from)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    where = environment(uri, every=Every(2))
    with Run(model=model, optimizer=optimizer, environment=where) as run:
        for step in run.steps(4):
            if step == 2:
                assert reached.wait(30)
                with torch.no_grad():
                    model.weight.add_(1.0)
                may_go_on.set()
                settle(run)
                assert run._saving.saved_step is None
            optimizer.zero_grad()
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
            if step == 3:
                settle(run)
                assert run._saving.saved_step == 3
    assert "code other than the optimizer changed a parameter while it was copied" in capsys.readouterr().err


def test_an_object_that_was_removed_is_said(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Breaks if the state of an object is dropped in silence."""
    with Run(counter=Counter(), ema=Counter(), per_rank={"noise": Counter()}, environment=environment(uri)) as run:
        run.advance()
        assert run.save()
        run.left = True
    with Run(counter=Counter(), environment=environment(uri, 2)) as run:
        run.left = True
    told = capsys.readouterr().err
    assert "ObjectRemoved: the checkpoint contains 'ema', which Run is not given: it is not restored" in told
    assert "the checkpoint contains 'noise' of rank 0, which per_rank does not contain: not restored" in told
    where = environment(uri, 3, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit), Run(counter=Counter(), rules={"ObjectRemoved": "refuse"}, environment=where):
        pytest.fail("entered")
    assert verdict(tmp_path)["reason"] == "StateInvalid"


def test_a_checkpoint_with_none_of_the_objects_is_refused(uri: str, tmp_path: Path) -> None:
    train(environment(uri), 50, stop=3)
    where = environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit), Run(model=Counter(), rules={"ObjectAdded": "warn"}, environment=where):
        pytest.fail("entered")
    assert "has only 'counter', and none of 'model'" in verdict(tmp_path)["message"]


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

    with Run(**objects(Counter()), environment=environment(uri)) as run:
        next(run.steps(5))
        run.advance()
        assert run.save()
        run.left = True
    where = environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit) as ended, Run(**objects(Picky(error)), environment=where):
        pytest.fail("entered")
    assert ended.value.__cause__ is not None
    assert ended.value.__cause__.__cause__ is error
    found = verdict(tmp_path)
    assert found["reason"] == "StateInvalid"
    words = " ".join(str(error).split())
    assert f"'counter' cannot load its state from {uri}/manifests/" in found["message"]
    assert f": {type(error).__name__}: {words}. So undo the change of the program, or" in found["message"]


def test_a_long_error_keeps_its_advice(uri: str, tmp_path: Path) -> None:
    train(environment(uri), 50, stop=3)
    where = environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with pytest.raises(SystemExit), Run(counter=Picky(RuntimeError("size mismatch.\n" * 1000)), environment=where):
        pytest.fail("entered")
    assert " and more. So undo the change of the program, or start on another prefix" in verdict(tmp_path)["message"]


def test_out_of_memory_during_a_restore_is_not_a_state_error(uri: str) -> None:
    class OutOfMemoryError(RuntimeError):
        """As torch's."""

    train(environment(uri), 50, stop=3)
    with pytest.raises(OutOfMemoryError), Run(counter=Picky(OutOfMemoryError()), environment=environment(uri, 2)):
        pytest.fail("entered")


class CountsSteps(Counter):
    """Is given the number of steps done."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []

    def trained(self, step: int) -> None:
        self.steps.append(step)


def test_a_new_object_that_counts_steps_gets_the_number_done(uri: str) -> None:
    train(environment(uri), 50, stop=3)
    counts = CountsSteps()
    with Run(counter=Counter(), per_rank={"counts": counts}, environment=environment(uri, 2)) as run:
        assert counts.steps == [4]
        run.advance()
        assert counts.steps == [4, 5]
        run.left = True


def test_a_run_with_state_per_rank_only(uri: str) -> None:
    for attempt in (1, 2):
        with Run(per_rank={"counter": Counter()}, environment=environment(uri, attempt)) as run:
            assert run.resumed_from == (None, 1)[attempt - 1]
            next(run.steps(5))
            run.advance()
            assert run.save()
            run.left = True


def test_objects_without_state_are_refused() -> None:
    with pytest.raises(StateError, match="'model' is a int"):
        Run(model=3)  # type: ignore[arg-type]


def test_interval_in_seconds(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Run(counter=Counter(), environment=environment(uri, every=Every(seconds=60))) as run:
        for step in run.steps(20):
            if step == 7:
                run._saving.state_at -= 61
                continue
            settle(run)
            if step == 9:
                assert run._saving.saved_step == 8
    assert run._saving.saved_step == 20


def test_verdict_of_an_earlier_process_is_forgotten(uri: str, tmp_path: Path) -> None:
    """torchrun has restarted a failed rank: if the pod is lost now, that is not a failure any more."""
    (tmp_path / "rank-0.json").write_text('{"rank": 0, "result": "failed"}')
    with Run(counter=Counter(), environment=environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))):
        assert verdict(tmp_path)["result"] == "running"
