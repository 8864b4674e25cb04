"""What a namespace that is being deleted costs."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.operator.fake_api_server import Clock, raw_job
from tests.unit.runtime.loop.test_reconcile import JOB_PATH, Loop

from holdfast.api.objects import TrainingJob
from holdfast.core.decide import decide
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Key
from holdfast.runtime.loop.closed_namespaces import LONGEST_DELAY, ClosedNamespaces

ENDS = ApiError(403, "Forbidden", "unable to create new content in namespace ns because it is being terminated")
GONE = ApiError(404, "NotFound", 'namespaces "ns" not found')


def job(created: str | None = None) -> TrainingJob:
    raw = raw_job()
    return TrainingJob.parse({**raw, "metadata": {**raw["metadata"], "creationTimestamp": created}} if created else raw)


def test_the_delay_grows_with_each_refusal() -> None:
    clock = Clock()
    closed = ClosedNamespaces(clock.now, clock)
    assert closed.closed_for(job()) is None
    delays = []
    for _ in range(8):
        closed.refused("ns")
        delays.append(closed.closed_for(job()))
        clock.tick(delays[-1] or 0)
        assert closed.closed_for(job()) is None
    assert delays == [10, 20, 40, 80, 160, 320, LONGEST_DELAY, LONGEST_DELAY]


def test_refusals_of_requests_that_were_under_way_together_count_once() -> None:
    clock = Clock()
    closed = ClosedNamespaces(clock.now, clock)
    for _ in range(50):
        closed.refused("ns")
    assert closed.closed_for(job()) == 10


def test_a_job_that_was_created_later_is_in_a_new_namespace() -> None:
    clock = Clock()
    closed = ClosedNamespaces(clock.now, clock)
    closed.refused("ns")
    assert closed.closed_for(job("2026-11-21T12:00:01Z")) is None
    assert closed.closed_for(job("2026-11-21T11:59:59Z")) == 10
    closed.accepted("ns")
    assert closed.closed_for(job("2026-11-21T11:59:59Z")) is None


async def live(bench: Any, loop: Loop, keys: list[Key], hours: float) -> None:
    """Every job is decided again whenever the queue says so."""
    for key in keys:
        await loop.once(key)
    until = bench.clock.now() + timedelta(hours=hours)
    while bench.clock.now() < until:
        bench.clock.tick(10)
        for key in keys:
            await loop.once(key)


@pytest.mark.parametrize("error", [ENDS, GONE])
async def test_jobs_of_a_namespace_that_is_being_deleted_cost_almost_no_write(bench: Any, error: ApiError) -> None:
    bench.client.on("POST", "", *[error] * 10_000)
    loop, keys = Loop(bench, decide), [Key("ns", f"j{number}") for number in range(10)]
    for number, key in enumerate(keys):
        raw = bench.client.put(JOB_PATH.removesuffix("a") + key.name, raw_job(key.name, f"u{number}"))
        bench.cache.put_job(raw)
    await live(bench, loop, keys, 1)
    assert len(bench.verbs()) < 2 * len(keys), "a few tries for all jobs together"
    first = len(bench.verbs())
    await live(bench, loop, keys, 2)
    assert len(bench.verbs()) - first <= 3 * 12 + 3, "one try in ten minutes"


async def test_a_pod_is_created_once_the_namespace_is_there_again(bench: Any) -> None:
    bench.client.on("POST", "", GONE)
    loop = Loop(bench, decide)
    bench.cache.put_job(bench.client.put(JOB_PATH, raw_job()))
    await loop.once()
    assert bench.cache.pods(Key("ns", "a")) == ()
    bench.clock.tick(11)
    await loop.once()
    assert [pod.name for pod in bench.cache.pods(Key("ns", "a"))] == ["a-1-0"]
