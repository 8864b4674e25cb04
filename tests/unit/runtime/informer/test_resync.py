from typing import Any

import pytest
from tests.support.operator.fake_api_server import FakeClient, raw_job, raw_node, raw_pod

from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.resync import Resync
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
