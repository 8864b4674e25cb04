import asyncio
from collections.abc import Callable

import pytest
from tests.support.operator.fake_api_server import T0, Clock, FakeClient, raw_job
from tests.support.waiting import wait_for

from holdfast.api.objects import TrainingJob
from holdfast.core.decision import Event
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.errors import ApiError
from holdfast.runtime.loop.events import WAITING, YIELD, EventRecorder
from holdfast.serve.token_bucket import TokenBucket

JOB = TrainingJob.parse(raw_job())
LOST = Event("Warning", "NodeLost", "node spot-1 is gone")


def recorder(client: FakeClient, clock: Clock, urgent: Callable[[], bool] = lambda: False) -> EventRecorder:
    gate = LeadershipGate(clock)
    gate.keep_open(float("inf"))
    return EventRecorder(GatedWriter(client, gate, TokenBucket(1000, 1000)), "me", clock, clock.now, urgent)


async def test_an_event_is_written_as_kubectl_describe_wants_it() -> None:
    client, clock = FakeClient(), Clock()
    events = recorder(client, clock)
    events.record(JOB, LOST)
    await events.flush()
    ((path, body),) = client.sent("POST")
    assert path == "/api/v1/namespaces/ns/events"
    assert body["involvedObject"]["uid"] == "u1"
    assert (body["reason"], body["type"], body["count"]) == ("NodeLost", "Warning", 1)
    assert body["firstTimestamp"] == body["lastTimestamp"] == T0.strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_the_same_words_again_are_dropped_then_counted() -> None:
    client, clock = FakeClient(), Clock()
    events = recorder(client, clock)
    for _ in range(5):
        events.record(JOB, LOST)
    await events.flush()
    clock.tick(61)
    events.record(JOB, LOST)
    await events.flush()
    assert len(client.sent("POST")) == 1
    ((_, patch),) = client.sent("PATCH")
    assert patch["count"] == 2


async def test_two_leaders_write_one_object() -> None:
    client, clock = FakeClient(), Clock()
    for _ in range(2):
        events = recorder(client, clock)
        events.record(JOB, LOST)
        await events.flush()
    assert sum("/events/" in path for path in client.objects) == 1


async def test_an_event_that_expired_is_written_anew() -> None:
    client, clock = FakeClient(), Clock()
    events = recorder(client, clock)
    events.record(JOB, LOST)
    await events.flush()
    client.objects.clear()
    clock.tick(3600)
    events.record(JOB, LOST)
    await events.flush()
    assert len(client.objects) == 1


async def test_a_job_that_talks_too_much_is_cut_and_others_are_not() -> None:
    client, clock = FakeClient(), Clock()
    events = recorder(client, clock)
    for number in range(100):
        events.record(JOB, Event("Normal", "Step", f"{number}"))
    events.record(TrainingJob.parse(raw_job("b", "u2")), LOST)
    await events.flush()
    assert len(client.sent("POST")) == 26
    assert events.dropped == 75


async def test_messages_are_capped_and_errors_are_not_raised() -> None:
    client, clock = FakeClient(), Clock()
    events = recorder(client, clock)
    client.on("POST", "events", ApiError(403, "Forbidden", "namespace ends"))
    events.record(JOB, Event("Normal", "Long", "x" * 5000))
    events.record(JOB, LOST)
    await events.flush()
    assert len(client.sent("POST")[0][1]["message"]) == 1024
    assert events.dropped == 1
    assert len(client.sent("POST")) == 2


async def test_the_events_of_one_namespace_neither_delay_nor_displace_those_of_another() -> None:
    """Breaks if events wait in one line: one tenant with many jobs then hides what happens to all others."""
    client, clock = FakeClient(), Clock()
    events = recorder(client, clock)
    other = raw_job("b", "u2")
    other["metadata"]["namespace"] = "other"
    events.record(TrainingJob.parse(other), LOST)
    for number in range(WAITING + 10):
        events.record(TrainingJob.parse(raw_job(f"j{number}", f"v{number}")), LOST)
    assert events.dropped == 11
    await events.flush()
    paths = [path for path, _ in client.sent("POST")]
    assert len(paths) == WAITING
    assert "/api/v1/namespaces/other/events" in paths[:2]


async def test_an_event_that_waits_is_written_once_with_its_newest_count() -> None:
    client, clock = FakeClient(), Clock()
    events = recorder(client, clock)
    events.record(JOB, LOST)
    clock.tick(61)
    events.record(JOB, LOST)
    await events.flush()
    assert [body["count"] for _, body in client.sent("POST")] == [2]


@pytest.mark.parametrize("ends", ["urgent", "patience"])
async def test_an_event_lets_urgent_work_pass_but_not_for_ever(ends: str) -> None:
    client, clock = FakeClient(), Clock()
    urgent, looked = True, asyncio.Semaphore(0)

    def look() -> bool:
        looked.release()
        return urgent

    events = recorder(client, clock, look)
    task = asyncio.create_task(events.run())
    events.record(JOB, LOST)
    for _ in range(3):
        await asyncio.wait_for(looked.acquire(), 5)
    assert client.sent("POST") == []
    if ends == "urgent":
        urgent = False
    else:
        clock.tick(YIELD)
    await asyncio.to_thread(wait_for, lambda: client.sent("POST"), 5, "the event")
    task.cancel()
