"""One job in a virtual cluster. The code that ships decides, and the clock goes from event to event.

The cluster has nodes that come and go, a scheduler, pods whose programs start, step, save and leave, and a storage with
its fence. `core.decide.decide` sees it as the operator would, and the world does what it decides. An event is: a node
comes up, is announced to go, or goes; a pod gets its node, starts, waits at the fence, takes its first step, saves or
ends; a time comes at which the decision asked to be made again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import starmap
from typing import Final

from holdfast.api import names
from holdfast.api.attempt import AttemptState
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import Tier
from holdfast.api.status import TrainingJobStatus
from holdfast.core.decide import decide
from holdfast.core.decision import Action, CreatePod, Decision, DeletePod, ReleasePod, UnprotectPod
from holdfast.core.draft import Draft
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.nodes import ClusterView, NodeView
from holdfast.core.observe.snapshot import Snapshot
from holdfast.core.status.progress import take_progress
from holdfast_cli.simulate.durations import ZERO, Durations
from holdfast_cli.simulate.errors import SimulationError, UnfinishedError
from holdfast_cli.simulate.machines import Machine, Watched
from holdfast_cli.simulate.program import Pod, Stage
from holdfast_cli.simulate.storage import Storage

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT = timedelta(milliseconds=1)
ROUNDS = 32  # decisions at one moment at most; far more than any event needs
# Every decision has a new report: status is never written for a report alone, and no trainer is ever silent.
CONFIG: Final = OperatorConfig(
    progress_url="https://holdfast.simulated:8443", status_interval=ZERO, unreported_after=timedelta(days=3650)
)


@dataclass(frozen=True, slots=True)
class Paid:
    """A node that is paid for: used by a pod, or idle after an autoscaler created it."""

    tier: str
    since: datetime
    until: datetime
    price: Decimal
    idle: bool = False

    @property
    def cost(self) -> Decimal:
        """The cost of the node."""
        return self.price * ((self.until - self.since) // timedelta(microseconds=1)) / (3_600_000_000)


class World:
    """The cluster and the job in it."""

    def __init__(
        self,
        job: TrainingJob,
        machines: Sequence[Machine],
        durations: Mapping[str, Durations],
        storage: Storage,
        *,
        profile: CapacityProfile | None = None,
        config: OperatorConfig = CONFIG,
        beat: timedelta = ZERO,
    ) -> None:
        """`durations` is by tier. The job begins at BEGIN."""
        self.job = job
        self.machines = machines
        self.durations = durations
        self.storage = storage
        self.profile = profile
        self.config = config
        self.beat = beat
        self.now = BEGIN
        self.pods: list[Pod] = []
        self.interruptions = 0
        self.decisions = 0
        self._wake: datetime | None = None
        self._bound: list[tuple[Pod, Machine, datetime]] = []
        self._paid: list[Paid] = []
        self._pods_made = 0
        self._views: tuple[NodeView | None, ...] | None = None
        self._cluster = ClusterView()
        for machine in machines:
            machine.begin(BEGIN)

    @property
    def status(self) -> TrainingJobStatus:
        """The job's status."""
        return self.job.status

    @property
    def starts(self) -> int:
        """How many attempts have passed the fence, on any tier."""
        return sum(pod.trains for pod, _, _ in self._bound)

    def run(self, limit: timedelta, most_decisions: int | None = None) -> TrainingJobStatus:
        """Run until the job is over. Raises UnfinishedError if it is not over after `limit`, or so many decisions."""
        last = BEGIN + limit
        self._settle()
        while not self.status.is_over:
            if most_decisions is not None and self.decisions >= most_decisions:
                raise UnfinishedError(f"the job is not over after {self.decisions:,} decisions: {self.status.phase}")
            self._pass_time(last)
            self._settle()
        return self.status

    @property
    def bill(self) -> list[Paid]:
        """The costs of nodes up to now, seen from outside: nodes that pods used, and idle nodes."""
        idle = [self._idle(machine) for machine in self.machines if machine.idle_since and machine.view]
        return [*self._paid, *[one for one in idle if one], *starmap(self._use, self._bound)]

    # --- time

    def _pass_time(self, last: datetime) -> None:
        """Go on to the next moment at which a decision may say something new."""
        while True:
            at = self._next()
            if at is None or at > last:
                said = self.status.decision.message if self.status.decision else "nothing was decided"
                raise UnfinishedError(f"the job is not over after {last - BEGIN}: {self.status.phase}: {said}")
            self.now = at
            if self._turn() or (self._wake is not None and at >= self._wake):
                return

    def _next(self) -> datetime | None:
        """When the next event is."""
        times = [at for machine in self.machines for at in (machine.next_at, machine.idle_until) if at]
        for pod in self.pods:
            if at := pod.wake_at:
                times.append(at)
            if pod.stage is Stage.PENDING and (found := self._finds(pod)):
                times.append(found[0])
        if self._wake is not None:
            times.append(max(self._wake, self.now + MOMENT))
        return min(times, default=None)

    def _turn(self) -> bool:
        """Do what is due now; True if a decision could depend on it."""
        changed = False
        for pod in self.pods:  # pods first: a pod that is done at the moment when its node goes is done
            changed = pod.advance(self.now) or changed
        for machine in self.machines:
            if (until := machine.idle_until) is not None and until <= self.now:
                self._pay_idle(machine)
                machine.remove()
                changed = True
            while machine.next_at is not None and machine.next_at <= self.now:
                changed = self._turn_machine(machine) or changed
        return self._schedule() or changed

    def _turn_machine(self, machine: Machine) -> bool:
        pod = self._on(machine)
        watched = Watched(pod is not None, pod.changing(self.now) if pod else 0.0)
        idle = self._idle(machine)
        changed = machine.turn(self.now, watched)
        if machine.view is None:
            if idle:
                self._paid.append(idle)
            if pod is not None:
                self.interruptions += 1
                pod.lose(self.now)
        return changed

    # --- the scheduler

    def _schedule(self) -> bool:
        """Bind the pods that find a node; True if there was one."""
        bound = False
        for pod in self.pods:
            if pod.stage is Stage.PENDING and (found := self._finds(pod)) and found[0] <= self.now:
                self._pay_idle(found[1])
                pod.bind(found[1], self.now)
                self._bound.append((pod, found[1], self.now))
                bound = True
        return bound

    def _finds(self, pod: Pod) -> tuple[datetime, Machine] | None:
        """The node that a pod gets next as things stand, and when."""
        if pod.deleted_at is not None:
            return None
        free = [
            (max(pod.created_at, machine.since) + pod.durations.acquire, machine)
            for machine in self.machines
            if machine.up and machine.since and machine.tier.name == pod.tier and self._on(machine) is None
            if machine.view is None or machine.view.name not in pod.avoids
        ]
        return min(free, key=lambda found: found[0], default=None)

    def _on(self, machine: Machine) -> Pod | None:
        """The pod on this machine."""
        return next((pod for pod in self.pods if pod.machine is machine and pod.ended_at is None), None)

    # --- costs

    def _pay_idle(self, machine: Machine) -> None:
        if idle := self._idle(machine):
            self._paid.append(idle)
        machine.idle_since = None

    def _idle(self, machine: Machine) -> Paid | None:
        """The cost of a node that an autoscaler created and that has been idle since; None if there is none."""
        if machine.stands or machine.idle_since is None or machine.idle_since == self.now:
            return None
        return Paid(machine.tier.name, machine.idle_since, self.now, _price(machine.tier), idle=True)

    def _use(self, pod: Pod, machine: Machine, since: datetime) -> Paid:
        return Paid(machine.tier.name, since, pod.ended_at or self.now, _price(machine.tier))

    # --- the operator

    def _settle(self) -> None:
        """Decide and do what was decided, until nothing is left to do at this moment."""
        self._schedule()
        snapshot = self._with_progress(self._snapshot())
        for _ in range(ROUNDS):
            decision = decide(snapshot)
            self.decisions += 1
            self._wake = self._next_beat(decision.requeue_at)
            self._store(decision.status)
            if not self._obey(decision):
                return
            snapshot = self._snapshot()
        raise SimulationError(f"decisions do not come to rest at {self.now}: {decision.trace}")

    def _next_beat(self, at: datetime | None) -> datetime | None:
        """When to decide again: on the beat while the job is calm, otherwise at `at`: then seconds count.

        The job is not calm in a back-off or on a notice, for example.
        """
        current = self.status.current
        calm = current is not None and current.state in _CALM and not current.departure
        if at is None or not self.beat or not calm:
            return at
        return BEGIN + -(-(at - BEGIN) // self.beat) * self.beat

    def _with_progress(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with progress in status, as an operator writes it every few seconds."""
        if self.status.current is None or not snapshot.reports:
            return snapshot
        draft = Draft(snapshot)
        take_progress(draft, draft.situation())
        self._store(draft.status)
        return replace(snapshot, job=self.job)

    def _snapshot(self) -> Snapshot:
        views = tuple(machine.view for machine in self.machines)
        if self._views is None or any(one is not other for one, other in zip(views, self._views, strict=True)):
            self._views, self._cluster = views, ClusterView(view for view in views if view)
        reports = {pod.uid: report for pod in self.pods if (report := pod.report(self.now))}
        return Snapshot(
            now=self.now,
            job=self.job,
            pods=tuple([pod.view for pod in self.pods]),
            cluster=self._cluster,
            reports=reports,
            profile=self.profile,
            listening_since=BEGIN,
            config=self.config,
        )

    def _store(self, status: TrainingJobStatus) -> None:
        if status is not self.job.status:
            self.job = self.job.model_copy(update={"status": status})

    def _obey(self, decision: Decision) -> bool:
        """Carry the decision out; True if that changed anything."""
        changed = False
        for order in decision.orders:
            for pod in self.pods:
                if pod.uid == order.pod_uid:
                    changed = pod.take_order(order, self.now) or changed
                    changed = pod.advance(self.now) or changed
        for action in decision.actions:
            changed = self._act(action) or changed
        self.pods = [pod for pod in self.pods if not pod.over]
        return self._schedule() or changed

    def _act(self, action: Action) -> bool:
        if isinstance(action, CreatePod):
            return self._create(action)
        if not isinstance(action, DeletePod | ReleasePod | UnprotectPod):
            return False  # DeleteJob: the job is over. InspectPod: nothing keeps a pod from starting here
        pod = next((pod for pod in self.pods if pod.uid == action.uid), None)
        if pod is None:
            return False
        if isinstance(action, DeletePod):
            return pod.delete(action.grace, self.now)
        pod.release() if isinstance(action, ReleasePod) else pod.unprotect()
        return False  # not an event: no decision depends on it

    def _create(self, action: CreatePod) -> bool:
        """Create a pod. Names never clash here, because no answer of the API server is lost."""
        self._pods_made += 1
        tier = str(action.manifest["metadata"]["labels"][names.LABEL_TIER])
        durations = self.durations.get(tier, Durations())
        known = any(one.tier == tier and one.pace for one in self.status.tiers)
        made = Pod(action, f"pod-{self._pods_made}", durations, self.storage, self.now, pace_known=known)
        self.pods.append(made)
        return True


def _price(tier: Tier) -> Decimal:
    return tier.price_per_node_hour or Decimal(0)


_CALM = (AttemptState.ACQUIRING, AttemptState.RUNNING)
