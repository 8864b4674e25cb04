"""Make before break: an attempt that leaves hands over, and its successor waits at the fence until then."""

import os
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer import stores
from tests.support.trainer.inside import believe_saves_cost, give_notice, save_in_step
from tests.support.trainer.runs import verdict

from holdfast_protocol.orders import Order
from holdfast_train import Run
from holdfast_train.commitlog import records as log
from holdfast_train.environment import Environment
from holdfast_train.errors import StorageDeniedError, StorageError, StorageUnreachableError
from holdfast_train.examples.stub import Counter
from holdfast_train.run import ending
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.timings import Timings

WAIT = 20.0


def environment(uri: str | None, attempt: int = 1, /, **more: Any) -> Environment:
    """The last report is looked at, and the machine may be busy."""
    return replace(stores.environment(uri, attempt, **more), timings=Timings(fence_look=0.01, farewell=WAIT))


def slow(where: Environment) -> Environment:
    """A wait for the next look at the log never ends."""
    return replace(where, timings=replace(where.timings, fence_look=3600.0))


def successor(uri: str, attempt: int = 2, /, **more: str) -> Environment:
    return environment(uri, attempt, HOLDFAST_PREDECESSOR="1", **more)


def records(uri: str) -> list[log.Record]:
    storage = FolderStorage(uri.removeprefix("file://"))
    return [log.decode(storage.get(key), seq)[0] for seq, key in enumerate(storage.keys("log/"), 1)]


def kinds(uri: str) -> list[tuple[str, int]]:
    return [(record.kind, record.identity.attempt) for record in records(uri)]


def leave(run: Run) -> None:
    give_notice(run, 10.0, "a test")


def trained(where: Environment, goal: int, stop: int | None = None) -> tuple[Run, Counter]:
    """A training to its end. `stop`: a notice comes in this step."""
    counter = Counter()
    with Run(counter=counter, environment=where) as run:
        for step in run.steps(goal):
            counter.add(step)
            if step == stop:
                leave(run)
    return run, counter


def aside(where: Environment, goal: int) -> Future[tuple[Run, Counter]]:
    """Trains in another thread, as another pod would."""
    future: Future[tuple[Run, Counter]] = Future()

    def work() -> None:
        try:
            future.set_result(trained(where, goal))
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def still_training(uri: str) -> Run:
    """An attempt 1 that does not leave; the main thread's SIGTERM is not its own."""
    run = Run(counter=Counter(), environment=environment(uri)).__enter__()
    run._notice.stop_listening()
    return run


# The predecessor's side.


def test_leaving_hands_over_once(uri: str) -> None:
    trained(environment(uri), 50, stop=6)
    assert kinds(uri) == [("owner", 1), ("fence", 1), ("commit", 1), ("handover", 1)]
    assert records(uri)[-1].step == 7


def test_leaving_before_anything_is_saved_hands_over(uri: str) -> None:
    with Run(counter=Counter(), environment=environment(uri)) as run:
        leave(run)
        assert list(run.steps(5)) == []
    assert kinds(uri)[-1] == ("handover", 1)
    assert records(uri)[-1].step is None


def test_a_rank_that_leaves_for_the_notice_of_another_rank_hands_over(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0, which writes, has no deadline of its own."""
    with Run(counter=Counter(), environment=environment(uri)) as run:
        for step in run.steps(50):
            if step == 3:
                monkeypatch.setattr(run._ranks, "any", lambda *flags: (True, *(False for _ in flags[1:])))
    assert (run.left, run.step) == (True, 4)
    assert kinds(uri)[-2:] == [("commit", 1), ("handover", 1)]


@pytest.mark.parametrize("reason", ["fails", "is not begun"])
def test_leaving_without_its_save_hands_over(uri: str, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    with Run(counter=Counter(), environment=environment(uri)) as run:
        for step in run.steps(50):
            if step == 3:
                save_in_step(run)
            if step == 6:
                if reason == "fails":
                    monkeypatch.setattr(FolderStorage, "put", denied)
                else:
                    believe_saves_cost(run, 30.0, 30.0)
                leave(run)
    assert kinds(uri)[-2:] == [("commit", 1), ("handover", 1)]
    assert records(uri)[-1].step == 3


def denied(*_: object) -> None:
    raise StorageDeniedError("a rotated key")


def test_completion_and_failure_do_not_hand_over(uri: str) -> None:
    with pytest.raises(ValueError, match="bad"), Run(counter=Counter(), environment=environment(uri)) as run:
        for _ in run.steps(5):
            raise ValueError("bad")
    assert kinds(uri) == [("owner", 1), ("fence", 1)]
    trained(environment(uri, 2), 5)
    assert kinds(uri)[2:] == [("fence", 2), ("commit", 2), ("complete", 2)]


def test_nothing_is_committed_by_a_loop_that_goes_on_by_mistake(uri: str) -> None:
    with pytest.raises(SystemExit) as ended, Run(counter=Counter(), environment=environment(uri)) as run:
        for _ in range(20):
            run.advance()
            if run.step == 5:
                leave(run)
    assert (ended.value.code, run.step) == (0, 6)
    assert kinds(uri) == [("owner", 1), ("fence", 1), ("commit", 1), ("handover", 1)]


def test_handover_that_fails_changes_nothing_else(uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    where = environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path))
    with Run(counter=Counter(), environment=where) as run:
        for step in run.steps(50):
            if step == 3:
                save_in_step(run)
                monkeypatch.setattr(FolderStorage, "put_if_absent", denied)
                leave(run)
                run._saving.saved_step = 4  # nothing to save, only to hand over
    assert (run.left, verdict(tmp_path)["result"]) == (True, "saved")


def test_verdict_is_written_before_the_handover(uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A handover may use up the time that is left; without a verdict the save would not be known."""
    found: list[str] = []
    monkeypatch.setattr(ending, "hand_over", lambda *_: found.append(verdict(tmp_path)["result"]))
    trained(environment(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)), 50, stop=3)
    assert found == ["saved"]


# The successor's side.


def test_successor_goes_on_at_the_very_step(uri: str, endpoint: Endpoint) -> None:
    ours = Counter()
    with Run(counter=ours, environment=environment(uri)) as first:
        for step in first.steps(50):
            ours.add(step)
            if step == 3:
                future = aside(successor(uri, **endpoint.variables), 20)
                endpoint.wait_for(lambda r: r["state"] == "waiting")
            if step == 6:
                assert ("fence", 2) not in kinds(uri)
                leave(first)
    run, counter = future.result(WAIT)
    assert (run.resumed_from, run.step, run.left, counter.total) == (7, 20, False, 210)
    assert kinds(uri)[2:] == [("commit", 1), ("handover", 1), ("fence", 2), ("commit", 2), ("complete", 2)]
    states = [report["state"] for report in endpoint.reports]
    assert "training" not in states[: states.index("waiting")]
    assert endpoint.reports[states.index("waiting")]["fenced"] is False
    assert states[-1] == "completed"


def test_its_start_goes_on_after_the_wait(uri: str, endpoint: Endpoint) -> None:
    """Breaks if a long restore is reported as a wait for the predecessor."""

    class Slow(Counter):
        def load_state_dict(self, state: Mapping[str, Any], /) -> None:
            endpoint.wait_for(lambda r: r["state"] == "starting" and r["fenced"])
            super().load_state_dict(state)

    trained(environment(uri), 50, stop=3)
    with Run(counter=Slow(), environment=successor(uri, **endpoint.variables)) as run:
        assert run.resumed_from == 4
        run.left = True


def test_order_lets_it_go_on(uri: str, endpoint: Endpoint) -> None:
    """The predecessor's pod is gone without a handover: the operator knows that, the log does not."""
    still_training(uri)
    future = aside(slow(successor(uri, **endpoint.variables)), 5)
    endpoint.wait_for(lambda r: r["state"] == "waiting")
    endpoint.order("go", reason="attempt 1 has ended")
    run, _ = future.result(WAIT)
    assert run.step == 5
    assert kinds(uri)[-1] == ("complete", 2)


def test_an_order_before_the_wait(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It comes with the answer to the first report, which is sent before anything else."""
    with Run(counter=Counter(), environment=environment(uri)) as first:
        run = Run(counter=Counter(), environment=successor(uri))
        run._on_order(Order(1, "go", 0.0, "attempt 1 has ended"))
        with run:
            run.left = True
        first.left = True
    assert kinds(uri)[-1] == ("fence", 2)
    assert "until: ordered to pass the fence (attempt 1 has ended)" in capsys.readouterr().err


@pytest.mark.parametrize("error", [StorageUnreachableError("down"), StorageDeniedError("a rotated key")])
def test_log_out_of_reach_during_the_wait(
    uri: str, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint, error: StorageError
) -> None:
    trained(environment(uri), 50, stop=3)
    read, tries = FolderStorage.keys, threading.Semaphore(0)

    def fail(*_: object) -> list[str]:
        tries.release()
        raise error

    monkeypatch.setattr(FolderStorage, "keys", fail)
    future = aside(successor(uri, **endpoint.variables), 20)
    for _ in range(3):
        assert tries.acquire(timeout=WAIT)
    monkeypatch.setattr(FolderStorage, "keys", read)
    assert future.result(WAIT)[0].resumed_from == 4


def test_a_successor_of_a_completed_training_does_the_rest_after_the_order(uri: str, tmp_path: Path) -> None:
    """Breaks if both export their model at once: the predecessor may not have ended."""
    trained(environment(uri), 5)
    before = kinds(uri)
    run = Run(counter=Counter(), environment=successor(uri, HOLDFAST_VERDICT_DIR=str(tmp_path)))
    run._fence_wait.end("ordered to pass the fence")
    with run:
        assert list(run.steps(9)) == []
    assert (verdict(tmp_path)["reason"], run.step, kinds(uri)) == ("AlreadyComplete", 5, before)


@pytest.mark.parametrize(
    ("first", "code"),
    [({"HOLDFAST_JOB": "other", "HOLDFAST_JOB_UID": "u"}, 78), ({"HOLDFAST_ATTEMPT": "3"}, 76)],
)
def test_errors_of_the_fence_are_not_waited_for(uri: str, first: dict[str, str], code: int) -> None:
    trained(environment(uri, **first), 50, stop=3)
    with pytest.raises(SystemExit) as ended:
        trained(successor(uri), 5)
    assert ended.value.code == code


def test_without_storage_nothing_is_waited_for() -> None:
    run, _ = trained(environment(None, 2, HOLDFAST_PREDECESSOR="1"), 5)
    assert run.step == 5


def test_ordinary_attempt_does_not_wait(uri: str) -> None:
    with Run(counter=Counter(), environment=environment(uri)) as first:
        trained(environment(uri, 2), 5)
        first.left = True


# A notice during the wait at the fence.


class Leaving:
    """A successor that waits at the fence in the main thread, and gets SIGTERM there."""

    def __init__(self, uri: str, endpoint: Endpoint, folder: Path) -> None:
        self.before = still_training(uri)
        self.log = kinds(uri)
        self.where = successor(uri, **endpoint.variables, HOLDFAST_VERDICT_DIR=str(folder))
        threading.Thread(target=self._tell, args=(endpoint,), daemon=True).start()

    @staticmethod
    def _tell(endpoint: Endpoint) -> None:
        endpoint.wait_for(lambda r: r["state"] == "waiting")
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def leaving(uri: str, endpoint: Endpoint, tmp_path: Path) -> Leaving:
    return Leaving(uri, endpoint, tmp_path)


def loop_of_steps(run: Run) -> None:
    assert list(run.steps(50)) == []


def loop_of_its_own(run: Run) -> None:
    while not run.should_stop:
        pytest.fail("a step was begun")


def loop_that_saves_at_its_end(run: Run) -> None:
    loop_of_its_own(run)
    assert not run.save()


def loop_that_does_not_ask(run: Run) -> None:
    run.advance(loss=1.0)
    assert run.should_stop


@pytest.mark.parametrize(
    "loop", [loop_of_steps, loop_of_its_own, loop_that_saves_at_its_end, loop_that_does_not_ask, lambda run: None]
)
def test_a_notice_during_the_wait_at_the_fence(
    uri: str, leaving: Leaving, endpoint: Endpoint, tmp_path: Path, loop: Callable[[Run], None]
) -> None:
    """Nothing begins, in any kind of loop, and the predecessor trains on undisturbed."""
    with Run(counter=Counter(), environment=leaving.where) as run:
        assert (run.left, run.should_stop, run.resumed_from) == (True, True, None)
        loop(run)
    assert kinds(uri) == leaving.log  # no fence, no handover, no completion
    found = verdict(tmp_path)
    assert (found["result"], found.get("savedStep")) == ("left", None)
    assert "SIGTERM" in found["message"]
    last = endpoint.reports[-1]
    assert (last["state"], last["fenced"]) == ("left", False)
    assert leaving.before.save()


def test_a_drain_order_during_the_wait_at_the_fence(uri: str, endpoint: Endpoint, tmp_path: Path) -> None:
    still_training(uri)
    future = aside(slow(successor(uri, **endpoint.variables, HOLDFAST_VERDICT_DIR=str(tmp_path))), 5)
    endpoint.wait_for(lambda r: r["state"] == "waiting")
    endpoint.order("drain", 9.0, "not needed any more")
    run, _ = future.result(WAIT)
    assert (run.left, run.step) == (True, 0)
    found = verdict(tmp_path)
    assert found["message"] == "notice to leave (not needed any more) before attempt 1 had handed over"
