"""The member call: which answers are followed, and what a launcher does without one."""

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.http.progress_endpoint import Endpoint

from holdfast_train.pod.launcher import member_call
from holdfast_train.pod.launcher.connection import Connection, Target
from holdfast_train.pod.launcher.member_call import BackOff, MemberCall, Order, read_order

READY: dict[str, Any] = {"podUID": "pod-1", "rank": 0, "attempt": 3, "state": "ready", "address": "a", "port": 5}
RUNNING: dict[str, Any] = {"podUID": "pod-1", "rank": 0, "attempt": 3, "state": "running"}
START = {"do": "start", "attempt": 4, "address": "10.0.0.1", "port": 4711, "predecessor": None}


@pytest.mark.parametrize(
    ("report", "answer", "order"),
    [
        (READY, {"do": "wait"}, None),
        (READY, START, Order("start", 4, "10.0.0.1", 4711, None)),
        (READY, {**START, "predecessor": 3}, Order("start", 4, "10.0.0.1", 4711, 3)),
        (READY, {"do": "leave"}, Order("leave")),
        (RUNNING, {"do": "wait"}, None),
        (RUNNING, {"do": "regroup", "attempt": 4}, Order("regroup", 4)),
        (RUNNING, {"do": "regroup", "attempt": 4, "final": True}, Order("regroup", 4, final=True)),
    ],
)
def test_orders(report: dict[str, Any], answer: dict[str, Any], order: Order | None) -> None:
    assert read_order(answer, report) == order


@pytest.mark.parametrize(
    ("report", "answer"),
    [
        (READY, None),
        (READY, ["start"]),
        (READY, {}),
        (READY, {"do": "regroup", "attempt": 4}),
        (READY, {**START, "attempt": 3}),
        (READY, {**START, "attempt": "4"}),
        (READY, {**START, "address": ""}),
        (READY, {**START, "port": 0}),
        (READY, {**START, "port": 1 << 16}),
        (READY, {**START, "predecessor": 4}),
        (RUNNING, START),
        (RUNNING, {"do": "leave"}),
        (RUNNING, {"do": "regroup", "attempt": 3}),
    ],
)
def test_answers_that_are_not_followed(report: dict[str, Any], answer: Any) -> None:
    with pytest.raises(ValueError, match=r"answer|attempt|address|predecessor"):
        read_order(answer, report)


Calls = Callable[[dict[str, Any]], "queue.SimpleQueue[Order]"]


@pytest.fixture
def asked(endpoint: Endpoint) -> Iterator[Calls]:
    begun: list[MemberCall] = []

    def ask(report: dict[str, Any]) -> "queue.SimpleQueue[Order]":
        target = Target(f"https://127.0.0.1:{endpoint.port}", "ns", "job", str(endpoint.token), str(endpoint.ca))
        orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        begun.append(MemberCall(Connection(target, 30.0), report, orders.put))
        begun[-1].start()
        return orders

    yield ask
    for call in begun:
        call.stop()


# Breaks if an order waits for the next call instead of answering the one that is open.
def test_an_order_comes_at_once(asked: Calls, endpoint: Endpoint) -> None:
    orders = asked(READY)
    endpoint.members.wait_for("pod-1", "ready", 3, 10)
    endpoint.members.begin(4, "pod-1", predecessor=3)
    assert orders.get(timeout=10) == Order("start", 4, "a", 5, 3)
    assert len(endpoint.members.told) == 1


# Breaks if a launcher gives up after a refusal, or if an outage ends the wait.
@pytest.mark.parametrize("refusal", [(401, {}), (403, {}), (429, {"Retry-After": "0"}), (503, {})])
def test_a_refusal_is_no_end(asked: Calls, endpoint: Endpoint, refusal: tuple[int, dict[str, str]]) -> None:
    endpoint.members.refusal = refusal
    orders = asked(RUNNING)
    endpoint.members.wait_for_refusals(2)
    endpoint.members.begin(4, "pod-1")
    endpoint.members.refusal = None
    assert orders.get(timeout=20) == Order("regroup", 4)


# Breaks if the pause between two calls does not grow, grows without limit, or is less than the operator wants.
def test_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_call._JITTER, "uniform", lambda low, high: high)
    back_off = BackOff()
    assert [back_off.after(was_good=False) for _ in range(7)] == [0.75, 1.5, 3, 6, 12, 15, 15]
    assert back_off.after(was_good=False, at_least=20) == 35
    assert back_off.after(was_good=False, at_least=9999) == 75
    assert back_off.after(was_good=True) == 0
    assert back_off.after(was_good=False) == 0.75


# Breaks if a launcher that waits is silent in an outage, or if one whose program runs fills the log.
def test_a_launcher_that_waits_says_so_once_a_minute(
    asked: Calls, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(member_call, "say", said.append)
    for report in (READY, RUNNING):
        call = MemberCall(Connection(Target("https://x", "ns", "job", None, None), 1.0), report, print)
        for now in (100.0, 130.0, 160.0, 219.0, 220.0):
            monkeypatch.setattr(member_call.time, "monotonic", lambda now=now: now)
            call._note("HTTP status 503")
        call._note("")
        call._note("")
    assert said == [
        "the operator does not answer (HTTP status 503); still asking",
        "ready, but the operator has not answered for 60 s (HTTP status 503); still asking",
        "ready, but the operator has not answered for 120 s (HTTP status 503); still asking",
        "the operator answers again, after 120 s",
        "the operator does not answer (HTTP status 503); the program runs on",
        "the operator answers again, after 120 s",
    ]
