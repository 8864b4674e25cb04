"""A pod of the virtual cluster, and its program: it starts, waits at the fence, restores, trains and saves."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from holdfast.api import names
from holdfast.core.decision import CreatePod, Order
from holdfast.core.observe.pods import ContainerView, PodView, requests_of
from holdfast.core.observe.report import Report, SavedCheckpoint
from holdfast_cli.simulate.durations import Durations
from holdfast_cli.simulate.machines import Machine
from holdfast_cli.simulate.storage import Storage
from holdfast_protocol import reasons, variables
from holdfast_protocol.orders import DRAIN, GO
from holdfast_protocol.report import State
from holdfast_protocol.verdict import Verdict, to_line

KNOWN_AFTER = 5  # steps after the first, when the pace is known
KILLED = 137


class Stage(Enum):
    """What the program does now, in order."""

    PENDING = auto()
    PULLING = auto()  # it has a node
    LOADING = auto()
    HOLDING = auto()  # at the fence
    RESTORING = auto()
    TRAINING = auto()
    SAVING = auto()
    LEAVING = auto()
    ENDED = auto()


class Pod:
    """One pod. `due` is when its next stage starts."""

    def __init__(
        self,
        action: CreatePod,
        uid: str,
        durations: Durations,
        storage: Storage,
        now: datetime,
        *,
        pace_known: bool = False,
    ) -> None:
        """`pace_known`: the job has run on this tier before, so the first steps show nothing new."""
        self.attempt = action.attempt
        self.uid = uid
        self.durations = durations
        self.storage = storage
        self.manifest = action.manifest
        self.pace_known = pace_known
        self.created_at = now
        self.stage = Stage.PENDING
        self.due: datetime | None = None
        self.machine: Machine | None = None
        self.node: str | None = None
        self.scheduled_at: datetime | None = None
        self.deleted_at: datetime | None = None
        self.ended_at: datetime | None = None
        self.finalized = True
        self.gone = False  # with its node
        env = {one["name"]: one.get("value") for one in action.manifest["spec"]["containers"][0]["env"]}
        self.follows = env.get(variables.PREDECESSOR) is not None
        self.avoids = _avoided(action.manifest)
        labels, meta = action.manifest["metadata"]["labels"], action.manifest["metadata"]
        self.tier = str(labels[names.LABEL_TIER])
        self._static: dict[str, Any] = {
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": uid,
            "resource_version": uid,
            "job": labels[names.LABEL_JOB],
            "job_uid": labels[names.LABEL_JOB_UID],
            "attempt": self.attempt,
            "rank": 0,
            "created_at": now,
            "tier": self.tier,
            "made_from": meta["annotations"][names.ANNOTATION_MADE_FROM],
            "requests": requests_of(action.manifest["spec"]),
        }
        self.name = str(meta["name"])
        self._protected = True
        self._grace: int | None = None
        self._kill_at: datetime | None = None
        self._started_at: datetime | None = None
        self._trains_at: datetime | None = None
        self._base = 0
        self._frozen: int | None = None  # the step at which it stopped to leave
        self._saved: SavedCheckpoint | None = None
        self._acknowledged = 0
        self._acknowledged_at: datetime | None = None
        self._ordered_to_leave = self._completed = self._left = self._fenced = self._passes = False
        self._view: PodView | None = None
        self._last_report: Report | None = None

    # --- events

    def bind(self, machine: Machine, now: datetime) -> None:
        """The pod gets this node."""
        self.machine, self.node, self.scheduled_at = machine, machine.bring(now).name, now
        self._go(Stage.PULLING, now + self.durations.start)
        self.advance(now)

    def advance(self, now: datetime) -> bool:
        """Do what is due; True if something visible has changed."""
        changed = False
        while self.due is not None and self.due <= now and not self.gone:
            changed = True
            self._next(self.due)
        if self._kill_at is not None and now >= self._kill_at and self.stage is not Stage.ENDED:
            self._end(now)
            changed = True
        return changed

    def take_order(self, order: Order, now: datetime) -> bool:
        """Receive an order; True if it is new."""
        if order.id <= self._acknowledged or self.gone or self.stage in (Stage.PENDING, Stage.PULLING):
            return False
        self._acknowledged, self._acknowledged_at = order.id, now
        if order.type == DRAIN:
            self._leave(now)
        elif order.type == GO:
            self._passes = True
            if self.stage is Stage.HOLDING:
                self._pass(now)
        elif self.stage is Stage.TRAINING:
            self._commit(self.step(now), now)
        return True

    def delete(self, grace: int | None, now: datetime) -> bool:
        """DELETE, with a grace period in seconds; True if that is new."""
        if self.deleted_at is not None:
            return False
        full = int(self.manifest["spec"]["terminationGracePeriodSeconds"])
        waits = self.stage is Stage.PENDING or self.stage is Stage.ENDED
        self._grace = 0 if waits else full if grace is None else grace
        self.deleted_at = now + timedelta(seconds=self._grace)
        self._view = None
        if not waits and not self.gone:
            self._kill_at = self.deleted_at
            self._leave(now)
            self.advance(now)
        return self.stage is not Stage.ENDED or not waits

    def release(self) -> None:
        """Holdfast's finalizer is removed."""
        self.finalized, self._view = False, None

    def unprotect(self) -> None:
        """The annotations against disruption are removed."""
        self._protected, self._view = False, None

    def lose(self, now: datetime) -> None:
        """The machine is off; the end of the pod is not seen."""
        if self.stage is not Stage.ENDED:
            self.storage.step = max(self.storage.step, self._safe(now))
            self._frozen = self.step(now)
            self.ended_at = now
        self.gone, self.due, self._kill_at = True, None, None

    # --- what is visible

    @property
    def over(self) -> bool:
        """True if the Pod object no longer exists."""
        ended = self.stage in (Stage.PENDING, Stage.ENDED) or self.gone
        return self.deleted_at is not None and not self.finalized and ended

    @property
    def wake_at(self) -> datetime | None:
        """When something happens to the pod next."""
        if self._kill_at is None or self.stage is Stage.ENDED:
            return self.due
        return self._kill_at if self.due is None else min(self.due, self._kill_at)

    @property
    def trains(self) -> bool:
        """True if it has passed the fence."""
        return self._fenced

    def changing(self, now: datetime) -> float:
        """Seconds until it trains, at least; for hostile markets."""
        if self._trains_at is not None:
            return 0.0
        if self.stage is Stage.RESTORING and self.due is not None:
            return max((self.due - self.durations.pace - now).total_seconds(), 0.0)
        return self.durations.changeover.total_seconds()

    def step(self, now: datetime) -> int:
        """The newest step."""
        if self._frozen is not None:
            return self._frozen
        if self._trains_at is None or now <= self._trains_at:
            return self._base
        return min(self._base + (now - self._trains_at) // self.durations.pace, self.storage.goal)

    @property
    def view(self) -> PodView:
        """The pod as the API server shows it."""
        if self._view is None:
            self._view = self._see()
        return self._view

    def report(self, now: datetime) -> Report | None:
        """The trainer's newest report."""
        if self._last_report is not None:
            return self._last_report
        if self.stage in (Stage.PENDING, Stage.PULLING):
            return None
        report = self._make_report(now)
        if self.ended_at is not None:  # no later report arrives
            self._last_report = report
        return report

    def _make_report(self, now: datetime) -> Report:
        step = self.step(now) if self._fenced else None
        first, first_at, step_at = None, None, None
        if step is not None and self._trains_at is not None and step > self._base:
            first, first_at = self._base + 1, self._trains_at + self.durations.pace
            step_at = self._trains_at + (step - self._base) * self.durations.pace
        if self._fenced and (safe := self._safe(now)) > self._committed:
            self._saved = SavedCheckpoint(safe, "sim:/", 0, now, self.durations.save)
        return Report(
            pod_uid=self.uid,
            attempt=self.attempt,
            received_at=now,
            state=self._state(),
            step=step,
            first_step=first,
            first_step_at=first_at,
            step_at=step_at,
            steps=self.storage.goal,
            fenced=self._fenced,
            resumed_step=self._base if self._fenced and self._base else None,
            checkpoint=self._saved,
            acknowledged=self._acknowledged,
            acknowledged_at=self._acknowledged_at,
        )

    # --- stages

    def _go(self, stage: Stage, due: datetime | None) -> None:
        self.stage, self.due, self._view = stage, due, None

    def _next(self, at: datetime) -> None:
        took = self.durations
        match self.stage:
            case Stage.PULLING:
                self._started_at = at
                self._go(Stage.LOADING, at + took.load)
            case Stage.LOADING if self.follows and not self._passes:
                self._go(Stage.HOLDING, None)
            case Stage.LOADING:
                self._pass(at)
            case Stage.RESTORING:  # the first report comes with the first step
                self._trains_at = at - took.pace
                self._train(at)
            case Stage.TRAINING:
                self._train(at)
            case Stage.SAVING:
                self._commit(self._frozen or 0, at)
                self._left = True
                self._go(Stage.LEAVING, at + took.leave)
            case Stage.LEAVING:
                self._end(at)

    def _train(self, at: datetime) -> None:
        """Train until the pace is known, then until the last step."""
        begun, pace, goal = self._trains_at or at, self.durations.pace, self.storage.goal
        if self.step(at) >= goal:
            self._completed, self._frozen = True, goal
            self._go(Stage.SAVING, at + self.durations.save)
            return
        known, done = begun + (1 + KNOWN_AFTER) * pace, begun + (goal - self._base) * pace
        self._go(Stage.TRAINING, done if self.pace_known or known <= at else min(known, done))

    def _pass(self, now: datetime) -> None:
        self._fenced, self._base = True, self.storage.step
        self._go(Stage.RESTORING, now + self.durations.restore + self.durations.pace)

    def _leave(self, now: datetime) -> None:
        """Save and leave; without anything to save, leave at once."""
        if self._ordered_to_leave or self._completed:
            return
        self._ordered_to_leave, self._frozen = True, self.step(now)
        if self.stage is Stage.TRAINING:
            self._go(Stage.SAVING, now + self.durations.save)
        elif self.stage.value < Stage.TRAINING.value:
            self._left = self._fenced
            self._go(Stage.LEAVING, now + self.durations.leave)

    def _commit(self, step: int, now: datetime) -> None:
        self.storage.step = max(self.storage.step, step)
        self._saved = SavedCheckpoint(step, "sim:/", 0, now, self.durations.save)

    @property
    def _committed(self) -> int:
        """The step of its newest commit, or where it resumed."""
        return self._base if self._saved is None or self._saved.step is None else self._saved.step

    def _safe(self, now: datetime) -> int:
        safe = self.storage.safe(self._base, self.step(now), self.durations.pace)
        return max(safe, self._committed) if self._fenced else 0

    def _end(self, now: datetime) -> None:
        self.ended_at = now
        if not self._left:  # killed
            self.storage.step = max(self.storage.step, self._safe(now))
            self._frozen = self.step(now)
        self._go(Stage.ENDED, None)
        if self.machine is not None:
            self.machine.leave(now)

    def _state(self) -> State:
        if self._left:
            return "completed" if self._completed else "left"
        if self.stage is Stage.HOLDING:
            return "waiting"
        if self.stage is Stage.SAVING:
            return "saving"
        return "training" if self._trains_at is not None else "starting"

    def _see(self) -> PodView:
        trainer = None
        phase = "Pending" if self._started_at is None else "Running"
        if self.stage is Stage.ENDED:
            said = self._last_words()
            phase = "Succeeded" if said else "Failed"
            trainer = ContainerView(
                names.TRAINER_CONTAINER,
                message=said,
                started_at=self._started_at,
                ended=True,
                exit_code=0 if said else KILLED,
                ended_at=self.ended_at,
            )
        elif self._started_at is not None:
            trainer = ContainerView(names.TRAINER_CONTAINER, started_at=self._started_at, running=True)
        elif self.node is not None:
            trainer = ContainerView(names.TRAINER_CONTAINER, waiting="ContainerCreating")
        return PodView(
            prepared=True,
            **self._static,
            phase=phase,
            node=self.node,
            bound=self.node is not None,
            deleted_at=self.deleted_at,
            deletion_grace=self._grace,
            finalized=self.finalized,
            scheduled_at=self.scheduled_at,
            trainer=trainer,
            protected=self._protected,
        )

    def _last_words(self) -> str:
        """The launcher's verdict; empty if the program was killed."""
        if self._completed and self._left:
            return to_line(Verdict("completed", reasons.EXITED, step=self._frozen)).decode()
        if self._ordered_to_leave and (self._left or not self._fenced):
            step = self._frozen if self._fenced else None
            return to_line(Verdict("drained", reasons.SAVED_AND_LEFT, step=step or None)).decode()
        return ""


def _avoided(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Names of nodes that the pod must not go to."""
    affinity = manifest["spec"].get("affinity")
    if not affinity:
        return frozenset()
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return frozenset(name for term in terms for field in term["matchFields"] for name in field["values"])
