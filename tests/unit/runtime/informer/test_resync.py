import asyncio
import weakref
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
from tests.support.operator.fake_api_server import PAGE, FakeClient, raw_job, raw_node, raw_pod

from holdfast.runtime.apiserver import paths
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.resync import LISTS, Resync
from holdfast.runtime.informer.work_queue import WorkQueue


def stand() -> tuple[FakeClient, Cache, WorkQueue[Key], Resync]:
    client, cache, queue = FakeClient(), Cache(), WorkQueue[Key]()
    return client, cache, queue, Resync(client, cache, queue, every=600, seed=1)


def put(client: FakeClient, path: str, raw: dict[str, Any]) -> None:
    client.put(path, raw)


async def test_everything_is_read_and_enqueued() -> None:
    client, cache, queue, resync = stand()
    put(client, "/api/v1/nodes/n1", raw_node())
    put(client, "/api/v1/namespaces/ns/pods/b-1-0", raw_pod("b-1-0", job="b", job_uid="u9"))
    put(client, "/apis/x/namespaces/ns/trainingjobs/a", raw_job())
    assert resync.age is None
    await resync.once()
    assert set(cache.jobs) == {Key("ns", "a")}
    assert set(cache.cluster.nodes) == {"n1"}
    assert {await queue.get(), await queue.get()} == {Key("ns", "a"), Key("ns", "b")}
    assert resync.age is not None


async def test_what_the_watch_missed_is_dropped() -> None:
    _client, cache, _, resync = stand()
    cache.put_job(raw_job(version=5))
    cache.put_pod(raw_pod(version=6))
    await resync.once()
    assert cache.job_keys() == set()


async def test_a_list_that_fails_leaves_the_cache_as_it_was() -> None:
    client, cache, _, resync = stand()
    cache.put_job(raw_job(version=5))
    client.on("LIST", "trainingjobs", ApiError(500, "InternalError", "x"))
    with pytest.raises(ApiError):
        await resync.once()
    assert set(cache.jobs) == {Key("ns", "a")}
    assert resync.last is None


async def test_a_list_of_several_pages_is_one_list() -> None:
    client, cache, _, resync = stand()
    for number in range(2 * PAGE + 1):
        put(client, f"/api/v1/nodes/n{number}", raw_node(f"n{number}"))
    cache.put_node(raw_node("gone"))
    await resync.once()
    assert set(cache.cluster.nodes) == {f"n{number}" for number in range(2 * PAGE + 1)}


async def test_one_page_of_a_kind_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a resync of 10,000 pods holds all their raw objects at once."""

    class Page(list[Any]):
        """A list that can be watched until it is freed."""

    client, _, _, resync = stand()
    alive: weakref.WeakValueDictionary[int, Page] = weakref.WeakValueDictionary()
    most = 0

    async def pages(path: str, params: Any = None) -> AsyncIterator[tuple[list[Any], int]]:
        nonlocal most
        for number in range(5):
            page = Page([raw_node(f"n{number}")] if path == "/api/v1/nodes" else [])
            alive[id(page)] = page
            most = max(most, len(alive))
            yield page, 100
            del page

    monkeypatch.setattr(client, "pages", pages)
    await resync.once()
    assert most <= 2


async def test_other_work_runs_while_a_page_is_read() -> None:
    client, cache, queue, _ = stand()
    resync = Resync(client, cache, queue, every=600, clock=count().__next__)  # a second passes at each look
    for number in range(PAGE):
        put(client, f"/api/v1/nodes/n{number}", raw_node(f"n{number}"))
    turns = 0

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(other_work())
    await resync.once()
    other.cancel()
    assert turns >= PAGE


async def test_the_check_reads_one_object_of_each_kind() -> None:
    client, _, queue, resync = stand()
    client.on("GET", "", *[{"items": []}] * len(LISTS))
    await resync.check()
    assert [path for method, path, _ in client.calls] == [path for path, _ in LISTS.values()]
    client.on("GET", "trainingjobs", ApiError(404, "NotFound", "no CRD"))
    client.on("GET", "", *[{"items": []}] * len(LISTS))
    with pytest.raises(ApiError):
        await resync.check()
    assert (len(queue), resync.last) == (0, None)


async def test_a_kind_that_is_refused_holds_up_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a new leader waits for one list after the other while the API server is short of breath."""
    client, cache, _, resync = stand()
    put(client, "/apis/x/namespaces/ns/trainingjobs/a", raw_job())
    put(client, "/api/v1/namespaces/ns/pods/a-1-0", raw_pod())
    served, answer = client.pages, asyncio.Event()

    async def pages(path: str, params: Any = None) -> AsyncIterator[tuple[list[Any], int]]:
        if path == paths.NODES:
            await answer.wait()
        async for page in served(path, params):
            yield page

    monkeypatch.setattr(client, "pages", pages)
    round_ = asyncio.create_task(resync.once())
    while not cache.pod_uids():  # noqa: ASYNC110 - each turn of the loop is one step of the lists
        await asyncio.sleep(0)
    assert set(cache.jobs) == {Key("ns", "a")}
    assert resync.last is None
    answer.set()
    await round_
    assert resync.last is not None


async def test_pods_are_never_of_an_older_list_than_jobs() -> None:
    """Breaks if the pod of a job seems lost that a leader created a moment ago."""
    client, _, _, resync = stand()
    client.on("LIST", "trainingjobs", ApiError(410, "Expired", "x"))
    with pytest.raises(ApiError):
        await resync.once()
    await resync.once()
    lists = [path for method, path, _ in client.calls if method == "LIST" and path in (paths.JOBS, paths.PODS)]
    assert lists[-2:] == [paths.JOBS, paths.PODS]


async def test_a_round_that_failed_goes_on_with_the_list_that_failed() -> None:
    """Breaks if a new leader lists nodes again and again because the API server is short of breath."""
    client, cache, _, resync = stand()
    put(client, "/api/v1/nodes/n1", raw_node())
    client.on("LIST", "trainingjobs", ApiError(503, "Unavailable", "x"))
    with pytest.raises(ApiError):
        await resync.once()
    put(client, "/apis/x/namespaces/ns/trainingjobs/a", raw_job())
    await resync.once()
    assert set(cache.jobs) == {Key("ns", "a")}
    lists = [call for call in client.calls if call[0] == "LIST" and "nodes" in str(call)]
    assert len(lists) == 1
