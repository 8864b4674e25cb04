"""Small immutable views of the Kubernetes objects that decisions are made from.

They are parsed once per watch event from raw JSON. A field that no decision reads is not here, so two views are equal
exactly when a decision could not tell the objects apart.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Self, TypeVar

from holdfast.api import names
from holdfast.api.scalars import parse_time

Raw = Mapping[str, Any]
Derived = TypeVar("Derived")
TOGETHER = timedelta(seconds=60)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
NUMBER = re.compile("[0-9]{1,9}")


def _time(text: str | None) -> datetime | None:
    """The time of an RFC 3339 string, or None for None."""
    return parse_time(text) if text else None


def _ran_at(text: str | None) -> datetime | None:
    """Like `_time`; a container runtime writes the year 1 or 1970 for what never happened."""
    time = _time(text)
    return time if time and time > LONG_AGO else None


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
                started_at=_ran_at(end.get("startedAt")),
                ended=True,
                exit_code=end.get("exitCode", 0),
                reason=end.get("reason", ""),
                ended_at=_ran_at(end.get("finishedAt")),
            )
        if run := state.get("running"):
            return cls(name=raw["name"], running=True, started_at=_time(run.get("startedAt")))
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
    deletion_grace: int | None = None  # deletionGracePeriodSeconds; 0: somebody deleted it by force
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
    tier: str = ""  # the name of the tier it was made for
    program: str = ""  # digest of the program and storage it was made for; empty if it does not say

    @property
    def ended(self) -> bool:
        """True if the trainer can do no more work here: the pod's phase is final or its trainer container ended."""
        return self.phase in ("Succeeded", "Failed") or (self.trainer is not None and self.trainer.ended)

    @property
    def calm(self) -> bool:
        """True if the pod is well or on its way up: nothing about it is urgent."""
        return not (self.ended or self.deleted_at or self.disruption)

    @classmethod
    def parse(cls, raw: Raw) -> Self | None:
        """The view of a pod, or None if it is not one that Holdfast made: labels, name and owner must agree.

        A copy of a pod carries its labels, and often its owner, but not its name. A pod whose job was deleted without
        its pods has no owner any more: it belongs to no job, whose UID is then empty.
        """
        meta, status = raw["metadata"], raw.get("status") or {}
        labels = meta.get("labels") or {}
        attempt, rank = labels.get(names.LABEL_ATTEMPT, ""), labels.get(names.LABEL_RANK, "")
        job, job_uid = labels.get(names.LABEL_JOB), labels.get(names.LABEL_JOB_UID)
        if not (job and job_uid and NUMBER.fullmatch(attempt) and NUMBER.fullmatch(rank)):
            return None
        owners = meta.get("ownerReferences") or ()
        owned = any(o["uid"] == job_uid and o["kind"] == names.JOB_KIND and o.get("controller") for o in owners)
        if meta["name"] != f"{job}-{int(attempt)}-{int(rank)}" or (owners and not owned):
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
            job_uid=job_uid if owned else "",
            attempt=int(attempt),
            rank=int(rank),
            phase=status.get("phase", "Pending"),
            created_at=_time(meta.get("creationTimestamp")),
            node=(raw.get("spec") or {}).get("nodeName"),
            reason=status.get("reason", ""),
            message=status.get("message", ""),
            deleted_at=_time(meta.get("deletionTimestamp")),
            deletion_grace=meta.get("deletionGracePeriodSeconds"),
            finalized=names.POD_FINALIZER in (meta.get("finalizers") or ()),
            scheduled_at=_time(scheduled.get("lastTransitionTime")) if is_scheduled else None,
            nominated=bool(status.get("nominatedNodeName")),
            unscheduled_reason="" if is_scheduled else scheduled.get("reason", ""),
            unscheduled_message="" if is_scheduled else scheduled.get("message", ""),
            disruption=disruption.get("reason", "") if disrupted else "",
            disruption_message=disruption.get("message", "") if disrupted else "",
            init=tuple(ContainerView.parse(c) for c in status.get("initContainerStatuses") or ()),
            trainer=containers.get(names.TRAINER_CONTAINER),
            protected=names.ANNOTATION_DO_NOT_DISRUPT in annotations,
            tier=labels.get(names.LABEL_TIER, ""),
            program=annotations.get(names.ANNOTATION_PROGRAM, ""),
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
    created_at: datetime | None = None
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
            ready_changed_at=_time(ready.get("lastTransitionTime")),
            created_at=_time(meta.get("creationTimestamp")),
            maintenance=event.get("message", "") or "VMEventScheduled" if event.get("status") == "True" else "",
            termination_at=_time(annotations.get("karpenter.sh/nodeclaim-termination-timestamp")),
            deleted_at=_time(meta.get("deletionTimestamp")),
        )


class ClusterView:
    """All nodes at one moment. Build a new one when a node changes; what is derived is computed once."""

    def __init__(self, nodes: Iterable[NodeView] = ()) -> None:
        self.nodes: Mapping[str, NodeView] = {node.name: node for node in nodes}
        self._derived: dict[Hashable, Any] = {}

    @cached_property
    def silent(self) -> tuple[NodeView, ...]:
        """Nodes that are NotReady."""
        return tuple(node for node in self.nodes.values() if not node.ready)

    def outage(self, node: NodeView, now: datetime) -> bool:
        """True if this node fell silent together with half or more of all nodes: then it is the network, not the node.

        "Together" means at least two nodes within a minute of each other; a cluster of one node cannot tell. Nodes that
        have just come back count too, or the last ones to return from an outage would be taken for dead.
        """
        if node.ready_changed_at is None:
            return False
        at = node.ready_changed_at
        together = len(self.came_back(node, now)) + sum(
            other.ready_changed_at is not None and abs(other.ready_changed_at - at) <= TOGETHER for other in self.silent
        )
        return 2 * together >= len(self.nodes) and (together > 1 or len(self.nodes) == 1)

    def came_back(self, node: NodeView, now: datetime) -> tuple[datetime, ...]:
        """When nodes became Ready, in the last minute, that were there and not Ready after this one fell silent."""
        at = node.ready_changed_at
        return tuple(
            other.ready_changed_at
            for other in self.nodes.values()
            if at and other.ready and other.ready_changed_at and other.created_at
            if other.created_at < at < other.ready_changed_at and now - other.ready_changed_at < TOGETHER
        )

    def matching(self, selector: Mapping[str, str]) -> int:
        """How many nodes carry all labels of the selector."""
        key = frozenset(selector.items())
        return self.once(key, lambda: sum(key <= node.labels.items() for node in self.nodes.values()))

    def once(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """What `derive` says, asked only once for each key: it must depend on the key and these nodes alone."""
        if key not in self._derived:
            self._derived[key] = derive()
        found: Derived = self._derived[key]
        return found
