"""Small immutable views of the Kubernetes objects that decisions are made from.

They are parsed once per watch event from raw JSON. A field that no decision reads is not here, so two views are equal
exactly when a decision could not tell the objects apart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Self

from holdfast.api import names

Raw = Mapping[str, Any]
TOGETHER = timedelta(seconds=60)


def parse_time(text: str | None) -> datetime | None:
    """The aware datetime of an RFC 3339 string, or None for None."""
    return datetime.fromisoformat(text) if text else None


@dataclass(frozen=True, slots=True)
class ContainerView:
    """The state of one container: at most one of waiting, started, ended is meaningful."""

    name: str
    waiting: str | None = None  # reason, e.g. ImagePullBackOff
    message: str = ""  # of the waiting state, or the termination message
    started_at: datetime | None = None
    running: bool = False
    ended: bool = False
    exit_code: int = 0
    reason: str = ""  # of the end, e.g. OOMKilled, Error, Completed
    ended_at: datetime | None = None

    @classmethod
    def parse(cls, raw: Raw) -> Self:
        """From one entry of containerStatuses or initContainerStatuses."""
        state = raw.get("state") or {}
        if end := state.get("terminated"):
            return cls(
                name=raw["name"],
                message=end.get("message", ""),
                started_at=parse_time(end.get("startedAt")),
                ended=True,
                exit_code=end.get("exitCode", 0),
                reason=end.get("reason", ""),
                ended_at=parse_time(end.get("finishedAt")),
            )
        if run := state.get("running"):
            return cls(name=raw["name"], running=True, started_at=parse_time(run.get("startedAt")))
        wait = state.get("waiting") or {}
        return cls(name=raw["name"], waiting=wait.get("reason", "ContainerCreating"), message=wait.get("message", ""))


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod of a job."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    job: str
    job_uid: str
    attempt: int
    rank: int
    phase: str  # Pending | Running | Succeeded | Failed | Unknown
    created_at: datetime | None
    node: str | None = None
    reason: str = ""
    message: str = ""
    deleted_at: datetime | None = None  # deletionTimestamp: when it is to be gone, not when deletion was asked for
    finalized: bool = False  # our finalizer is still on it
    scheduled_at: datetime | None = None
    nominated: bool = False  # the scheduler or an autoscaler has a node in mind
    unscheduled_reason: str = ""  # reason of PodScheduled=False
    unscheduled_message: str = ""
    disruption: str = ""  # reason of DisruptionTarget=True
    disruption_message: str = ""
    init: tuple[ContainerView, ...] = ()
    trainer: ContainerView | None = None
    protected: bool = False  # still carries the do-not-disrupt annotations

    @property
    def ended(self) -> bool:
        """True if the trainer can do no more work here: the pod's phase is final or its trainer container ended."""
        return self.phase in ("Succeeded", "Failed") or (self.trainer is not None and self.trainer.ended)

    @classmethod
    def parse(cls, raw: Raw) -> Self | None:
        """The view of a pod, or None if its labels do not name a job and an attempt."""
        meta, status = raw["metadata"], raw.get("status") or {}
        labels = meta.get("labels") or {}
        attempt, rank = labels.get(names.LABEL_ATTEMPT, ""), labels.get(names.LABEL_RANK, "")
        job, job_uid = labels.get(names.LABEL_JOB), labels.get(names.LABEL_JOB_UID)
        if not (job and job_uid and attempt.isdigit() and rank.isdigit()):
            return None
        conditions = {c["type"]: c for c in status.get("conditions") or ()}
        scheduled = conditions.get("PodScheduled") or {}
        disruption = conditions.get("DisruptionTarget") or {}
        disrupted = disruption.get("status") == "True"
        containers = {c["name"]: ContainerView.parse(c) for c in status.get("containerStatuses") or ()}
        annotations = meta.get("annotations") or {}
        is_scheduled = scheduled.get("status") == "True"
        return cls(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            resource_version=meta.get("resourceVersion", ""),
            job=job,
            job_uid=job_uid,
            attempt=int(attempt),
            rank=int(rank),
            phase=status.get("phase", "Pending"),
            created_at=parse_time(meta.get("creationTimestamp")),
            node=(raw.get("spec") or {}).get("nodeName"),
            reason=status.get("reason", ""),
            message=status.get("message", ""),
            deleted_at=parse_time(meta.get("deletionTimestamp")),
            finalized=names.POD_FINALIZER in (meta.get("finalizers") or ()),
            scheduled_at=parse_time(scheduled.get("lastTransitionTime")) if is_scheduled else None,
            nominated=bool(status.get("nominatedNodeName")),
            unscheduled_reason="" if is_scheduled else scheduled.get("reason", ""),
            unscheduled_message="" if is_scheduled else scheduled.get("message", ""),
            disruption=disruption.get("reason", "") if disrupted else "",
            disruption_message=disruption.get("message", "") if disrupted else "",
            init=tuple(ContainerView.parse(c) for c in status.get("initContainerStatuses") or ()),
            trainer=containers.get(names.TRAINER_CONTAINER),
            protected=names.ANNOTATION_DO_NOT_DISRUPT in annotations,
        )


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint on a node."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node. Heartbeats do not change it."""

    name: str
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    ready_changed_at: datetime | None = None
    maintenance: str = ""  # message of a condition that announces the end of the machine (AKS VMEventScheduled)
    termination_at: datetime | None = None  # Karpenter's hard deadline
    deleted_at: datetime | None = None

    @classmethod
    def parse(cls, raw: Raw) -> Self:
        """The view of a Node object."""
        meta, spec = raw["metadata"], raw.get("spec") or {}
        conditions = {c["type"]: c for c in (raw.get("status") or {}).get("conditions") or ()}
        ready, event = conditions.get("Ready") or {}, conditions.get("VMEventScheduled") or {}
        annotations = meta.get("annotations") or {}
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            labels=meta.get("labels") or {},
            taints=tuple(Taint(t["key"], t.get("value", ""), t.get("effect", "")) for t in spec.get("taints") or ()),
            unschedulable=bool(spec.get("unschedulable")),
            ready=ready.get("status") == "True",
            ready_changed_at=parse_time(ready.get("lastTransitionTime")),
            maintenance=event.get("message", "") or "VMEventScheduled" if event.get("status") == "True" else "",
            termination_at=parse_time(annotations.get("karpenter.sh/nodeclaim-termination-timestamp")),
            deleted_at=parse_time(meta.get("deletionTimestamp")),
        )


class ClusterView:
    """All nodes at one moment. Build a new one when a node changes; what is derived is computed once."""

    def __init__(self, nodes: Iterable[NodeView] = ()) -> None:
        self.nodes: Mapping[str, NodeView] = {node.name: node for node in nodes}
        self._matching: dict[frozenset[tuple[str, str]], int] = {}

    @cached_property
    def silent(self) -> tuple[NodeView, ...]:
        """Nodes that are NotReady."""
        return tuple(node for node in self.nodes.values() if not node.ready)

    def outage(self, node: NodeView) -> bool:
        """True if this node fell silent together with half or more of all nodes: then it is the network, not the node.

        "Together" means at least two nodes within a minute of each other; a cluster of one node cannot tell.
        """
        if node.ready_changed_at is None:
            return False
        at = node.ready_changed_at
        together = sum(
            other.ready_changed_at is not None and abs(other.ready_changed_at - at) <= TOGETHER for other in self.silent
        )
        return 2 * together >= len(self.nodes) and (together > 1 or len(self.nodes) == 1)

    def matching(self, selector: Mapping[str, str]) -> int:
        """How many nodes carry all labels of the selector."""
        key = frozenset(selector.items())
        if key not in self._matching:
            self._matching[key] = sum(key <= node.labels.items() for node in self.nodes.values())
        return self._matching[key]
