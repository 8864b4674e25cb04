"""The member call: how a launcher asks, and what it does without an answer."""

import queue
from collections.abc import Callable, Iterator

import pytest
from tests.support.http.progress_endpoint import Endpoint

from holdfast_protocol.member import MemberOrder, MemberReport
from holdfast_train.pod.launcher import connection, member_call
from holdfast_train.pod.launcher.connection import BackOff, Connection, Target
from holdfast_train.pod.launcher.member_call import MemberCall

READY = MemberReport("pod-1", 3, "ready", address="a", port=5)
RUNNING = MemberReport("pod-1", 3, "running")


Calls = Callable[[MemberReport], "queue.SimpleQueue[MemberOrder]"]


@pytest.fixture
def asked(endpoint: Endpoint) -> Iterator[Calls]:
    begun: list[MemberCall] = []

    def ask(report: MemberReport) -> "queue.SimpleQueue[MemberOrder]":
        target = Target(f"https://127.0.0.1:{endpoint.port}", "ns", "job", str(endpoint.token), str(endpoint.ca))
        orders: queue.SimpleQueue[MemberOrder] = queue.SimpleQueue()
        begun.append(MemberCall(Connection(target, 30.0), lambda: report, orders.put))
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
    assert orders.get(timeout=10) == MemberOrder("start", 4, "a", 5, 3)
    assert len(endpoint.members.told) == 1


# Breaks if a launcher gives up after a refusal, or if an outage ends the wait.
@pytest.mark.parametrize("refusal", [(401, {}), (403, {}), (429, {"Retry-After": "0"}), (503, {})])
def test_a_refusal_is_no_end(asked: Calls, endpoint: Endpoint, refusal: tuple[int, dict[str, str]]) -> None:
    endpoint.members.refusal = refusal
    orders = asked(RUNNING)
    endpoint.members.wait_for_refusals(2)
    endpoint.members.begin(4, "pod-1")
    endpoint.members.refusal = None
    assert orders.get(timeout=20) == MemberOrder("regroup", 4)


# Breaks if the pause between two calls does not grow, grows without limit, or is less than the operator wants.
def test_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection._JITTER, "uniform", lambda low, high: high)
    pauses = BackOff()
    assert [pauses.after(was_good=False) for _ in range(7)] == [0.75, 1.5, 3, 6, 12, 15, 15]
    assert pauses.after(was_good=False, at_least=20) == 35
    assert pauses.after(was_good=False, at_least=9999) == 75
    assert pauses.after(was_good=True) == 0
    assert pauses.after(was_good=False) == 0.75


# Breaks if a launcher that waits is silent in an outage, or if one whose program runs fills the log.
def test_a_launcher_that_waits_says_so_once_a_minute(
    asked: Calls, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(member_call, "say", said.append)
    for report in (READY, RUNNING):
        call = MemberCall(
            Connection(Target("https://x", "ns", "job", None, None), 1.0), lambda report=report: report, print
        )
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
