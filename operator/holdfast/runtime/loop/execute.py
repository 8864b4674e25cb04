"""Carry out one decision: status first, then orders, then new pods, then events, then all other actions.

A job gives its turn to write away before those: after losing a node, other jobs need their new pods first.

If the status cannot be written, nothing else is done: no pod may exist that the status does not name, except the very
first, whose decision has no status to write. Two things do not wait for the status, because they cost training time:

- An order to drain because of a notice. Its id follows from the stored status, so a leader that decides again gives
  the same order, and a pod obeys an order once. A request of a user may be withdrawn before the status is written, so
  the order for it waits.
- A promised pod: the number of its attempt is already in status, or it is the next number and the storage fence
  separates the two programs. So a successor starts while the notice is still being written. This process must have
  written the newest number: then no other process has decided anything for the job, and only changes by users can be
  missing in the snapshot. If the pod is not needed after such a change, the next decision deletes it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import Enum
from time import monotonic
from typing import Protocol

from holdfast.api import names
from holdfast.api.attempt import EndKind
from holdfast.api.model import merge_patch
from holdfast.api.objects import TrainingJob
from holdfast.core.decision import (
    Action,
    CreatePod,
    Decision,
    DeleteJob,
    DeletePod,
    HoldPod,
    InspectPod,
    Order,
    ReleasePod,
    UnprotectPod,
    WorldOrder,
)
from holdfast.core.observe.members import LauncherView
from holdfast.core.observe.snapshot import Refusal
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.endpoint.ca_configmap import CaConfigMap
from holdfast.runtime.errors import ApiError
from holdfast.runtime.housekeeping.pod_inspection import PodInspector
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.loop.closed_namespaces import ClosedNamespaces
from holdfast.runtime.loop.events import EventRecorder
from holdfast.runtime.pod_writer import PodWriter, RefusedError, is_namespace_terminating, is_refusal
from holdfast.serve.fair_line import Turns
from holdfast_protocol.orders import DRAIN

log = logging.getLogger(__name__)

# How many jobs write at once; namespaces take turns. This is less than the number of workers: when a node goes away,
# all its pods get their orders and all promised pods are created at once, and then the statuses are written in turn.
WRITERS = 16


class Board(Protocol):
    """The open orders that pods fetch."""

    def replace(self, job_uid: str, orders: tuple[Order, ...]) -> None:
        """Open exactly these orders for the pods of this job."""

    def offer(self, job_uid: str, orders: tuple[Order, ...]) -> None:
        """Open these orders too."""


class Members(Protocol):
    """What launchers of trainings on several nodes told, and the orders for them."""

    def of(self, pod_uids: Iterable[str]) -> Mapping[str, LauncherView]:
        """The newest report of each of these pods' launchers."""

    def replace(self, job_uid: str, worlds: tuple[WorldOrder, ...]) -> None:
        """Let exactly these orders count for the pods of this job."""

    def ask(self, pod_uids: Iterable[str], now: datetime) -> None:
        """Ask the launchers of these pods for a sign of life."""


class Outcome(Enum):
    """How far a decision was carried out."""

    QUIET = "quiet"  # there was nothing to write
    APPLIED = "applied"
    CONFLICT = "conflict"  # the job has changed: decide again
    GONE = "gone"  # the job does not exist any more


def _notices(decision: Decision) -> tuple[Order, ...]:
    """The orders to drain because of a notice: the node goes away soon."""
    drain = decision.status.current.drain if decision.status.current else None
    if drain is None or drain.kind is not EndKind.INTERRUPTION:
        return ()
    return tuple(order for order in decision.orders if order.type == DRAIN and order.id == drain.order)


def _in_order(actions: Iterable[Action]) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    """New pods, which are urgent, and everything else, which is not."""
    wanted = tuple(actions)
    first = tuple(action for action in wanted if isinstance(action, CreatePod))
    return first, tuple(action for action in wanted if not isinstance(action, CreatePod))


def _raise_first(key: Key, failed: list[BaseException]) -> None:
    """Raise the first of these errors, and log the others."""
    for error in failed[1:]:
        log.warning("another action failed: %s", error, extra={"job": "/".join(key)})
    if failed:
        raise failed[0]


class Executor:
    """Carries out decisions. `refusals` has, by job UID, the pod that the API server refused."""

    def __init__(
        self,
        *,
        writer: GatedWriter,
        cache: Cache,
        board: Board,
        members: Members,
        events: EventRecorder,
        ca: CaConfigMap,
        now: Callable[[], datetime],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._writer = writer
        self._cache = cache
        self._board = board
        self.members = members
        self._events = events
        self._ca = ca
        self._now = now
        self._pods = PodWriter(writer, cache)
        self.inspector = PodInspector(writer, ca, now)
        self.closed = ClosedNamespaces(now, clock)
        self._turns = Turns(WRITERS)
        self._newest_written: dict[str, int] = {}  # job UID -> newest attempt that this process wrote into status
        self.refusals: dict[str, Refusal] = {}

    @property
    def writer(self) -> GatedWriter:
        """The writer of this executor."""
        return self._writer

    @property
    def pods(self) -> PodWriter:
        """The writer of pods, for the clean-up of orphaned pods."""
        return self._pods

    async def apply(self, job: TrainingJob, decision: Decision) -> tuple[Outcome, bool]:
        """Carry out the decision; the second value is True if progress was written.

        Raises ApiError if the status or an action failed for a reason that may pass.
        """
        key = Key(job.metadata.namespace, job.metadata.name)
        patch = {} if decision.status is job.status else merge_patch(job.status, decision.status)
        if not (patch or decision.actions):
            self._open(job, decision)
            for event in decision.events:
                self._events.record(job, event)
            return Outcome.QUIET, False
        promised: tuple[Action, ...] = ()
        if patch:
            notices = _notices(decision)
            if notices and self._writer.may_write:
                self._board.offer(job.metadata.uid, notices)
            promised = await self._create_promised_pods(key, job, decision)
        first, rest = _in_order(action for action in decision.actions if action not in promised)
        async with self._turns.turn(key.namespace, first=bool(first)):
            outcome = await self._write_status(key, job, decision, patch, made=bool(promised)) if patch else None
            if outcome not in (None, Outcome.APPLIED):
                return outcome, False
            self._open(job, decision)
            failed = await self._act(key, job, first)
        for event in decision.events:
            self._events.record(job, event)
        if rest:
            async with self._turns.turn(key.namespace):  # behind jobs that wait for their status and their new pod
                failed += await self._act(key, job, rest)
        _raise_first(key, failed)
        return Outcome.APPLIED, "progress" in patch

    def _open(self, job: TrainingJob, decision: Decision) -> None:
        """Hand out the orders of a decision that is in status."""
        self._board.replace(job.metadata.uid, decision.orders)
        self.members.replace(job.metadata.uid, decision.worlds)
        self.members.ask(decision.asked, self._now())

    async def _create_promised_pods(self, key: Key, job: TrainingJob, decision: Decision) -> tuple[Action, ...]:
        """Create the pod that this process promised, and return the actions that are done."""
        raised = self._newest_written.get(job.metadata.uid, 0)
        promised = tuple(
            action
            for action in decision.actions
            if isinstance(action, CreatePod) and action.promised and raised == job.status.attempt
        )
        try:
            _raise_first(key, await self._act(key, job, promised))
        except ApiError as error:
            # The end of the last attempt must be recorded in any case; then the pod is tried again.
            log.warning("cannot create the promised pod yet: %s", error, extra={"job": "/".join(key)})
            return ()
        return promised

    def keep_only(self, job_uids: set[str]) -> None:
        """Forget all other jobs."""
        for known in (self.refusals, self._newest_written):
            for uid in known.keys() - job_uids:
                del known[uid]

    async def _write_status(
        self, key: Key, job: TrainingJob, decision: Decision, patch: dict[str, object], *, made: bool
    ) -> Outcome:
        """Write the status. `made`: a promised pod of this decision was tried already."""
        meta = job.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid}, "status": patch}
        path = paths.job(key.namespace, key.name)
        try:
            self._cache.put_job(await self._writer.write("PATCH", f"{path}/status", body))
        except ApiError as error:
            if error.not_found:
                self._cache.forget_job(key, meta.uid)
                return Outcome.GONE
            if not error.conflict:
                raise
            return await self._refresh(key, meta.uid)
        self._newest_written[meta.uid] = decision.status.attempt
        if not made:  # otherwise the refusal is of a pod of this decision: the next decision needs it
            self.refusals.pop(meta.uid, None)
        return Outcome.APPLIED

    async def _refresh(self, key: Key, uid: str) -> Outcome:
        try:
            raw = await self._writer.get(paths.job(key.namespace, key.name))
        except ApiError as error:
            if error.not_found:
                self._cache.forget_job(key, uid)
                return Outcome.GONE
            raise
        self._cache.put_job(raw)
        return Outcome.CONFLICT if raw["metadata"]["uid"] == uid else Outcome.GONE

    async def _act(self, key: Key, job: TrainingJob, actions: tuple[Action, ...]) -> list[BaseException]:
        """Carry out all of these actions at the same time; the errors of those that failed."""
        before = self.refusals.get(job.metadata.uid)
        work = (self._run_action(key, job, action, before) for action in actions)
        results = await asyncio.gather(*work, return_exceptions=True)
        return [result for result in results if isinstance(result, BaseException)]

    async def _run_action(self, key: Key, job: TrainingJob, action: Action, refused: Refusal | None) -> None:
        match action:
            case CreatePod():
                await self._create(key, job, action, refused)
            case DeletePod():
                await self._pods.delete(key, action)
            case ReleasePod():
                await self._pods.release(key, action.name, action.uid)
            case HoldPod():
                await self._pods.hold(key, action.name, action.uid)
            case UnprotectPod():
                await self._pods.unprotect(key, action.name, action.uid)
            case InspectPod():
                await self.inspector.inspect(key, action)
            case DeleteJob():
                await self._delete_job(key, job.metadata.resource_version, action.uid)

    async def _create(self, key: Key, job: TrainingJob, action: CreatePod, refused: Refusal | None) -> None:
        """Create a pod. If that works, `refused`, which was known before, is over; one of a pod beside it is not."""
        try:
            if self._ca.knows(key.namespace):  # the pod need not wait for the next look
                made, _ = await asyncio.gather(
                    self._pods.create(key, job.metadata.uid, action), self._look_after_ca(key)
                )
            else:
                await self._ensure_ca(key.namespace)
                made = await self._pods.create(key, job.metadata.uid, action)
            if made:
                if self.refusals.get(job.metadata.uid) is refused:
                    self.refusals.pop(job.metadata.uid, None)
                self.closed.accepted(key.namespace)
            else:
                self.closed.refused(key.namespace)
        except RefusedError as error:
            self.refusals[job.metadata.uid] = Refusal(
                attempt=action.attempt,
                at=self._now(),
                status=error.status,
                reason=error.reason,
                message=error.message[:1024],
            )
            log.warning(
                "the API server refused the pod: %s", error, extra={"job": "/".join(key), "attempt": action.attempt}
            )
        except ApiError as error:
            # In a namespace that is being deleted, the ConfigMap cannot be created either.
            if not is_namespace_terminating(error):
                raise
            self.closed.refused(key.namespace)

    async def _look_after_ca(self, key: Key) -> None:
        """Check the ConfigMap while a pod is created. If that fails, the pod is inspected when it cannot start."""
        try:
            await self._ca.ensure(key.namespace)
        except ApiError as error:
            log.warning("cannot check ConfigMap %s: %s", names.CA_CONFIG_MAP, error, extra={"job": "/".join(key)})

    async def _ensure_ca(self, namespace: str) -> None:
        try:
            await self._ca.ensure(namespace)
        except ApiError as error:
            if not is_refusal(error) or is_namespace_terminating(error):
                raise
            # Not 422: that would mean that the pod is invalid.
            message = f"ConfigMap {names.CA_CONFIG_MAP}, which the pod mounts: {error.message}"
            raise RefusedError(403, error.reason, message) from error

    async def _delete_job(self, key: Key, version: str, uid: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": version},
            "propagationPolicy": "Background",
        }
        try:
            await self._writer.write("DELETE", paths.job(key.namespace, key.name), body)
        except ApiError as error:
            if error.not_found:
                self._cache.forget_job(key, uid)
            elif error.conflict:  # the job has changed: decide again
                await self._refresh(key, uid)
            else:
                raise
