import asyncio
import dataclasses
from typing import Any

import pytest
from tests.support.operator.fake_api_server import raw_job, raw_pod

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase, TrainingJobStatus
from holdfast.core.decision import (
    CreatePod,
    Decision,
    DeleteJob,
    DeletePod,
    Event,
    HoldPod,
    InspectPod,
    Order,
    ReleasePod,
    UnprotectPod,
)
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Key
from holdfast.runtime.loop.execute import Outcome
from holdfast.serve.fair_line import Turns

JOB_PATH = "/apis/holdfast.dev/v1alpha1/namespaces/ns/trainingjobs/a"
PODS = "/api/v1/namespaces/ns/pods"


def stored(bench: Any, **status: Any) -> TrainingJob:
    raw = bench.client.put(JOB_PATH, raw_job(**status))
    bench.cache.put_job(raw)
    job: TrainingJob = bench.cache.jobs[Key("ns", "a")]
    return job


def create(rank: int = 0) -> CreatePod:
    manifest = raw_pod(f"a-1-{rank}", f"p{rank + 1}")
    del manifest["metadata"]["resourceVersion"], manifest["status"]
    return CreatePod(1, rank, manifest)


def raised(job: TrainingJob, *actions: Any, **more: Any) -> Decision:
    return Decision(job.status.model_copy(update={"attempt": 1, "phase": Phase.ACQUIRING}), actions, **more)


async def test_status_first_then_orders_then_actions_then_events(bench: Any) -> None:
    job = stored(bench)
    order = Order(1, "drain", "p1", None, "x")
    outcome, _ = await bench.executor.apply(
        job, raised(job, create(), orders=(order,), events=(Event("Normal", "R", "m"),))
    )
    await bench.events.flush()
    assert outcome is Outcome.APPLIED
    assert bench.verbs() == ["PATCH trainingjobs/a/status", "POST configmaps", "POST pods", "POST events"]
    assert bench.board.seen == [("u1", (order,))]
    body = bench.client.sent("PATCH")[0][1]
    assert body["metadata"] == {"resourceVersion": job.metadata.resource_version, "uid": "u1"}
    assert body["status"] == {"attempt": 1, "phase": "Acquiring"}
    assert bench.cache.jobs[Key("ns", "a")].status.attempt == 1
    assert [pod.name for pod in bench.cache.pods(Key("ns", "a"))] == ["a-1-0"]


def leaving(job: TrainingJob, kind: str, order: int = 1) -> Decision:
    at = "2026-11-21T12:00:00Z"
    current = {
        "number": 1,
        "state": "Draining",
        "tier": {"name": "cpu", "kind": "CPU"},
        "raisedAt": at,
        "drain": {"order": order, "reason": "R", "at": at, "deadline": at, "kind": kind},
    }
    status = TrainingJobStatus.model_validate({"attempt": 1, "current": current})
    orders = (Order(1, "drain", "p1", None, "x"), Order(2, "checkpoint", "p1", None, "x"))
    return Decision(status, orders=orders)


@pytest.mark.parametrize(("kind", "offered"), [("Interruption", [1]), ("Stopped", [])])
async def test_only_an_order_to_drain_for_a_notice_does_not_wait_for_the_status(
    bench: Any, kind: str, offered: list[int]
) -> None:
    job = stored(bench)
    bench.client.on("PATCH", "status", ApiError(0, "Unreachable", "timeout"))
    with pytest.raises(ApiError):
        await bench.executor.apply(job, leaving(job, kind))
    assert [order.id for _, orders in bench.board.offered for order in orders] == offered
    assert bench.board.seen == []


async def test_an_operator_that_does_not_lead_gives_no_order(bench: Any) -> None:
    job = stored(bench)
    bench.gate.close()
    with pytest.raises(ApiError):
        await bench.executor.apply(job, leaving(job, "Interruption"))
    assert bench.board.offered == []


async def test_the_new_pod_is_made_before_the_old_one_is_cleared_away(bench: Any) -> None:
    job = stored(bench)
    bench.client.put(f"{PODS}/a-0-0", raw_pod("a-0-0", "p0", attempt=0))
    await bench.executor.apply(job, raised(job, ReleasePod("a-0-0", "p0"), create()))
    pods = [call for call in bench.verbs() if "pods" in call]
    assert pods == ["POST pods", "PATCH pods/a-0-0"]


async def test_clearing_away_waits_until_other_jobs_have_their_new_pods(bench: Any) -> None:
    """Breaks if a job keeps its turn: after losing a node, the pods of the last jobs would come last of all."""
    bench.executor._turns = Turns(1)
    job = stored(bench)
    clear, new = ReleasePod("a-0-0", "p0"), create()
    bench.client.put(f"{PODS}/a-0-0", raw_pod("a-0-0", "p0", attempt=0))
    other = dataclasses.replace(new, manifest={**new.manifest, "metadata": {**new.manifest["metadata"], "name": "b"}})
    both = (Decision(job.status, (clear, new)), Decision(job.status, (other,)))
    await asyncio.gather(*(bench.executor.apply(job, one) for one in both))
    assert [call for call in bench.verbs() if "pods" in call] == ["POST pods", "POST pods", "PATCH pods/a-0-0"]


async def test_a_new_pod_goes_before_the_statuses_of_its_namespace(bench: Any) -> None:
    """Breaks if a new job waits for all that is told of the older jobs of its namespace."""
    turns = bench.executor._turns = Turns(1)
    job = stored(bench)
    decisions = (*(raised(job) for _ in range(3)), Decision(job.status, (create(),)))
    async with turns.turn("ns"):
        tasks = [asyncio.create_task(bench.executor.apply(job, one)) for one in decisions]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    status, pod = "PATCH trainingjobs/a/status", "POST pods"
    assert [call for call in bench.verbs() if call in (status, pod)] == [pod, status, status, status]


CA = "/api/v1/namespaces/ns/configmaps/holdfast-ca"


async def test_a_pod_does_not_wait_for_the_certificate_of_a_namespace_that_is_known(bench: Any) -> None:
    job = stored(bench)
    await bench.executor.apply(job, raised(job, create()))
    del bench.client.objects[f"{PODS}/a-1-0"], bench.client.objects[CA]  # the namespace was deleted, and created again
    bench.clock.tick(30)
    bench.client.calls.clear()
    await bench.executor.apply(job, Decision(job.status, (create(),)))
    assert bench.verbs()[0] == "POST pods"
    assert CA in bench.client.objects


async def test_a_certificate_that_cannot_be_checked_keeps_no_pod_from_a_known_namespace(bench: Any) -> None:
    job = stored(bench)
    await bench.executor.apply(job, raised(job, create()))
    bench.clock.tick(30)
    bench.client.on("GET", "configmaps", ApiError(500, "InternalError", "no"))
    outcome, _ = await bench.executor.apply(job, Decision(job.status, (create(),)))
    assert outcome is Outcome.APPLIED


async def test_what_an_inspection_found_is_kept_for_the_next_decision(bench: Any) -> None:
    job = stored(bench)
    bench.client.on("GET", "events", {"items": [{"reason": "FailedMount", "message": "no"}]})
    await bench.executor.apply(job, Decision(job.status, (InspectPod("a-1-0", "p1"),)))
    assert bench.executor.inspector.of(["p1"])["p1"].trouble.reason == "FailedMount"


async def test_nothing_is_written_when_nothing_differs(bench: Any) -> None:
    job = stored(bench, attempt=1)
    outcome, _ = await bench.executor.apply(job, Decision(job.status.model_copy()))
    assert outcome is Outcome.QUIET
    assert bench.verbs() == []


async def test_unknown_fields_of_the_status_are_not_mentioned(bench: Any) -> None:
    job = stored(bench, newThing={"a": 1}, progress={"step": 1, "novel": True})
    progress = job.status.progress.model_copy(update={"step": 2})
    outcome, progressed = await bench.executor.apply(
        job, Decision(job.status.model_copy(update={"progress": progress}))
    )
    assert progressed
    assert outcome is Outcome.APPLIED
    assert bench.client.objects[JOB_PATH]["status"] == {"newThing": {"a": 1}, "progress": {"step": 2, "novel": True}}


async def test_a_conflict_does_nothing_else_and_brings_the_fresh_object(bench: Any) -> None:
    job = stored(bench)
    bench.client.put(JOB_PATH, raw_job(phase="Running", attempt=4))
    outcome, _ = await bench.executor.apply(job, raised(job, create(), events=(Event("Normal", "R", "m"),)))
    await bench.events.flush()
    assert outcome is Outcome.CONFLICT
    assert bench.verbs() == ["PATCH trainingjobs/a/status"]
    assert bench.board.seen == []
    assert bench.cache.jobs[Key("ns", "a")].status.attempt == 4


@pytest.mark.parametrize("uid", [None, "u2"])
async def test_a_job_that_is_gone_or_made_anew_is_left_alone(bench: Any, uid: str | None) -> None:
    job = stored(bench)
    del bench.client.objects[JOB_PATH]
    if uid:
        bench.client.put(JOB_PATH, raw_job(uid=uid))
    outcome, _ = await bench.executor.apply(job, raised(job, create()))
    assert outcome is Outcome.GONE
    assert not any("pods" in call for call in bench.verbs())


async def promise(bench: Any) -> tuple[TrainingJob, Decision]:
    """This process has written attempt 1 into status; what follows makes its pod."""
    job = stored(bench)
    await bench.executor.apply(job, raised(job))
    job = bench.cache.jobs[Key("ns", "a")]
    pod = dataclasses.replace(create(), promised=True)
    return job, Decision(job.status.model_copy(update={"reason": "R"}), (pod, ReleasePod("a-0-0", "p0")))


async def test_a_promised_pod_is_made_before_the_status(bench: Any) -> None:
    job, decision = await promise(bench)
    await bench.executor.apply(job, decision)
    assert bench.verbs()[1:] == [
        "POST configmaps", "POST pods", "PATCH trainingjobs/a/status", "PATCH pods/a-0-0",
    ]  # fmt: skip


async def test_the_pod_after_the_newest_number_may_be_promised_too(bench: Any) -> None:
    job, _ = await promise(bench)
    pod = dataclasses.replace(create(), attempt=2, promised=True)
    await bench.executor.apply(job, Decision(job.status.model_copy(update={"attempt": 2}), (pod,)))
    assert bench.verbs()[1:] == ["POST configmaps", "POST pods", "PATCH trainingjobs/a/status"]


async def test_nothing_is_promised_after_a_number_that_another_process_has_raised(bench: Any) -> None:
    job, decision = await promise(bench)
    newer = job.model_copy(update={"status": job.status.model_copy(update={"attempt": 2})})
    await bench.executor.apply(newer, decision)
    assert bench.verbs()[1:3] == ["PATCH trainingjobs/a/status", "POST configmaps"]


async def test_what_another_process_promised_waits_for_the_status(bench: Any) -> None:
    job, decision = await promise(bench)
    bench.executor.keep_only(set())
    await bench.executor.apply(job, decision)
    assert bench.verbs()[1:3] == ["PATCH trainingjobs/a/status", "POST configmaps"]


async def test_a_promised_pod_that_is_refused_is_remembered_beyond_the_status(bench: Any) -> None:
    job, decision = await promise(bench)
    bench.client.on("POST", "pods", ApiError(403, "Forbidden", "exceeded quota: gpus"))
    await bench.executor.apply(job, decision)
    assert bench.cache.jobs[Key("ns", "a")].status.reason == "R"
    assert bench.executor.refusals["u1"].message == "exceeded quota: gpus"


async def test_an_end_is_written_though_the_promised_pod_cannot_be_made(bench: Any) -> None:
    job, decision = await promise(bench)
    bench.client.on("POST", "pods", *[ApiError(503, "Unavailable", "quota evaluation timed out")] * 2)
    with pytest.raises(ApiError, match="quota evaluation"):
        await bench.executor.apply(job, decision)
    assert bench.cache.jobs[Key("ns", "a")].status.reason == "R"


async def test_a_pod_that_was_made_has_no_refusal(bench: Any) -> None:
    job, decision = await promise(bench)
    bench.client.on("POST", "pods", ApiError(403, "Forbidden", "exceeded quota: gpus"))
    bench.client.on("PATCH", "status", ApiError(503, "Unavailable", "later"))
    with pytest.raises(ApiError):
        await bench.executor.apply(job, decision)
    assert "u1" in bench.executor.refusals
    await bench.executor.apply(job, decision)
    assert bench.executor.refusals == {}


async def test_a_pod_that_was_made_hides_no_refusal_of_another_rank(bench: Any) -> None:
    bench.client.on("POST", "pods", ApiError(403, "Forbidden", "exceeded quota: gpus"))
    await bench.executor.apply(job := stored(bench), raised(job, create(), create(1)))
    assert (bench.verbs().count("POST pods"), bench.executor.refusals["u1"].status) == (2, 403)


async def test_a_status_that_cannot_be_written_stops_everything(bench: Any) -> None:
    job = stored(bench)
    bench.client.on("PATCH", "status", ApiError(0, "Unreachable", "timeout"))
    with pytest.raises(ApiError):
        await bench.executor.apply(job, raised(job, create()))
    assert "POST pods" not in bench.verbs()


async def test_an_existing_pod_of_this_attempt_is_success(bench: Any) -> None:
    job = stored(bench)
    bench.client.put(f"{PODS}/a-1-0", raw_pod(uid="p9"))
    await bench.executor.apply(job, raised(job, create()))
    assert bench.executor.refusals == {}
    assert bench.cache.pods(Key("ns", "a"))[0].uid == "p9"


@pytest.mark.parametrize("other", [{"job_uid": "u0"}, {"attempt": 2}])
async def test_a_strangers_pod_under_the_name_is_a_refusal(bench: Any, other: dict[str, Any]) -> None:
    job = stored(bench)
    bench.client.put(f"{PODS}/a-1-0", raw_pod(**other))
    await bench.executor.apply(job, raised(job, create()))
    refusal = bench.executor.refusals["u1"]
    assert (refusal.reason, refusal.attempt, refusal.status) == ("NameTaken", 1, 409)


@pytest.mark.parametrize(
    "error",
    [
        ApiError(403, "Forbidden", "exceeded quota: gpus"),
        ApiError(422, "Invalid", "spec.x"),
        ApiError(400, "BadRequest", "admission webhook denied"),
        ApiError(500, "InternalError", 'failed calling webhook "w"'),
    ],
)
async def test_a_refusal_is_remembered_until_the_status_knows(bench: Any, error: ApiError) -> None:
    job = stored(bench)
    bench.client.on("POST", "pods", error)
    await bench.executor.apply(job, raised(job, create()))
    assert bench.executor.refusals["u1"].message == error.message
    job = bench.cache.jobs[Key("ns", "a")]
    await bench.executor.apply(job, Decision(job.status))
    assert "u1" in bench.executor.refusals
    await bench.executor.apply(job, Decision(job.status.model_copy(update={"reason": "QuotaExceeded"})))
    assert bench.executor.refusals == {}


@pytest.mark.parametrize(
    "error", [ApiError(429, "TooManyRequests", "x", 3.0), ApiError(503, "x", "y"), ApiError(0, "Unreachable", "")]
)
async def test_what_passes_by_itself_is_an_error_and_no_refusal(bench: Any, error: ApiError) -> None:
    job = stored(bench)
    bench.client.on("POST", "pods", error)
    with pytest.raises(ApiError):
        await bench.executor.apply(job, raised(job, create()))
    assert bench.executor.refusals == {}


async def test_a_namespace_that_is_being_deleted_has_not_refused_the_pod(bench: Any) -> None:
    job = stored(bench)
    ends = ApiError(403, "Forbidden", "unable to create new content in namespace ns because it is being terminated")
    bench.client.on("POST", "pods", ends)
    await bench.executor.apply(job, raised(job, create()))
    bench.client.on("POST", "pods", ApiError(404, "NotFound", 'namespaces "ns" not found'))
    await bench.executor.apply(bench.cache.jobs[Key("ns", "a")], Decision(job.status, (create(),)))
    assert bench.executor.refusals == {}


async def test_deletes_carry_the_uid_and_a_gone_pod_is_success(bench: Any) -> None:
    job = stored(bench)
    bench.client.put(f"{PODS}/a-1-0", raw_pod(uid="other"))
    actions = (DeletePod("a-1-0", "p1", 3), DeletePod("gone", "p2"), DeleteJob("nope"))
    await bench.executor.apply(job, Decision(job.status, actions))
    bodies = dict(bench.client.sent("DELETE"))
    assert bodies[f"{PODS}/a-1-0"]["preconditions"] == {"uid": "p1"}
    assert bodies[f"{PODS}/a-1-0"]["gracePeriodSeconds"] == 3
    assert "gracePeriodSeconds" not in bodies[f"{PODS}/gone"]
    assert f"{PODS}/a-1-0" in bench.client.objects
    assert JOB_PATH in bench.client.objects


async def test_one_failed_action_does_not_stop_the_others_and_events_are_still_said(bench: Any) -> None:
    job = stored(bench)
    bench.client.put(f"{PODS}/b", raw_pod("b", "p2"))
    bench.client.on("DELETE", "pods/a-1-0", ApiError(500, "InternalError", "x"))
    decision = Decision(
        job.status, (DeletePod("a-1-0", "p1"), ReleasePod("b", "p2")), events=(Event("Normal", "R", "m"),)
    )
    with pytest.raises(ApiError):
        await bench.executor.apply(job, decision)
    await bench.events.flush()
    assert bench.client.objects[f"{PODS}/b"]["metadata"]["finalizers"] == []
    assert "POST events" in bench.verbs()


async def test_without_the_lease_nothing_is_sent(bench: Any) -> None:
    job = stored(bench)
    bench.gate.close()
    with pytest.raises(ApiError, match="lease"):
        await bench.executor.apply(job, raised(job, create()))
    assert bench.client.calls == []


@pytest.mark.parametrize(
    "action", [DeletePod("a-1-0", "p1"), ReleasePod("a-1-0", "p1"), HoldPod("a-1-0", "p1"), UnprotectPod("a-1-0", "p1")]
)
async def test_a_pod_that_the_server_does_not_know_is_forgotten(bench: Any, action: Any) -> None:
    job = stored(bench)
    bench.cache.put_pod(raw_pod())
    await bench.executor.apply(job, Decision(job.status, (action,)))
    assert bench.cache.pods(Key("ns", "a")) == ()
    bench.cache.put_pod(raw_pod())  # a list proves it wrong
    assert len(bench.cache.pods(Key("ns", "a"))) == 1


async def test_a_job_that_the_server_does_not_know_is_forgotten(bench: Any) -> None:
    job = stored(bench)
    del bench.client.objects[JOB_PATH]
    assert (await bench.executor.apply(job, raised(job)))[0] is Outcome.GONE
    assert bench.cache.jobs == {}


@pytest.mark.parametrize(
    "error", [ApiError(403, "Forbidden", "exceeded quota: maps"), ApiError(422, "Invalid", "webhook says no")]
)
async def test_a_refused_config_map_is_a_refusal_in_its_own_words(bench: Any, error: ApiError) -> None:
    job = stored(bench)
    bench.client.on("POST", "configmaps", error)
    await bench.executor.apply(job, raised(job, create()))
    refusal = bench.executor.refusals["u1"]
    assert (refusal.status, "ConfigMap holdfast-ca" in refusal.message) == (403, True)  # 422 would blame the pod
    assert error.message in refusal.message
    assert "POST pods" not in bench.verbs()


async def test_a_job_that_changed_since_is_not_deleted(bench: Any) -> None:
    job = stored(bench)
    changed = bench.client.put(JOB_PATH, raw_job(phase="Completed", attempt=4))
    bench.client.on("DELETE", "trainingjobs", ApiError(409, "Conflict", "the resourceVersion does not match"))
    await bench.executor.apply(job, Decision(job.status, (DeleteJob("u1"),)))
    ((_, body),) = bench.client.sent("DELETE")
    assert body["preconditions"] == {"uid": "u1", "resourceVersion": job.metadata.resource_version}
    assert bench.cache.jobs[Key("ns", "a")].metadata.resource_version == changed["metadata"]["resourceVersion"]
