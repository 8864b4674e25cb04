"""The decision while it is made: deeds of rows change it, `finish` turns it into a Decision."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from operator import is_not
from typing import Any, TypeVar

from holdfast.api.attempt import MAX_AVOIDED, Attempt, AttemptState
from holdfast.api.profile import ProfileTier
from holdfast.api.status import DecisionNote, TrainingJobStatus
from holdfast.core.capacity.bad_nodes import suspects, to_avoid
from holdfast.core.capacity.interruptions import interruptions_and_node_time, mean_lifetime
from holdfast.core.capacity.knowledge import find
from holdfast.core.decision import Action, CreatePod, Decision, DeletePod, Event, InspectPod, Order, WorldOrder
from holdfast.core.made_from import MadeFrom, fence_hash, made_from
from holdfast.core.observe.look import look
from holdfast.core.observe.members import fresh_ranks, groups_of, inherited, known_imports, pods_by_rank
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Situation
from holdfast.core.observe.snapshot import Snapshot
from holdfast.core.pod_manifest import build_pod
from holdfast_protocol.orders import CHECKPOINT, DRAIN, GO

Derived = TypeVar("Derived")


# A pod whose number is so far above status.attempt is not of this job: a stale status is never 10,000 attempts behind.
# Numbers only grow, so such a pod must not raise them.
FAR = 10_000


class Role(StrEnum):
    """Which of a job's two attempts is meant; the values are the names of their fields in status."""

    CURRENT = "current"
    SUCCESSOR = "successor"


class Draft:
    """Collects the changes of one decision. The observed objects never change."""

    def __init__(self, snapshot: Snapshot) -> None:
        last = snapshot.job.status.attempt + FAR
        self.forged = tuple(pod for pod in snapshot.pods if pod.attempt > last)
        if self.forged:
            snapshot = replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.attempt <= last))
        self.snapshot = snapshot
        self.now = snapshot.now
        self.status = snapshot.job.status
        self.created: frozenset[int] = frozenset()
        self.refusal_handled = False
        self.trace: list[str] = []
        self._actions: dict[Hashable, Action] = {}
        self._asked: dict[str, None] = {}
        self._dismissed: dict[str, int] = {}
        self._events: list[Event] = []
        self._wake: datetime | None = None
        self._derived: dict[str, Any] = {}
        self._derived_from: TrainingJobStatus | None = None
        self._seen: tuple[object, ...] = ()
        self._situations: dict[Role, tuple[Attempt | None, frozenset[int], Situation]] = {}

    def attempt(self, role: Role = Role.CURRENT) -> Attempt | None:
        """The current attempt, or its successor, with what was decided so far; None if there is none."""
        return self.status.current if role is Role.CURRENT else self.status.successor

    @property
    def changed(self) -> bool:
        """True if the status is to differ from the stored one."""
        stored = self.snapshot.job.status
        return self.status is not stored and self.status != stored

    @property
    def made_from(self) -> MadeFrom:
        """The fields that a pod is made from which is created now."""
        return made_from(self.snapshot.job.spec)

    @property
    def is_program_fenced(self) -> bool:
        """True if the job's program, as its spec has it now, is known to take the storage fence."""
        return self._is_fenced(self.status)

    def _is_fenced(self, status: TrainingJobStatus) -> bool:
        return status.fenced_program == fence_hash(self.made_from)

    def situation(self, role: Role = Role.CURRENT) -> Situation:
        """What is seen of the current attempt, or of its successor, with what was decided so far."""
        attempt, known = self.attempt(role), self._situations.get(role)
        if known is None or known[0] is not attempt or known[1] is not self.created:
            known = self._situations[role] = (attempt, self.created, look(self.snapshot, attempt, self.created))
        return known[2]

    def set(self, **changes: Any) -> None:
        """Change fields of the status; it stays the same object if they are these very objects already."""
        for name, value in changes.items():
            if getattr(self.status, name) is not value:
                self.status = self.status.model_copy(update=changes)
                return

    def explain(self, action: str, message: str) -> None:
        """Record the choice in words; the same words again keep their time."""
        said = self.status.decision
        if said is None or (said.action, said.message) != (action, message):
            self.set(decision=DecisionNote(action=action, message=message, at=self.now))

    def event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Add an Event for people."""
        self._events.append(Event("Warning" if warning else "Normal", reason, message))

    def act(self, action: Action) -> None:
        """Add an action, once."""
        # A manifest has no hash; an attempt has one pod of each rank.
        self._actions.setdefault((action.attempt, action.rank) if isinstance(action, CreatePod) else action, action)

    def ask(self, pod: PodView) -> None:
        """Ask the launcher in this pod of several for a sign of life."""
        self._asked[pod.uid] = None

    def dismiss(self, pod: PodView) -> None:
        """Let the launcher in this pod of several end: no attempt follows."""
        self._dismissed[pod.uid] = pod.rank

    def wake(self, at: datetime) -> None:
        """Decide again at this time at the latest."""
        self._wake = at if self._wake is None else min(self._wake, at)

    def wake_in(self, seconds: float) -> None:
        """Decide again in this many seconds at the latest."""
        self.wake(self.now + timedelta(seconds=seconds))

    def is_due(self, at: datetime) -> bool:
        """True if it is `at` or later; otherwise the job is decided again then."""
        if self.now >= at:
            return True
        self.wake(at)
        return False

    def memo(self, name: str, derive: Callable[[], Derived]) -> Derived:
        """What `derive` returns; called again only if attempts, or what is known of them, have changed since."""
        now = self.status
        if now is not self._derived_from:
            seen = (now.current, now.successor, now.tiers, now.progress, now.checkpoint, now.history)
            if any(map(is_not, seen, self._seen)):
                self._derived.clear()
            self._derived_from, self._seen = now, seen
        if name not in self._derived:
            self._derived[name] = derive()
        found: Derived = self._derived[name]
        return found

    def raise_attempt(
        self,
        tier: ProfileTier,
        *,
        retry_at: datetime | None = None,
        avoid: tuple[str, ...] = (),
        keep: Mapping[int, int] | None = None,
        any_node: bool = False,
    ) -> Attempt:
        """Raise the attempt number and return a new attempt, Intended; the caller makes it current or successor.

        Besides `avoid` it avoids bad nodes, but none of the tier's nodes with `any_node`.

        `keep` has the pods that it takes over: the number of the attempt that created each, by rank. A pod with a
        higher number than status has means that status was lost: the new number is above that too.
        """
        number = max((self.status.attempt, *(pod.attempt for pod in self.snapshot.pods))) + 1
        self.set(attempt=number)
        bad = () if any_node else to_avoid(self.snapshot, tier)
        nodes = self.snapshot.job.spec.trainer.nodes
        born = {**dict.fromkeys(range(nodes), number), **(keep or {})}
        return Attempt(
            number=number,
            state=AttemptState.INTENDED,
            tier=tier,
            raised_at=self.now,
            made_from=self.made_from,
            nodes=nodes,
            members=groups_of(born, number),
            retry_at=retry_at,
            avoid_nodes=tuple(dict.fromkeys((*avoid, *bad)))[:MAX_AVOIDED],
        )

    def create_pods(self, attempt: Attempt) -> None:
        """Create the pods that an attempt lacks after its status is written.

        The first pod of a job with one node does not wait, and neither does a promised one.
        """
        snapshot, tier = self.snapshot, attempt.tier
        shared = find(snapshot.profile.status.tiers, tier.name) if snapshot.profile else None
        interruptions, node_time = interruptions_and_node_time(find(self.status.tiers, tier.name), shared, self.now)
        life = mean_lifetime(tier.kind, interruptions, node_time, snapshot.config.assumed) / attempt.nodes
        there = pods_by_rank(snapshot.pods, attempt)
        promised = self._promised(attempt) if attempt.nodes == 1 else self._promised_beside_others(attempt)
        shuns = sorted(suspects(snapshot).keys() - set(attempt.avoid_nodes))
        # Only while others train. Otherwise the others wait for this pod, and its program imports these modules itself.
        imports = known_imports(snapshot.members.values()) if self.status.successor is attempt else ()
        for rank in fresh_ranks(attempt):
            if rank not in there or attempt.nodes == 1:
                manifest = build_pod(
                    snapshot.job, attempt, snapshot.config, life, rank=rank, shuns=shuns, imports=imports
                )
                self.act(CreatePod(attempt.number, rank, manifest, promised))
        self.created |= {attempt.number}

    def _promised(self, attempt: Attempt) -> bool:
        """True if the stored status has this number, and the pod before it, and every other pod, was seen to end.

        Where the fence tells programs apart, the number after the stored one is enough, and the pod that a successor
        follows need not have ended.
        """
        stored, pods = self.snapshot.job.status, self.snapshot.pods
        before, ahead = stored.current, int(self._is_fenced(stored) and stored.successor is None)
        seen = before is None or before.number == attempt.number or any(pod.attempt == before.number for pod in pods)
        clear = all(pod.ended or pod.attempt == attempt.predecessor for pod in pods)
        return attempt.number <= stored.attempt + ahead and seen and clear

    def _promised_beside_others(self, attempt: Attempt) -> bool:
        """True if the attempt takes over pods, its number follows the stored one, and the fence tells programs apart.

        No program starts in a new pod of several before status says where all meet. So a pod that is never needed only
        holds its node until it is deleted.
        """
        stored = self.snapshot.job.status
        follows = attempt.number == stored.attempt + 1 and stored.successor is None
        return follows and self._is_fenced(stored) and bool(inherited(attempt))

    def next_order(self) -> int:
        """The id of a new order."""
        order = self.status.requests.orders + 1
        self.set(requests=self.status.requests.model_copy(update={"orders": order}))
        return order

    def order_checkpoint(self) -> None:
        """Order the current attempt's trainer to save; the new order replaces one that is still open."""
        order = self.next_order()
        self.set(requests=self.status.requests.model_copy(update={"checkpoint_order": order}))

    def delete_pod(self, pod: PodView, grace: int | None = None) -> None:
        """Delete a pod unless it is being deleted already."""
        if pod.deleted_at is None:
            self.act(DeletePod(pod.name, pod.uid, grace))

    def inspect(self, pod: PodView, since: datetime, *, every: timedelta | None = None) -> None:
        """Have the warnings about a pod read once after `since`, or from then on again and again."""
        read = self.snapshot.inspections.get(pod.uid)
        if read and read.at >= since:
            if every is None:
                return
            since = read.at + every
        if self.is_due(since):
            self.act(InspectPod(pod.name, pod.uid))

    def finish(self) -> Decision:
        """The decision."""
        return Decision(
            status=self.status,
            actions=tuple(self._actions.values()),
            orders=self._open_orders(),
            worlds=self._worlds(),
            asked=tuple(self._asked),
            events=tuple(self._events),
            requeue_at=self._wake,
            trace=tuple(self.trace),
        )

    def _open_orders(self) -> tuple[Order, ...]:
        """All orders that trainers have not acknowledged; derived from status alone, so a restart loses none."""
        orders = []
        for attempt in (self.status.current, self.status.successor):
            uid = attempt.pods[0].uid if attempt and attempt.pods else None
            if attempt is None or uid is None:
                continue
            if attempt.go is not None and not attempt.fenced:
                orders.append(Order(attempt.go, GO, uid, None, "the attempt before it has handed over or ended"))
            if attempt is self.status.current and (save := self.status.requests.checkpoint_order) is not None:
                orders.append(Order(save, CHECKPOINT, uid, None, "requested"))
            if attempt.drain and attempt.drain.acknowledged_at is None:
                orders.append(Order(attempt.drain.order, DRAIN, uid, attempt.drain.deadline, attempt.drain.reason))
        return tuple(orders)

    def _worlds(self) -> tuple[WorldOrder, ...]:
        """Where the pods of attempts with several nodes meet. A pod of both attempts works for the current one."""
        found: list[WorldOrder] = []
        taken: set[str] = set()
        for attempt in (self.status.current, self.status.successor):
            if attempt is None or attempt.nodes == 1:
                continue
            pods = {pod.uid: rank for rank, pod in pods_by_rank(self.snapshot.pods, attempt).items()}
            own = {uid: rank for uid, rank in pods.items() if uid not in taken}
            taken |= own.keys()
            # The attempt before it has ended, unless this one is the successor.
            before = attempt.predecessor if attempt is self.status.successor else None
            found.append(WorldOrder(attempt.number, attempt.world, before, own))
        if self._dismissed:
            found.append(WorldOrder(self.status.attempt + 1, None, None, self._dismissed, leave=True))
        return tuple(found)
