"""Small decide functions, for tests of the runtime without the real core."""

from dataclasses import replace
from typing import Any

from holdfast.api import names
from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.status import Phase
from holdfast.core.decision import Action, CreatePod, Decision, DeletePod, Event, Order, ReleasePod
from holdfast.core.observe.snapshot import Snapshot


def quiet(snapshot: Snapshot) -> Decision:
    """Do nothing."""
    return Decision(status=snapshot.job.status)


def pod_manifest(snapshot: Snapshot, attempt: int) -> dict[str, Any]:
    """A pod that sleeps, with the labels, owner and finalizer of a real one and a token for our audience."""
    meta = snapshot.job.metadata
    labels = {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_JOB: meta.name,
        names.LABEL_JOB_UID: meta.uid,
        names.LABEL_ATTEMPT: str(attempt),
        names.LABEL_RANK: "0",
    }
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": names.JOB_KIND,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
    }
    token = {"serviceAccountToken": {"audience": names.TOKEN_AUDIENCE, "path": "token", "expirationSeconds": 3600}}
    trainer = snapshot.job.spec.trainer
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta.name}-{attempt}-0",
            "namespace": meta.namespace,
            "labels": labels,
            "ownerReferences": [owner],
            "finalizers": [names.POD_FINALIZER],
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": names.TRAINER_CONTAINER,
                    "image": trainer.image,
                    "command": list(trainer.command) or ["sleep", "3600"],
                    "volumeMounts": [{"name": names.TOKEN_VOLUME, "mountPath": names.TOKEN_PATH}],
                }
            ],
            "volumes": [{"name": names.TOKEN_VOLUME, "projected": {"sources": [token]}}],
        },
    }


def one_pod(snapshot: Snapshot) -> Decision:
    """Intent first, then the pod, then its end. Losing a pod raises the next attempt. A refusal is told."""
    status, job = snapshot.job.status, snapshot.job
    if job.metadata.deletion_timestamp or (status.phase and status.phase.final):
        return Decision(status=status, trace=("final",))
    if snapshot.refusal:
        status = status.model_copy(update={"phase": Phase.FAILED, "reason": snapshot.refusal.reason})
        return Decision(
            status=status, events=(Event("Warning", "Refused", snapshot.refusal.message),), trace=("refused",)
        )
    mine = {pod.attempt: pod for pod in snapshot.pods}
    current = mine.get(status.attempt)
    if current is None:
        raised = status.attempt + 1
        first = Attempt(
            number=raised,
            state=AttemptState.STARTING,
            tier=snapshot.grid[0],
            raised_at=snapshot.now.replace(microsecond=0),
        )
        status = status.model_copy(update={"attempt": raised, "phase": Phase.STARTING, "current": first})
        create = CreatePod(raised, 0, pod_manifest(snapshot, raised))
        return Decision(status, (create,), events=(Event("Normal", "Raised", f"attempt {raised}"),), trace=("raise",))
    if current.ended:
        status = status.model_copy(update={"phase": Phase.COMPLETED, "current": None})
        return Decision(status, (ReleasePod(current.name, current.uid),), trace=("completed",))
    orders: tuple[Order, ...] = ()
    if wanted := job.metadata.annotations.get(names.ANNOTATION_CHECKPOINT):
        orders = (Order(int(wanted), "checkpoint", current.uid, None, "asked"),)
    report = snapshot.reports.get(current.uid)
    progress = status.progress
    if report and report.step is not None and snapshot.progress_slot and report.step != progress.step:
        update = {"step": report.step, "loss": report.figures.loss, "updated_at": report.received_at}
        progress = progress.model_copy(update=update)
    running = bool(current.trainer and current.trainer.running)
    phase = Phase.RUNNING if running else status.phase
    status = status.model_copy(update={"phase": phase, "progress": progress})
    return Decision(status, orders=orders, trace=("running",))


def deleter(snapshot: Snapshot) -> Decision:
    """As `one_pod`, and a suspended job's pods are deleted and released."""
    if not snapshot.job.spec.suspend:
        return one_pod(snapshot)
    actions: tuple[Action, ...] = tuple(DeletePod(p.name, p.uid, 0) for p in snapshot.pods if not p.deleted_at)
    actions += tuple(ReleasePod(p.name, p.uid) for p in snapshot.pods if p.deleted_at and p.finalized)
    status = snapshot.job.status.model_copy(update={"phase": Phase.SUSPENDED})
    return replace(Decision(status=status), actions=actions)
