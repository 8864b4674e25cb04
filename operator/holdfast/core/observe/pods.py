"""Small immutable views of pods and their containers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from holdfast.api import names
from holdfast.core.observe.raw import LONG_AGO, Raw, parse_optional_time
from holdfast_protocol import variables

Requests = Mapping[str, str]  # quantities by resource

NUMBER = re.compile("[0-9]{1,9}")


def _ran_at(text: str | None) -> datetime | None:
    """Like `parse_optional_time`; container runtimes write the year 1 or 1970 for "never", which gives None."""
    time = parse_optional_time(text)
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
            return cls(name=raw["name"], running=True, started_at=parse_optional_time(run.get("startedAt")))
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
    deleted_at: datetime | None = None  # deletionTimestamp: when the grace period ends, not when deletion was requested
    deletion_grace: int | None = None  # deletionGracePeriodSeconds; 0: deleted by force
    finalized: bool = False  # it still has Holdfast's finalizer
    scheduled_at: datetime | None = None
    nominated: bool = False  # the scheduler or an autoscaler has chosen a node
    unscheduled_reason: str = ""  # reason of PodScheduled=False
    unscheduled_message: str = ""
    disruption: str = ""  # reason of DisruptionTarget=True
    disruption_message: str = ""
    init: tuple[ContainerView, ...] = ()
    trainer: ContainerView | None = None
    prepared: bool = False  # its volumes and its network are there
    others_run: bool = False  # a container that Holdfast did not add has not ended
    protected: bool = False  # it still has the do-not-disrupt annotations
    tier: str = ""  # name of the tier that the pod was made for
    made_from: str = ""  # hash of the fields of spec that the pod is made from; empty if there is none
    requests: Requests = field(default_factory=dict)  # what its trainer asks for: quantities by resource
    address: str = ""  # its IP address, as its kubelet says
    outlives: bool = False  # its job has several nodes: later attempts may take the pod over
    bound: bool = False  # it was seen without a node before: then the scheduler chose the node, not its creator

    @property
    def is_final(self) -> bool:
        """True if its kubelet has said all that it says of the pod."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def ended(self) -> bool:
        """True if the trainer can do no more work here: the pod's phase is final, or its trainer container ended."""
        return self.is_final or (self.trainer is not None and self.trainer.ended)

    @property
    def devices(self) -> Mapping[str, int]:
        """The accelerators that its trainer asks for: resources with a domain."""
        return {name: int(amount) for name, amount in self.requests.items() if "/" in name and amount.isdecimal()}

    @property
    def calm(self) -> bool:
        """True if nothing about the pod is urgent: it has not ended, is not deleted and is not disrupted."""
        return not (self.ended or self.deleted_at or self.disruption)

    @classmethod
    def parse(cls, raw: Raw) -> Self | None:
        """The view of a pod, or None if Holdfast did not make it: labels, name and owner must agree.

        A copy of a pod has its labels, and often its owner, but not its name. A pod without an owner, because its job
        was deleted without its pods, belongs to no job: its job UID is empty.
        """
        meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
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
        prepared = conditions.get("PodReadyToStartContainers") or {}
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
            created_at=parse_optional_time(meta.get("creationTimestamp")),
            node=spec.get("nodeName"),
            reason=status.get("reason", ""),
            message=status.get("message", ""),
            deleted_at=parse_optional_time(meta.get("deletionTimestamp")),
            deletion_grace=meta.get("deletionGracePeriodSeconds"),
            finalized=names.POD_FINALIZER in (meta.get("finalizers") or ()),
            scheduled_at=parse_optional_time(scheduled.get("lastTransitionTime")) if is_scheduled else None,
            nominated=bool(status.get("nominatedNodeName")),
            unscheduled_reason="" if is_scheduled else scheduled.get("reason", ""),
            unscheduled_message="" if is_scheduled else scheduled.get("message", ""),
            disruption=disruption.get("reason", "") if disrupted else "",
            disruption_message=disruption.get("message", "") if disrupted else "",
            init=tuple(ContainerView.parse(c) for c in status.get("initContainerStatuses") or ()),
            trainer=containers.get(names.TRAINER_CONTAINER),
            prepared=prepared.get("status") == "True",
            others_run=any(not one.ended for name, one in containers.items() if name != names.TRAINER_CONTAINER),
            protected=names.ANNOTATION_DO_NOT_DISRUPT in annotations,
            tier=labels.get(names.LABEL_TIER, ""),
            made_from=annotations.get(names.ANNOTATION_MADE_FROM, ""),
            requests=requests_of(spec),
            address=status.get("podIP", ""),
            outlives=_nodes_of(spec) > 1,
        )


def requests_of(spec: Raw) -> Requests:
    """What the trainer container of a pod with this spec asks for: quantities by resource."""
    asked = (_trainer_of(spec).get("resources") or {}).get("requests") or {}
    return {name: str(amount) for name, amount in asked.items()}


def _nodes_of(spec: Raw) -> int:
    """The number of nodes that the launcher in a pod with this spec is told; 1 if it is told none."""
    told = (one.get("value") or "" for one in _trainer_of(spec).get("env") or () if one["name"] == variables.NODES)
    return next((int(text) for text in told if NUMBER.fullmatch(text)), 1)


def _trainer_of(spec: Raw) -> Raw:
    return next((one for one in spec.get("containers") or () if one["name"] == names.TRAINER_CONTAINER), {})
