"""The clock and the end of the watches, and what an event does. Real watches are in tests/integration/runtime."""

import asyncio
from typing import Any

import kopf
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from tests.support.operator.fake_api_server import Clock, raw_job, raw_node, raw_pod

from holdfast.runtime.apiserver.client import LONGEST_RETRY_AFTER, PAGE
from holdfast.runtime.errors import WatchDiedError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.watch import RESOURCES, Frames, Watches, _settings, noted_response
from holdfast.runtime.informer.work_queue import WorkQueue


def test_silence_is_measured_from_the_start_and_from_the_last_frame_of_each_watch() -> None:
    clock, connected = Clock(), list[str]()
    frames = Frames(clock)
    frames.connected = connected.append
    assert frames.ages() == {}
    frames.start()
    clock.tick(10)
    frames.opened("pods")
    clock.tick(5)
    assert frames.ages() == {resource: 5.0 if resource == "pods" else 15.0 for resource in RESOURCES}
    frames.note("nodes")
    assert frames.ages()["nodes"] == 0.0
    assert connected == ["pods"]


def test_watches_begin_with_lists_in_pages() -> None:
    """Breaks if kopf reads 10,000 pods in one answer, beside a resync that reads them in pages."""
    assert _settings().watching.chunk_size == PAGE


# Breaks if the end of a pod waits behind progress, or if a deleted object stays in the cache.
@pytest.mark.parametrize(
    ("kind", "event", "urgent", "scheduled"),
    [
        ("pods", {"type": "ADDED", "object": raw_pod(version=1)}, 0, 1),
        ("pods", {"type": "MODIFIED", "object": raw_pod(version=1, phase="Failed")}, 1, 0),
        ("jobs", {"type": "ADDED", "object": raw_job()}, 1, 0),
        ("nodes", {"type": "ADDED", "object": raw_node("n1")}, 0, 0),
    ],
)
async def test_an_event_queues_the_job_and_only_events_of_calm_pods_may_wait(
    kind: str, event: dict[str, Any], urgent: int, scheduled: int
) -> None:
    client: Any = None
    cache, queue = Cache(), WorkQueue[Key](Clock())
    watches = Watches(client, cache, queue, Frames())
    watches.apply(kind, event)
    assert (len(queue), queue.scheduled) == (urgent, scheduled)
    version = str(int(event["object"]["metadata"]["resourceVersion"]) + 1)
    gone = {**event["object"], "metadata": {**event["object"]["metadata"], "resourceVersion": version}}
    watches.apply(kind, {"type": "DELETED", "object": gone})
    assert (cache.jobs, cache.pod_uids(), dict(cache.cluster.nodes)) == ({}, set(), {})


def test_a_watch_is_closed_until_it_is_opened_and_after_its_end() -> None:
    """Breaks if an operator that sees nothing is ready for minutes."""
    clock = Clock()
    frames = Frames(clock)
    assert frames.gaps() == {}, "a follower watches nothing"
    frames.start()
    clock.tick(10)
    assert frames.gaps() == dict.fromkeys(RESOURCES, 10.0)
    for resource in RESOURCES:
        frames.opened(resource)
    assert frames.gaps() == {}
    frames.closed("pods")
    clock.tick(3)
    assert frames.gaps() == {"pods": 3.0}


@pytest.mark.parametrize("error", [ValueError("not a list"), None])
async def test_watches_that_die_raise_their_error_and_cancel_no_other_task(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Breaks if the death of the watches cuts the writes of workers, or looks like a stop."""

    async def die() -> None:
        if error:
            raise error

    parts = [asyncio.create_task(die()), asyncio.create_task(asyncio.Event().wait())]

    async def spawn_tasks(**_: Any) -> list[asyncio.Task[Any]]:
        return parts

    monkeypatch.setattr(kopf, "spawn_tasks", spawn_tasks)
    client: Any = None
    watches = Watches(client, Cache(), WorkQueue[Key](Clock()), Frames())
    await watches.start()
    writing = asyncio.create_task(asyncio.Event().wait())
    with pytest.raises(ValueError if error else WatchDiedError):
        await asyncio.wait_for(watches.run(), 5)
    assert parts[1].cancelled()
    assert not writing.done()
    writing.cancel()


@pytest.mark.parametrize("wish", ["Sat, 21 Nov 2026 07:28:00 GMT", "1e12", "0", "-5"])
async def test_a_watch_that_is_refused_outlives_any_wish_of_the_server(wish: str) -> None:
    """Breaks if a proxy before the API server ends the operator, or lets it see nothing for years."""
    told: list[str | None] = []

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status"}, status=429, headers={"Retry-After": wish})

    app = web.Application()
    app.router.add_get("/watch", refuse)
    async with (
        TestServer(app) as server,
        ClientSession(response_class=noted_response(Frames())) as session,
        session.get(server.make_url("/watch")) as answer,
    ):
        told.append(answer.headers.get("Retry-After"))
    assert told == [None] or 1 <= int(told[0] or 0) <= LONGEST_RETRY_AFTER
