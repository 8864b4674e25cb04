"""Builders for decisions: jobs, pods, nodes, reports and snapshots, with a fixed clock."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from holdfast.api import names
from holdfast.api.attempt import Attempt, AttemptState, Drain, EndKind, FieldDigest, PodRecord
from holdfast.api.model import merge_patch
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import parse_time
from holdfast.api.status import TrainingJobStatus
from holdfast.core.decide import decide
from holdfast.core.decision import CreatePod, Decision, DeletePod, ReleasePod
from holdfast.core.made_from import fence_hash, hash_of, made_from
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.nodes import ClusterView, NodeView, Taint
from holdfast.core.observe.pods import ContainerView, PodView
from holdfast.core.observe.report import Report
from holdfast.core.observe.snapshot import Snapshot
from holdfast_protocol.figures import ROWS, Figures

Raw = Mapping[str, Any]

SAME = "of the job"  # stands for a digest of the job's own spec
OTHER = (FieldDigest(field="trainer", digest="other"), FieldDigest(field="checkpoint.storage", digest="other"))
NOW = parse_time("2026-11-21T09:00:00Z")
CONFIG = OperatorConfig(progress_url="https://holdfast.test:8443")
GRACE = timedelta(seconds=100)
PRICES = {"spot": "1.02", "dedicated": "3.06", "cpu": "0.2"}
FULL = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No preemption."
TIERS: tuple[dict[str, Any], ...] = tuple(
    {"name": name, "kind": kind, "nodeSelector": {"tier": name}, "pricePerNodeHour": PRICES[name], **more}
    for name, kind, more in (
        ("spot", "Spot", {"accelerator": "nvidia.com/gpu"}),
        ("dedicated", "Dedicated", {"accelerator": "nvidia.com/gpu"}),
        ("cpu", "CPU", {}),
    )
)


def at(seconds: float) -> datetime:
    """A time relative to NOW."""
    return NOW + timedelta(seconds=seconds)


def tier(name: str = "spot") -> ProfileTier:
    """A tier of TIERS."""
    return ProfileTier.model_validate(next(t for t in TIERS if t["name"] == name))


def spec(**changes: Any) -> dict[str, Any]:
    """The spec of a job, camelCase; `changes` replace whole fields."""
    return {
        "trainer": {"image": "registry.example/train:1", "command": ["python3", "train.py"]},
        "capacity": {"tiers": list(TIERS)},
        "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": "vision/vit"}}, "gracePeriod": "100s"},
        **changes,
    }


def job(
    status: TrainingJobStatus | None = None, *, meta: Mapping[str, Any] | None = None, **changes: Any
) -> TrainingJob:
    """A job named vision/vit with UID u-job; `changes` replace fields of its spec."""
    metadata = {"name": "vit", "namespace": "vision", "uid": "u-job", "resourceVersion": "7", "generation": 1}
    parsed = TrainingJob.parse({"metadata": {**metadata, **(meta or {})}, "spec": spec(**changes)})
    return parsed.model_copy(update={"status": _of_job(status, parsed)}) if status else parsed


def _of_job(status: TrainingJobStatus, job: TrainingJob) -> TrainingJobStatus:
    """The status with attempts that run what the job says, and what is known of that program, unless it says others."""
    fields, changes = made_from(job.spec), dict[str, Any]()
    for name in ("current", "successor"):
        one = getattr(status, name)
        if one is not None and not one.made_from:
            changes[name] = one.model_copy(update={"made_from": fields})
    if status.fenced_program == SAME:
        changes["fenced_program"] = fence_hash(fields)
    return status.model_copy(update=changes)


def attempt(number: int = 1, state: AttemptState = AttemptState.RUNNING, **changes: Any) -> Attempt:
    """An attempt on tier spot, on node n1 if its state has a node, which the cluster gave."""
    fields: dict[str, Any] = {"number": number, "state": state, "tier": tier(), "raised_at": at(-600)}
    if state in (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.DRAINING):
        fields["pods"] = (PodRecord(uid=f"u-{number}", node="n1", node_uid="u-n1", granted=True),)
        fields["created_at"], fields["scheduled_at"] = at(-599), at(-590)
    if state in (AttemptState.RUNNING, AttemptState.DRAINING):
        fields["started_at"] = at(-500)
    if state is AttemptState.ACQUIRING:
        fields["created_at"], fields["acquire_deadline"] = at(-10), at(290)
    return Attempt(**{**fields, **changes})


def status(current: Attempt | None = None, **changes: Any) -> TrainingJobStatus:
    """A status in the middle of a job's life."""
    number = max((a.number for a in (current, changes.get("successor")) if a), default=0)
    return TrainingJobStatus(**{"attempt": number, "current": current, "started_at": at(-3600), **changes})


def drain(**changes: Any) -> Drain:
    """An order to leave that was given 2 s ago; 98 s are left."""
    fields: dict[str, Any] = {"order": 1, "reason": "SpotInterruption", "at": at(-2), "deadline": at(98)}
    return Drain(**{**fields, **changes})


def stopped(**changes: Any) -> Drain:
    """An order to leave because the user suspended the job."""
    return drain(reason="Suspended", kind=EndKind.STOPPED, **changes)


def container(**changes: Any) -> ContainerView:
    """The trainer container, by default running for 500 s."""
    fields: dict[str, Any] = {"name": names.TRAINER_CONTAINER}
    if not {"waiting", "ended", "running"} & changes.keys():
        fields |= {"running": True, "started_at": at(-500)}
    if changes.get("ended"):
        fields |= {"ended_at": at(-1), "started_at": at(-500), "reason": "Error" if changes.get("exit_code") else ""}
    return ContainerView(**{**fields, **changes})


def pod(number: int = 1, **changes: Any) -> PodView:
    """The running pod of an attempt, on node n1."""
    fields: dict[str, Any] = {
        "namespace": "vision",
        "name": f"vit-{number}-0",
        "uid": f"u-{number}",
        "resource_version": "9",
        "job": "vit",
        "job_uid": "u-job",
        "attempt": number,
        "rank": 0,
        "phase": "Running",
        "created_at": at(-599),
        "node": "n1",
        "scheduled_at": at(-590),
        "finalized": True,
        "prepared": True,
        "protected": True,
        "tier": "spot",
        "trainer": container(),
        "requests": {"nvidia.com/gpu": "1"},
        "bound": True,
        "made_from": SAME,
    }
    return PodView(**{**fields, **changes})


def pending(number: int = 1, **changes: Any) -> PodView:
    """A pod that waits for a node, because the nodes of its tier are full."""
    fields: dict[str, Any] = {"phase": "Pending", "node": None, "scheduled_at": None, "trainer": None, "bound": False}
    fields |= {"unscheduled_reason": "Unschedulable", "unscheduled_message": FULL}
    return pod(number, **{**fields, **changes})


def placed(number: int = 1, **changes: Any) -> PodView:
    """A pod on a node whose trainer has not started."""
    return pod(number, **{"phase": "Pending", "trainer": container(waiting="PodInitializing"), **changes})


def ended(number: int = 1, exit_code: int = 0, message: str = "", **changes: Any) -> PodView:
    """A pod whose trainer has ended."""
    phase = "Failed" if exit_code else "Succeeded"
    return pod(
        number, **{"phase": phase, "trainer": container(ended=True, exit_code=exit_code, message=message), **changes}
    )


def verdict(outcome: str, reason: str = "Because", **fields: Any) -> str:
    """The launcher's verdict line."""
    return json.dumps({"v": 1, "outcome": outcome, "reason": reason, **fields})


def node(name: str = "n1", **changes: Any) -> NodeView:
    """A ready node of tier spot."""
    fields: dict[str, Any] = {"uid": f"u-{name}", "labels": {"tier": "spot"}, "ready_changed_at": at(-9000)}
    taints = tuple(Taint(key) for key in changes.pop("taints", ()))
    return NodeView(name=name, taints=taints, **{**fields, **changes})


NODES = (node("n1"), node("n2"), node("n3"), node("n4"))


def silent(name: str = "n1", seconds: float = 10) -> NodeView:
    """A node that has been NotReady for so long."""
    return node(name, ready=False, ready_changed_at=at(-seconds))


def nodes(*changed: NodeView, without: tuple[str, ...] = ()) -> ClusterView:
    """Four ready nodes, n1 to n4, some of them replaced or gone."""
    known = {n.name: n for n in NODES} | {n.name: n for n in changed}
    return ClusterView(n for name, n in known.items() if name not in without)


def report(number: int = 1, **changes: Any) -> Report:
    """The report of an attempt's trainer, a second old."""
    fields: dict[str, Any] = {"received_at": at(-1), "state": "training", "fenced": True}
    figures = {row.name: changes.pop(row.name) for row in ROWS if row.name in changes}
    return Report(pod_uid=f"u-{number}", attempt=number, figures=Figures(**figures), **{**fields, **changes})


def stepped(number: int = 1, step: int = 700, **changes: Any) -> Report:
    """A report with steps: 500 was the first, 100 a second."""
    fields: dict[str, Any] = {"step": step, "first_step": 500, "first_step_at": at(-400), "step_at": at(-1)}
    return report(number, **{**fields, **changes})


def profile(*tiers: Mapping[str, Any]) -> CapacityProfile:
    """A CapacityProfile named grid."""
    return CapacityProfile.parse({"metadata": {"name": "grid"}, "spec": {"tiers": list(tiers or TIERS)}})


def snapshot(job: TrainingJob, *pods: PodView, **changes: Any) -> Snapshot:
    """A snapshot at NOW with four ready nodes."""
    reports, whole = changes.pop("reports", ()), hash_of(made_from(job.spec))
    pods = tuple(replace(one, made_from=whole) if one.made_from == SAME else one for one in pods)
    return Snapshot(
        **{
            "now": NOW,
            "job": job,
            "pods": pods,
            "cluster": nodes(),
            "reports": {r.pod_uid: r for r in reports},
            "config": CONFIG,
            **changes,
        }
    )


def stored(before: TrainingJob, after: TrainingJobStatus) -> TrainingJob:
    """The job as it reads after the API server has taken the status patch."""
    if not (patch := merge_patch(before.status, after)):
        return before
    raw = _merged(before.status.to_object(), patch)
    return before.model_copy(update={"status": TrainingJobStatus.model_validate(raw)})


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def settled(snap: Snapshot) -> Decision:
    """Decide, and check that deciding again from the stored status with the same view changes nothing.

    A new job's first pod leaves no trace but itself.
    """
    decision = decide(snap)
    if decision.trace == ("first pod",):
        assert decision.status == snap.job.status
        return decision
    again = decide(replace(snap, job=stored(snap.job, decision.status), refusal=None))
    assert again.trace == (), f"{decision.trace} leads to {again.trace}"
    assert merge_patch(decision.status, again.status) == {}
    return decision


def created(decision: Decision) -> list[int]:
    """Attempts whose pods the decision creates."""
    return [action.attempt for action in decision.actions if isinstance(action, CreatePod)]


def deleted(decision: Decision) -> list[tuple[str, int | None]]:
    """UIDs and grace of the pods that the decision deletes."""
    return [(action.uid, action.grace) for action in decision.actions if isinstance(action, DeletePod)]


def released(decision: Decision) -> list[str]:
    """UIDs of the pods whose finalizer the decision takes off."""
    return [action.uid for action in decision.actions if isinstance(action, ReleasePod)]
