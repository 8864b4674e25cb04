from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.support.operator.fake_api_server import raw_job, raw_pod

from holdfast.api.status import Phase
from holdfast.core.decision import Decision
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.report import Report
from holdfast.core.observe.snapshot import Snapshot
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Key
from holdfast.runtime.informer.work_queue import WorkQueue
from holdfast.runtime.loop.progress_slots import ProgressSlots
from holdfast.runtime.loop.reconcile import Reconciler

A = Key("ns", "a")
JOB_PATH = "/apis/holdfast.dev/v1alpha1/namespaces/ns/trainingjobs/a"


class Book:
    def __init__(self) -> None:
        self.reports: dict[str, Report] = {}

    def of(self, pod_uids: tuple[str, ...]) -> Mapping[str, Report]:
        return {uid: self.reports[uid] for uid in pod_uids if uid in self.reports}


class Loop:
    """A reconciler on the bench."""

    def __init__(self, bench: Any, decide: Callable[[Snapshot], Decision]) -> None:
        self.bench = bench
        self.queue: WorkQueue[Key] = WorkQueue(bench.clock, seed=1)
        self.book = Book()
        self.slots = ProgressSlots(10, lambda key: self.queue.after(key, 0.001, calm=True), burst=1, clock=bench.clock)
        self.seen: list[Snapshot] = []
        self.results: list[str] = []

        def spy(snapshot: Snapshot) -> Decision:
            self.seen.append(snapshot)
            return decide(snapshot)

        self.reconciler = Reconciler(
            spy,
            queue=self.queue,
            cache=bench.cache,
            executor=bench.executor,
            reports=self.book,
            slots=self.slots,
            config=OperatorConfig(),
            now=bench.clock.now,
        )
        self.reconciler.observe = lambda result, seconds, rules: self.results.append(result)

    async def once(self, key: Key = A) -> str:
        self.queue.add(key)
        assert await self.queue.get() == key
        await self.reconciler.once(key)
        return self.results[-1]


def stored(bench: Any, raw: dict[str, Any] | None = None, **status: Any) -> None:
    bench.cache.put_job(bench.client.put(JOB_PATH, raw or raw_job(**status)))


def running(snapshot: Snapshot) -> Decision:
    return Decision(snapshot.job.status.model_copy(update={"phase": Phase.RUNNING}))


def same(snapshot: Snapshot) -> Decision:
    return Decision(snapshot.job.status)


async def test_a_snapshot_holds_the_jobs_own_pods_and_their_reports(bench: Any) -> None:
    loop = Loop(bench, same)
    stored(bench)
    bench.cache.put_pod(raw_pod())
    bench.cache.put_pod(raw_pod("a-9-0", "p0", 11, job_uid="u0"))
    loop.book.reports["p1"] = Report("p1", 1, bench.clock.now(), "training")
    assert await loop.once() == "quiet"
    (snapshot,) = loop.seen
    assert [pod.uid for pod in snapshot.pods] == ["p1"]
    assert set(snapshot.reports) == {"p1"}
    assert snapshot.now == bench.clock.now()


async def test_a_conflict_is_decided_anew_in_the_same_pass(bench: Any) -> None:
    loop = Loop(bench, running)
    stored(bench)
    bench.client.put(JOB_PATH, raw_job(attempt=3))
    assert await loop.once() == "applied"
    assert [snapshot.job.status.attempt for snapshot in loop.seen] == [0, 3]
    assert bench.client.objects[JOB_PATH]["status"] == {"attempt": 3, "phase": "Running"}


async def test_a_job_made_anew_under_the_name_is_decided_in_the_same_pass(bench: Any) -> None:
    loop = Loop(bench, running)
    stored(bench)
    bench.client.put(JOB_PATH, raw_job(uid="u2"))
    assert await loop.once() == "applied"
    assert [snapshot.job.metadata.uid for snapshot in loop.seen] == ["u1", "u2"]


async def test_a_job_that_is_gone_is_not_written_again(bench: Any) -> None:
    loop = Loop(bench, running)
    stored(bench)
    del bench.client.objects[JOB_PATH]
    assert await loop.once() == "gone"
    assert await loop.once() == "gone"
    assert bench.verbs() == ["PATCH trainingjobs/a/status"]


async def test_endless_conflicts_give_the_key_back(bench: Any) -> None:
    loop = Loop(bench, running)
    stored(bench)
    bench.client.on("PATCH", "status", *[ApiError(409, "Conflict", "changed")] * 9)
    assert await loop.once() == "error"
    assert loop.queue.scheduled == 1


async def test_a_decision_that_raises_backs_off_and_stops_no_other_job(bench: Any) -> None:
    def broken(snapshot: Snapshot) -> Decision:
        if snapshot.job.metadata.name == "a":
            raise ZeroDivisionError
        return same(snapshot)

    loop = Loop(bench, broken)
    stored(bench)
    bench.cache.put_job(raw_job("b", "u2"))
    assert await loop.once() == "error"
    assert loop.queue.scheduled == 1
    assert await loop.once(Key("ns", "b")) == "quiet"


async def test_requeue_comes_back_when_the_decision_says(bench: Any) -> None:
    at = bench.clock.now() + timedelta(seconds=30)
    loop = Loop(bench, lambda snapshot: replace(same(snapshot), requeue_at=at))
    stored(bench)
    await loop.once()
    bench.clock.tick(29.5)
    loop.queue._promote()
    assert len(loop.queue) == 0
    bench.clock.tick(1)
    loop.queue._promote()
    assert len(loop.queue) == 1


async def test_progress_waits_for_its_slot_and_comes_back_for_it(bench: Any) -> None:
    def progress(snapshot: Snapshot) -> Decision:
        status, report = snapshot.job.status, snapshot.reports["p1"]
        if not snapshot.progress_slot:
            return Decision(status)
        update = {"step": report.step, "updated_at": report.received_at}
        return Decision(status.model_copy(update={"progress": status.progress.model_copy(update=update)}))

    loop = Loop(bench, progress)
    stored(bench)
    bench.cache.put_pod(raw_pod())
    loop.book.reports["p1"] = Report("p1", 1, bench.clock.now(), "training", step=7)
    assert loop.slots.take(Key("ns", "another"))  # the slot of this moment is taken
    assert await loop.once() == "quiet"
    assert loop.queue.scheduled == 0
    bench.clock.tick(0.2)
    loop.slots.hand_out()
    bench.clock.tick(0.2)
    assert await loop.queue.get() == A
    await loop.reconciler.once(A)
    assert bench.client.objects[JOB_PATH]["status"]["progress"]["step"] == 7
    assert loop.seen[-1].progress_slot


async def test_a_malformed_job_gets_one_condition_that_goes_when_the_job_is_valid(bench: Any) -> None:
    loop = Loop(bench, same)
    bad = raw_job(
        conditions=[{"type": "Failed", "status": "False", "reason": "x", "lastTransitionTime": "2026-11-21T11:00:00Z"}]
    )
    bad["spec"]["trainer"] = 7
    stored(bench, bad)
    assert await loop.once() == "malformed"
    first, second = bench.client.objects[JOB_PATH]["status"]["conditions"]
    assert first["type"] == "Failed"
    assert (second["type"], second["status"], second["reason"]) == ("Accepted", "False", "Malformed")
    assert "spec.trainer" in second["message"]
    assert await loop.once() == "quiet"
    assert loop.seen == []
    mended = raw_job()
    mended["status"] = bench.client.objects[JOB_PATH]["status"]
    stored(bench, mended)
    assert await loop.once() == "applied"
    assert [c["type"] for c in bench.client.objects[JOB_PATH]["status"]["conditions"]] == ["Failed"]
    assert await loop.once() == "quiet"


async def test_an_orphan_is_released_once_it_ended_and_the_job_is_really_gone(bench: Any) -> None:
    loop = Loop(bench, same)
    path = "/api/v1/namespaces/ns/pods/a-1-0"
    bench.cache.put_pod(bench.client.put(path, raw_pod(phase="Running", node="n1")))
    await loop.once()
    assert bench.client.calls == []
    bench.cache.put_pod(bench.client.put(path, raw_pod(phase="Succeeded", node="n1")))
    await loop.once()
    assert bench.client.objects[path]["metadata"]["finalizers"] == []


async def test_a_cache_that_has_not_seen_the_job_releases_nothing(bench: Any) -> None:
    loop = Loop(bench, same)
    bench.client.put(JOB_PATH, raw_job())
    path = "/api/v1/namespaces/ns/pods/a-1-0"
    bench.cache.put_pod(bench.client.put(path, raw_pod(phase="Succeeded", node="n1")))
    await loop.once()
    assert bench.client.objects[path]["metadata"]["finalizers"]


async def test_a_read_that_fails_releases_nothing(bench: Any) -> None:
    loop = Loop(bench, same)
    bench.client.on("GET", "trainingjobs", ApiError(503, "x", "y"))
    bench.cache.put_pod(raw_pod(phase="Succeeded", node="n1"))
    assert await loop.once() == "error"
    assert bench.verbs() == []


async def test_a_stray_pod_is_released_although_no_job_has_its_name(bench: Any) -> None:
    path = "/api/v1/namespaces/ns/pods/a-1000000000-0"
    raw = raw_pod("a-1000000000-0", "p9", attempt=1_000_000_000, deleted="2026-11-21T12:00:00Z")
    bench.cache.put_pod(bench.client.put(path, raw))
    loop = Loop(bench, running)
    assert await loop.once() == "gone"
    assert bench.client.objects[path]["metadata"]["finalizers"] == []
    assert bench.cache.job_keys() == set()
