"""The way to the operator: the newest report wins, and nothing waits for an operator that does not answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http.fake_operator import FakeOperator
from tests.support.trainer.pod_settings import pod_variables
from tests.support.waiting import wait_for

from holdfast_protocol.report import read
from holdfast_train.pod.launcher import connection
from holdfast_train.pod.launcher.progress.forwarder import Forwarder


def step(number: int) -> dict[str, str]:
    return {"step": str(number)}


def steps(operator: FakeOperator) -> list[int]:
    return [body["step"] for *_, body in operator.got]


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOperator]:
    monkeypatch.setattr(connection, "FIRST_BACK_OFF", 0.02)
    operator = FakeOperator()
    yield operator
    operator.gate.set()
    operator.server.shutdown()
    operator.server.server_close()


@pytest.fixture
def forwarder(operator: FakeOperator, tmp_path: Path) -> Iterator[Forwarder]:
    token = tmp_path / "token"
    token.write_text("pod")
    names = {"HOLDFAST_NAMESPACE": "ns", "HOLDFAST_JOB": "a", "HOLDFAST_ATTEMPT": "3", "HOLDFAST_POD_UID": "u"}
    place = {"operator_url": f"http://127.0.0.1:{operator.server.server_port}/at"}
    forwarder = Forwarder(pod_variables(names, **place, token_file=str(token)))
    yield forwarder
    forwarder.finish()


def test_the_operator_gets_it_with_the_token_of_the_pod(operator: FakeOperator, forwarder: Forwarder) -> None:
    forwarder.offer({"loss": "2.5"})
    wait_for(lambda: operator.got, 10, "the report")
    ((path, token, body),) = operator.got
    assert (path, token) == ("/at/v1/namespaces/ns/jobs/a/progress", "Bearer pod")
    found = read(body)
    assert (found.sender, found.attempt, found.pod_uid, found.figures.loss) == ("Relay", 3, "u", "2.5")


# Breaks if a post of the program waits for the operator, or if statuses pile up while it does not answer.
def test_an_operator_that_does_not_answer_gets_one_call_and_then_the_newest(
    operator: FakeOperator, forwarder: Forwarder
) -> None:
    operator.gate.clear()
    for number in range(1000):
        forwarder.offer(step(number + 1))
        if number == 0:
            wait_for(lambda: operator.got, 10, "the first call")
    assert steps(operator) == [1]
    operator.gate.set()
    wait_for(lambda: len(operator.got) == 2, 10, "the second call")
    assert steps(operator) == [1, 1000]


def test_a_status_that_was_not_taken_is_sent_again(operator: FakeOperator, forwarder: Forwarder) -> None:
    operator.answers = [503, 200]
    forwarder.offer(step(1))
    wait_for(lambda: len(operator.got) == 2, 10, "the second try")
    assert operator.got[0] == operator.got[1]


# Breaks if a status that is refused for good is sent again and again.
@pytest.mark.parametrize("answer", [400, 403, 413])
def test_a_status_that_is_refused_is_dropped(operator: FakeOperator, forwarder: Forwarder, answer: int) -> None:
    operator.answers = [answer, 200]
    forwarder.offer(step(1))
    wait_for(lambda: operator.got, 10, "the first status")
    forwarder.offer(step(2))
    wait_for(lambda: len(operator.got) == 2, 10, "the second status")
    assert steps(operator) == [1, 2]


# Breaks if a program that changes its run all the time makes a call for each change.
def test_of_many_runs_in_a_tracker_the_newest_is_told(operator: FakeOperator, forwarder: Forwarder) -> None:
    operator.gate.clear()
    for number in range(1000):
        forwarder.track("wandb", f"https://wandb.ai/{number}")
        if number == 0:
            wait_for(lambda: operator.got, 10, "the first call")
    operator.gate.set()
    wait_for(lambda: len(operator.got) == 2, 10, "the second call")
    forwarder.track("wandb", "https://wandb.ai/999")
    forwarder.finish()
    assert [body["tracking"]["wandb"] for *_, body in operator.got] == ["https://wandb.ai/0", "https://wandb.ai/999"]


# Breaks if the last status of a program, which has its last loss, is not sent.
def test_the_last_status_is_sent_before_the_end(operator: FakeOperator, forwarder: Forwarder) -> None:
    forwarder.offer(step(1))
    forwarder.finish()
    assert steps(operator) == [1]


# Breaks if the end of a program waits for an operator that does not answer.
def test_the_end_does_not_wait_for_a_dead_operator(operator: FakeOperator, forwarder: Forwarder) -> None:
    operator.gate.clear()
    forwarder.offer(step(1))
    wait_for(lambda: operator.got, 10, "the first call")
    forwarder.offer(step(2))
    forwarder.finish()
    assert steps(operator) == [1]
    assert not operator.gate.is_set()
