"""Calls of the launchers of a training on several nodes: the answer to each, and which call wakes the operator."""

import asyncio

import pytest
from tests.support.decisions.snapshots import NOW, at

from holdfast.api.attempt import World
from holdfast.core.decision import WorldOrder
from holdfast.serve.members import NOTHING, MemberBook
from holdfast_protocol.member import MemberOrder, read_report

JOB = ("ns", "a")
MEET = WorldOrder(2, None, None, {"p0": 0, "p1": 1})
GO = WorldOrder(2, World(address="10.0.0.1", port=30002), None, {"p0": 0, "p1": 1})
START = MemberOrder("start", 2, "10.0.0.1", 30002)


def body(**changes):
    """Launcher p0 that is ready for its first program."""
    told = {"podUID": "p0", "attempt": 0, "state": "ready", "address": "10.0.0.1", "port": 30002}
    return read_report({**told, **changes})


@pytest.fixture
def woken():
    return []


@pytest.fixture
def book(woken):
    return MemberBook(lambda job, urgent: woken.append((job, urgent)))


@pytest.mark.parametrize(("world", "told", "answer"), [
    (MEET, body(), NOTHING),
    (GO, body(), START),
    (GO, body(attempt=1), START),
    (GO, body(attempt=2), NOTHING),
    (GO, body(attempt=2, verdict={"outcome": "failed"}), NOTHING),
    (MEET, body(attempt=1, state="running"), MemberOrder("regroup", 2)),
    (GO, body(attempt=1, state="running"), MemberOrder("regroup", 2)),
    (GO, body(attempt=2, state="running"), NOTHING),
    (GO, body(podUID="p9"), NOTHING),
    (GO, body(attempt=3), NOTHING),
])  # fmt: skip
async def test_the_answer_follows_from_the_newest_attempt(book, world, told, answer):
    """Breaks if a program starts twice, before all are ready, or goes on in a world that is over."""
    book.replace("u-a", (world,))
    assert await book.answer(told, 0) == answer


async def test_a_launcher_that_waits_is_told_at_once(book):
    book.replace("u-a", (MEET,))
    waits = asyncio.create_task(book.answer(body(), 30))
    await asyncio.sleep(0)  # it begins to wait
    assert book.waiting == 1
    book.replace("u-a", (GO,))
    assert await waits == START
    assert book.waiting == 0


async def test_a_launcher_that_is_asked_for_a_sign_of_life_calls_again(book, woken):
    """Breaks if the operator cannot tell a node that died from a kubelet that is cut off."""
    book.receive(JOB, body(), NOW)
    waits = asyncio.create_task(book.answer(body(), 30))
    await asyncio.sleep(0)  # it begins to wait
    book.ask(["p0", "p9"], at(20))
    assert await waits == NOTHING
    assert book.of(["p0"])["p0"].asked_at == at(20)
    book.ask(["p0"], at(24))
    assert book.of(["p0"])["p0"].asked_at == at(20), "still the first question"
    book.receive(JOB, body(), at(25))
    assert book.of(["p0"])["p0"].asked_at is None
    assert len(woken) == 1, "an answer is no news"


async def test_a_launcher_that_is_not_told_anything_asks_again(book):
    assert await book.answer(body(), 0.001) == NOTHING
    assert book.waiting == 0


async def test_when_no_attempt_follows_programs_end_first_and_then_launchers(book):
    book.replace("u-a", (WorldOrder(3, None, None, {"p0": 0}, leave=True),))
    assert await book.answer(body(attempt=2, state="running"), 0) == MemberOrder("regroup", 3, final=True)
    assert await book.answer(body(attempt=2), 0) == MemberOrder("leave")


async def test_orders_of_a_job_are_replaced_as_a_whole(book):
    book.replace("u-a", (GO,))
    book.replace("u-a", (WorldOrder(3, None, None, {"p1": 1}),))
    assert await book.answer(body(), 0) == NOTHING
    book.keep_only((), ())
    assert await book.answer(body(podUID="p1", attempt=2, state="running"), 0) == NOTHING


def test_only_news_wakes_a_decision(book, woken):
    book.receive(JOB, body(), NOW)
    book.receive(JOB, body(), at(5))
    assert woken == [(JOB, True)]
    book.receive(JOB, body(attempt=2, state="running"), at(6))
    book.receive(JOB, body(attempt=2, verdict={"outcome": "failed"}), at(7))
    assert len(woken) == 3
    book.receive(JOB, body(attempt=2, verdict={"outcome": "failed"}), at(9))
    assert len(woken) == 3
    report = book.of(["p0", "p1"])["p0"]
    assert (report.ready, report.attempt, report.ended_at) == (True, 2, at(7))
    assert report.received_at == at(9)
    book.keep_only(["p1"], [])
    assert book.of(["p0"]) == {}


@pytest.mark.parametrize("late", [
    {"attempt": 1, "state": "running"}, {"attempt": 0}, {"attempt": 2, "state": "running"}, {"attempt": 2},
])  # fmt: skip
def test_a_call_that_arrives_late_changes_nothing(book, woken, late):
    """Breaks if a call that was delayed on its way makes a launcher ready that works, or hides how a program ended."""
    book.receive(JOB, body(attempt=2, verdict={"outcome": "failed"}), NOW)
    book.receive(JOB, body(**late), at(1))
    report = book.of(["p0"])["p0"]
    assert (report.attempt, report.ready, report.received_at) == (2, True, NOW)
    assert report.verdict
    assert len(woken) == 1


def test_a_launcher_that_calls_again_after_a_long_time_is_news(book, woken):
    """Breaks if the others wait for the next look at the job after a network was cut for a while."""
    book.receive(JOB, body(), NOW)
    book.receive(JOB, body(), at(89))
    book.receive(JOB, body(), at(89 + 91))
    assert len(woken) == 2


def test_a_verdict_of_a_running_program_does_not_count(book):
    book.receive(JOB, body(attempt=2, state="running", verdict={"outcome": "failed"}), NOW)
    assert book.of(["p0"])["p0"].verdict is None


@pytest.mark.parametrize("changes", [
    {"attempt": -1}, {"state": "over"}, {"port": 70000}, {"port": -1}, {"port": 0}, {"address": "x y"},
    {"address": "a" * 254}, {"verdict": {"outcome": "failed", "lastLines": ["x" * 4000] * 2}}, {"podUID": ""},
    {"imports": ["os; x"]}, {"imports": ["a"] * 33},
])  # fmt: skip
def test_nonsense_is_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        body(**changes)


def test_what_a_launcher_told_of_imports_is_kept_while_its_program_restarts(book):
    """Breaks if the pod that replaces another after a second notice cannot import early."""
    book.receive(JOB, body(attempt=1, state="running", imports=["torch", "numpy"]), NOW)
    book.receive(JOB, body(attempt=1, verdict={"outcome": "failed"}), NOW)
    assert book.of(["p0"])["p0"].imports == ("torch", "numpy")
