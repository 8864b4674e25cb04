"""The operator as a model: a cache that lags, decisions that may be cut short by a crash after any write."""

from datetime import timedelta

from tests.model.things import Pod
from tests.model.world import ConflictError, World
from tests.support.decisions.snapshots import CONFIG, profile, stored

from holdfast.api.model import merge_patch
from holdfast.core.decide import decide
from holdfast.core.decision import (
    CreatePod,
    Decision,
    DeleteJob,
    DeletePod,
    HoldPod,
    InspectPod,
    Order,
    ReleasePod,
    UnprotectPod,
)
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.snapshot import Refusal, Snapshot
from holdfast.core.observe.start_trouble import Inspection
from holdfast.runtime.housekeeping.orphaned_pods import is_releasable
from holdfast.serve.reports import ReportBook
from holdfast_protocol.report import read

LAG = timedelta(seconds=4)  # a cache never lags longer than this behind, which is less than config.missing_after


class Operator:
    """One process after another; each begins with what the API server lists."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.restart()

    def restart(self) -> None:
        """A new process: nothing is remembered, everything is listed."""
        self.reports = ReportBook(lambda job, urgent: None, timedelta(seconds=15))
        self.refusals: dict[str, Refusal] = {}
        self.inspections: dict[str, Inspection] = {}
        self.orders: dict[str, tuple[Order, ...]] = {}
        self.raised: dict[str, int] = {}
        self.since = self.world.now
        self.sync_jobs()
        self.sync_pods()
        self.sync_nodes()

    def sync_jobs(self) -> None:
        """The watch of jobs has caught up."""
        self.jobs = {name: job.view() for name, job in self.world.jobs.items()}
        self.profile = profile(*self.world.profile) if self.world.profile else None

    def sync_pods(self) -> None:
        """The watch of pods has caught up."""
        self.pods = {view.name: view for view in self.world.pod_views()}
        self.synced_at = self.world.now

    def sync_nodes(self) -> None:
        """The watch of nodes has caught up."""
        self.cluster = ClusterView(self.world.node_views())

    def catch_up(self) -> None:
        """No cache lags for longer than LAG."""
        if self.world.now - self.synced_at >= LAG:
            self.sync_jobs()
            self.sync_pods()
            self.sync_nodes()

    def decide(self, name: str) -> Decision | None:
        """What the operator makes of what it knows; None without a job."""
        return decide(self.snapshot(name)) if name in self.jobs else None

    def snapshot(self, name: str) -> Snapshot:
        """What the operator knows of a job."""
        pods = tuple(pod for pod in self.pods.values() if pod.job == name)
        return Snapshot(
            now=self.world.now,
            job=self.jobs[name],
            pods=pods,
            cluster=self.cluster,
            reports=self.reports.of(pod.uid for pod in pods),
            profile=self.profile if self.jobs[name].spec.capacity.profile else None,
            refusal=self.refusals.get(name),
            inspections=self.inspections,
            listening_since=self.since,
            config=CONFIG,
        )

    def operate(self, name: str, writes: int) -> bool:
        """One pass over a job; after so many writes the process dies and another begins. True if all was quiet."""
        decision = self.decide(name)
        if decision is None:
            return self._orphans(name)
        job = self.jobs[name]
        patch = merge_patch(job.status, decision.status)
        if writes == 0:
            self.restart()
            return False
        first = [action for action in decision.actions if patch and self._promised(name, action)]
        for done, action in enumerate(first):
            if done >= writes:
                self.restart()
                return False
            self._act(name, action)
        if patch:
            if len(first) >= writes:
                self.restart()
                return False
            after = stored(job, decision.status).status.to_object()
            try:
                self.world.patch_status(name, job.metadata.resource_version, after)
            except ConflictError:
                self.sync_jobs()
                return False
            self.jobs[name] = self.world.jobs[name].view()
            if not first:
                self.refusals.pop(name, None)
            self.raised[name] = decision.status.attempt
        self.orders[name] = decision.orders
        rest = [action for action in decision.actions if action not in first]
        for done, action in enumerate(rest, start=len(first) + int(bool(patch))):
            if done >= writes:
                self.restart()
                return False
            self._act(name, action)
        return not patch and not decision.actions

    def _promised(self, name: str, action: object) -> bool:
        """As the executor: a pod that this process promised goes before the status."""
        return (
            isinstance(action, CreatePod)
            and action.promised
            and self.raised.get(name) == self.jobs[name].status.attempt
        )

    def _act(self, name: str, action: object) -> None:
        match action:
            case CreatePod():
                if refusal := self.world.create(action):
                    self.refusals[name] = refusal
            case DeletePod():
                self.world.delete(action)
            case ReleasePod():
                self.world.release(action)
            case HoldPod():
                raise AssertionError("no pod of the model loses its finalizer while it trains")
            case UnprotectPod():
                self.world.unprotect(action)
            case InspectPod():
                self.inspections[action.uid] = Inspection(self.world.now)
            case DeleteJob():
                raise AssertionError("no job of the model has a time to live")
        self._answer()

    def _answer(self) -> None:
        """What the API server answers to our own writes goes into the cache of pods: it knows at least its own."""
        self.sync_pods()

    def _orphans(self, name: str) -> bool:
        ready = [p for p in self.pods.values() if p.job == name and is_releasable(p, self.cluster, self.world.now)]
        for pod in ready:
            self._act(name, ReleasePod(pod.name, pod.uid))
        return not ready

    def hear(self, pod: Pod) -> None:
        """A report of a pod arrives, and its open orders go back."""
        waiting = pod.predecessor is not None and not pod.fenced
        state = "waiting" if waiting else "left" if pod.left else "training"
        body = {"sender": "Library", "attempt": pod.attempt, "podUID": pod.uid, "state": state, "fenced": pod.fenced}
        if pod.fenced and pod.step:
            at = self.world.now.isoformat()
            body["checkpoint"] = {"step": pod.step, "uri": "s3://b/p", "bytes": 1, "seconds": "2", "committedAt": at}
        if pod.first_step is not None and self.reports.of([pod.uid]):
            body |= {"step": pod.step}
        elif pod.first_step is not None:
            body |= {"step": pod.first_step}
        for order in self.orders.get(pod.job, ()):
            if order.pod_uid == pod.uid:
                pod.acknowledged = max(pod.acknowledged, order.id)
                pod.told = pod.told or order.type == "drain"
                pod.go = pod.go or order.type == "go"
        body |= {"acknowledged": pod.acknowledged}
        self.reports.receive(("ns", pod.job), read(body), self.world.now)
