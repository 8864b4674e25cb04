"""Pods, nodes and jobs of the small world, each with what the API server would show of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.support.decisions.snapshots import NOW

from holdfast.api import names
from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import format_time


def _time(at: datetime) -> str:
    """As Kubernetes writes times: whole seconds."""
    return format_time(at.replace(microsecond=0))


@dataclass
class Pod:
    """A pod and the process in it; what the API server shows of the process is what the kubelet last said."""

    manifest: Mapping[str, Any]
    uid: str
    job: str
    attempt: int
    grace: int
    created_at: datetime
    finalized: bool = True
    protected: bool = True
    node: str | None = None
    scheduled_at: datetime | None = None
    deleted_at: datetime | None = None
    deletion_grace: int | None = None
    collected: bool = False  # its node is gone: the garbage collector has marked it Failed
    shown: str = "waiting"  # waiting, running or ended, as the kubelet last said
    process: str = "none"  # none, running or ended
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    told: bool = False
    stuck: bool = False  # neither asking nor killing ends it, as with a process in an uninterruptible read
    fenced: bool = False
    acknowledged: int = 0
    step: int = 0
    first_step: int | None = None
    go: bool = False
    left: bool = False  # it has saved and handed over, and only has to end

    @property
    def predecessor(self) -> int | None:
        """The attempt whose handover it waits for before it asks for the fence."""
        env = {var["name"]: var.get("value") for var in self.manifest["spec"]["containers"][0]["env"]}
        return int(env["HOLDFAST_PREDECESSOR"]) if "HOLDFAST_PREDECESSOR" in env else None

    @property
    def ended(self) -> bool:
        return self.shown == "ended" or self.collected

    def end(self, now: datetime, exit_code: int, message: str = "", reason: str = "") -> None:
        self.process, self.ended_at, self.exit_code, self.message, self.reason = (
            "ended",
            now,
            exit_code,
            message,
            reason,
        )

    def raw(self) -> dict[str, Any]:
        """As the API server gives it."""
        meta = {**self.manifest["metadata"], "uid": self.uid, "creationTimestamp": _time(self.created_at)}
        meta["finalizers"] = [names.POD_FINALIZER] if self.finalized else []
        if not self.protected:
            meta["annotations"] = {}
        if self.deleted_at:
            meta["deletionTimestamp"] = _time(self.deleted_at)
            meta["deletionGracePeriodSeconds"] = self.deletion_grace
        phase = {"waiting": "Pending", "running": "Running"}.get(
            self.shown, "Failed" if self.exit_code else "Succeeded"
        )
        conditions = []
        if self.scheduled_at:
            time = _time(self.scheduled_at)
            conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": time})
            conditions.append({"type": "PodReadyToStartContainers", "status": "True"})
        if self.collected:
            phase = "Failed"
            conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"})
        status = {"phase": phase, "conditions": conditions}
        if self.node:
            status["containerStatuses"] = [{"name": "trainer", "state": self._state()}]
        return {"metadata": meta, "spec": {"nodeName": self.node}, "status": status}

    def _state(self) -> dict[str, Any]:
        if self.shown == "waiting" or self.started_at is None:
            return {"waiting": {"reason": "PodInitializing"}}
        if self.shown == "running" or self.ended_at is None:
            return {"running": {"startedAt": _time(self.started_at)}}
        times = {"startedAt": _time(self.started_at), "finishedAt": _time(self.ended_at)}
        return {
            "terminated": {
                "exitCode": self.exit_code,
                "message": self.message,
                "reason": self.reason or "Error",
                **times,
            }
        }


@dataclass
class Node:
    """A machine. `kubelet` and `network` say if they work; it is NotReady while its kubelet is not reachable."""

    name: str
    uid: str
    tier: str
    kubelet: bool = True
    network: bool = True
    taints: tuple[str, ...] = ()
    changed_at: datetime = NOW - timedelta(hours=1)

    @property
    def ready(self) -> bool:
        return self.kubelet and self.network

    def raw(self) -> dict[str, Any]:
        """As the API server gives it."""
        ready = {
            "type": "Ready",
            "status": "True" if self.ready else "Unknown",
            "lastTransitionTime": _time(self.changed_at),
        }
        return {
            "metadata": {"name": self.name, "uid": self.uid, "labels": {"tier": self.tier}},
            "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in self.taints]},
            "status": {"conditions": [ready]},
        }


@dataclass
class Job:
    """A TrainingJob as stored. `library` tells whether its program uses Holdfast's checkpoints."""

    name: str
    library: bool
    spec: dict[str, Any]
    status: dict[str, Any] = field(default_factory=dict)
    version: int = 1
    generation: int = 1
    annotations: dict[str, str] = field(default_factory=dict)
    deleted: bool = False
    fence: tuple[int, str] = (0, "")
    handed_over: bool = False  # by the holder of the fence: it commits nothing more
    saved: int = 0

    def view(self) -> TrainingJob:
        """As the operator reads it."""
        meta: dict[str, Any] = {
            "name": self.name,
            "namespace": "ns",
            "uid": f"u-{self.name}",
            "resourceVersion": str(self.version),
            "generation": self.generation,
            "annotations": dict(self.annotations),
        }
        if self.deleted:
            meta["deletionTimestamp"] = _time(NOW)
        return TrainingJob.parse({"metadata": meta, "spec": self.spec, "status": self.status})
