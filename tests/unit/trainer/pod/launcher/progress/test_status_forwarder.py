"""The way to the operator: the newest status wins, and nothing waits for an operator that does not answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.fake_operator import FakeOperator
from tests.support.trainer.pod_settings import pod_variables
from tests.support.waiting import wait_for

from holdfast_train.pod.launcher import member_call
from holdfast_train.pod.launcher.progress.status_forwarder import StatusForwarder


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOperator]:
    monkeypatch.setattr(member_call, "FIRST_BACK_OFF", 0.02)
    operator = FakeOperator()
    yield operator
    operator.gate.set()
    operator.server.shutdown()
    operator.server.server_close()


@pytest.fixture
def forwarder(operator: FakeOperator, tmp_path: Path) -> Iterator[StatusForwarder]:
    token = tmp_path / "token"
    token.write_text("pod")
    names = {"HOLDFAST_NAMESPACE": "ns", "HOLDFAST_JOB": "a", "HOLDFAST_ATTEMPT": "3"}
    place = {"operator_url": f"http://127.0.0.1:{operator.server.server_port}/at"}
    forwarder = StatusForwarder(pod_variables(names, **place, token_file=str(token)))
    yield forwarder
    forwarder.finish()


def test_the_operator_gets_it_with_the_token_of_the_pod(operator: FakeOperator, forwarder: StatusForwarder) -> None:
    forwarder.offer({"a": 1})
    wait_for(lambda: operator.got, 10, "the status")
    path = "/at/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/a/status?attempt=3"
    assert operator.got == [(path, "Bearer pod", {"a": 1})]


# Breaks if a post of the program waits for the operator, or if statuses pile up while it does not answer.
def test_an_operator_that_does_not_answer_gets_one_call_and_then_the_newest(
    operator: FakeOperator, forwarder: StatusForwarder
) -> None:
    operator.gate.clear()
    for number in range(1000):
        forwarder.offer({"n": number})
        if number == 0:
            wait_for(lambda: operator.got, 10, "the first call")
    assert [body["n"] for *_, body in operator.got] == [0]
    operator.gate.set()
    wait_for(lambda: len(operator.got) == 2, 10, "the second call")
    assert [body["n"] for *_, body in operator.got] == [0, 999]


def test_a_status_that_was_not_taken_is_sent_again(operator: FakeOperator, forwarder: StatusForwarder) -> None:
    operator.answers = [503, 200]
    forwarder.offer({"n": 1})
    wait_for(lambda: len(operator.got) == 2, 10, "the second try")
    assert operator.got[0] == operator.got[1]


# Breaks if a status that is refused for good is sent again and again.
@pytest.mark.parametrize("answer", [403, 413, 422])
def test_a_status_that_is_refused_is_dropped(operator: FakeOperator, forwarder: StatusForwarder, answer: int) -> None:
    operator.answers = [answer, 200]
    forwarder.offer({"n": 1})
    wait_for(lambda: operator.got, 10, "the first status")
    forwarder.offer({"n": 2})
    wait_for(lambda: len(operator.got) == 2, 10, "the second status")
    assert [body["n"] for *_, body in operator.got] == [1, 2]


# Breaks if a program can end the thread that passes its progress on.
def test_a_status_that_is_nested_too_deep(operator: FakeOperator, forwarder: StatusForwarder) -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    forwarder.offer({"nested": nested})
    wait_for(lambda: forwarder._trouble, 10, "the first try")
    forwarder.offer({"n": 2})
    wait_for(lambda: operator.got, 10, "the second status")
    assert [body for *_, body in operator.got] == [{"n": 2}]


# Breaks if the last status of a program, which has its last loss, is not sent.
def test_the_last_status_is_sent_before_the_end(operator: FakeOperator, forwarder: StatusForwarder) -> None:
    forwarder.offer({"n": 1})
    forwarder.finish()
    assert [body["n"] for *_, body in operator.got] == [1]


# Breaks if the end of a program waits for an operator that does not answer.
def test_the_end_does_not_wait_for_a_dead_operator(operator: FakeOperator, forwarder: StatusForwarder) -> None:
    operator.gate.clear()
    forwarder.offer({"n": 1})
    wait_for(lambda: operator.got, 10, "the first call")
    forwarder.offer({"n": 2})
    forwarder.finish()
    assert [body["n"] for *_, body in operator.got] == [1]
    assert not operator.gate.is_set()
