"""A small world: an API server, a scheduler, kubelets, nodes, trainers and a storage with its fence.

Time passes only when `pass_time` is called. Every write goes through a method that checks what must always hold.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tests.model.things import Job, Node, Pod
from tests.support.decisions.snapshots import CONFIG, NOW, TIERS, spec, verdict

from holdfast.api import names
from holdfast.api.objects import TrainingJob
from holdfast.api.status import TrainingJobStatus
from holdfast.core.decision import CreatePod, DeletePod, ReleasePod, UnprotectPod
from holdfast.core.observe.nodes import NodeView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.snapshot import Refusal


class ConflictError(Exception):
    """The object has changed."""


class World:
    """All there is."""

    def __init__(self, **changes: Any) -> None:
        """`changes` are of the spec of job lib."""
        self.now = NOW + timedelta(milliseconds=600)  # clocks that give whole seconds are behind
        self.jobs = {
            name: Job(name, name == "lib", spec(activeDeadline="365d", **(changes if name == "lib" else {})))
            for name in ("lib", "plain")
        }
        self.pods: dict[str, Pod] = {}
        self.zombies: list[Pod] = []  # processes whose pod object is gone
        self.nodes: dict[str, Node] = {}
        self.profile: list[dict[str, Any]] = list(TIERS)  # the tiers of profile grid; it does not exist without any
        self.refusing: Refusal | None = None
        self.count = 0
        self.goal = 10**6  # more steps than there are before `heal`
        self.writes = 0
        self.past: dict[str, list[TrainingJob]] = {name: [] for name in self.jobs}  # what status used to be
        for name, tier in (("s1", "spot"), ("s2", "spot"), ("d1", "dedicated"), ("c1", "cpu"), ("c2", "cpu")):
            self.add_node(name, tier)

    def serial(self) -> int:
        """A new number."""
        self.count += 1
        return self.count

    def statuses(self, job: str) -> list[TrainingJobStatus]:
        """Every status that a job has had, oldest first."""
        return [view.status for view in (*self.past[job], self.jobs[job].view())]

    # --- what the operator reads and writes

    def pod_views(self) -> tuple[PodView, ...]:
        """All pods."""
        return tuple(view for pod in self.pods.values() if (view := PodView.parse(pod.raw())))

    def node_views(self) -> tuple[NodeView, ...]:
        """All nodes."""
        return tuple(NodeView.parse(node.raw()) for node in self.nodes.values())

    def patch_status(self, job: str, version: str, status: dict[str, Any]) -> None:
        """Write a status; ConflictError if the job has changed since `version`."""
        stored = self.jobs.get(job)
        if stored is None or str(stored.version) != version:
            raise ConflictError
        self.writes += 1
        before = stored.view().status
        self.past[job].append(stored.view())
        stored.status, stored.version = status, stored.version + 1
        after = stored.view().status
        assert not (before.phase and before.phase.final), "a final phase is final"
        assert 0 <= after.attempt - before.attempt <= 2
        assert after.ledger.folded_through >= before.ledger.folded_through
        known = {record.number for record in before.history}
        new = [record.number for record in after.history if record.number not in known]
        assert after.ledger.attempts - before.ledger.attempts == len(new), "each attempt is counted once"
        for counter in ("interruptions", "failures", "infrastructure"):
            assert 0 <= getattr(after.restarts, counter) - getattr(before.restarts, counter) <= len(new), counter
        assert all(number > before.ledger.folded_through for number in new)
        assert after.current is None or after.current.number not in {r.number for r in after.history}

    def create(self, action: CreatePod) -> Refusal | None:
        """POST a pod."""
        name, job = action.manifest["metadata"]["name"], action.manifest["metadata"]["labels"][names.LABEL_JOB]
        status = self.jobs[job].view().status if job in self.jobs else None
        if self.refusing:
            return Refusal(action.attempt, self.now, *_args(self.refusing))
        if name in self.pods:
            return None  # the names are ours, and so owner and attempt match
        first = action.attempt == 1 and status is not None and status.attempt == 0
        ahead = int(status.fenced_program is not None and status.successor is None) if status else 0
        assert status is None or first or status.attempt + ahead >= action.attempt, "the intent is written first"
        self._check_alone(job, action)
        self.writes += 1
        grace = action.manifest["spec"]["terminationGracePeriodSeconds"]
        uid = f"uid-{self.serial()}"
        self.pods[name] = Pod(action.manifest, uid, job, action.attempt, grace, self.now)
        return None

    def _check_alone(self, job: str, action: CreatePod) -> None:
        stored = self.jobs.get(job)
        status = stored.view().status if stored else None
        lost = {record.pod_uid for record in status.history if record.estimated} if status else set()
        env = {var["name"]: var.get("value") for var in action.manifest["spec"]["containers"][0]["env"]}
        waits_for = int(env.get("HOLDFAST_PREDECESSOR") or 0)
        for other in self._of(job):
            over = other.ended or other.uid in lost or (other.node is None and other.deleted_at)
            outlived = other.deleted_at and self.now >= other.deleted_at + CONFIG.end_margin
            over = over or bool(stored and stored.library and outlived)
            known = other.fenced or bool(status and status.fenced_program)  # that it takes the fence before it trains
            follows = stored is not None and stored.library and waits_for == other.attempt and known
            assert over or follows, f"attempt {action.attempt} starts while the pod of attempt {other.attempt} lives"
        if waits_for and status and status.successor:
            assert status.successor.number == action.attempt, "only a successor waits for another attempt"
        if stored and not stored.library:
            for pod in (*self._of(job), *self.zombies):
                doubled = pod.job == job and pod.process == "running" and pod.node in self.nodes
                assert not doubled, "a program that nothing fences runs twice"

    def delete(self, action: DeletePod) -> None:
        """DELETE a pod."""
        pod = self.pods.get(action.name)
        assert action.uid, "deletes carry a UID"
        if pod and pod.uid == action.uid:
            current = self.jobs[pod.job].view().status.current if pod.job in self.jobs else None
            wanted = current and current.number == pod.attempt and current.drain is None
            assert not wanted, "the pod of the current attempt is deleted without an order to leave"
            assert action.grace != 0, "only people take a pod out of the API by force"
            self.writes += 1
            self.erase(pod, action.grace)

    def erase(self, pod: Pod, grace: int | None = None) -> None:
        """Deletion by anyone, with a grace; the finalizer keeps the object."""
        seconds = pod.grace if grace is None else grace
        end = self.now + timedelta(seconds=seconds)
        if pod.deleted_at is None or end < pod.deleted_at:
            pod.deleted_at, pod.deletion_grace = end, seconds
        self._reap(pod)

    def release(self, action: ReleasePod) -> None:
        """Take the finalizer off a pod."""
        pod = self.pods.get(action.name)
        if pod is None or pod.uid != action.uid or not pod.finalized:
            return
        if (job := self.jobs.get(pod.job)) and not job.deleted:
            status = job.view().status
            told = pod.attempt in {r.number for r in status.history} or pod.attempt <= status.ledger.folded_through
            assert told or pod.node is None, f"attempt {pod.attempt} is released before its end is in status"
        self.writes += 1
        pod.finalized = False
        self._reap(pod)

    def unprotect(self, action: UnprotectPod) -> None:
        """Take the annotations off a pod."""
        if (pod := self.pods.get(action.name)) and pod.uid == action.uid:
            self.writes += 1
            pod.protected = False

    def _reap(self, pod: Pod) -> None:
        name = pod.manifest["metadata"]["name"]
        gone = pod.deleted_at and not pod.finalized and (pod.node is None or pod.ended)
        if gone and self.pods.get(name) is pod:
            del self.pods[name]
            if pod.process == "running":
                self.zombies.append(pod)

    def _of(self, job: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.job == job]

    # --- nodes

    def add_node(self, name: str, tier: str) -> None:
        """A fresh node."""
        self.nodes[name] = Node(name, f"node-{self.serial()}", tier)

    def set_node(self, name: str, *, kubelet: bool, network: bool) -> None:
        """A node falls silent or comes back; back, it hears what happened to its pods meanwhile."""
        node = self.nodes[name]
        before = node.ready
        node.kubelet, node.network = kubelet, network
        if node.ready != before:
            node.changed_at = self.now

    def kill_processes(self, name: str) -> None:
        """The machine is off."""
        for pod in (*self.pods.values(), *self.zombies):
            if pod.node == name and pod.process == "running":
                pod.end(self.now, 137)
            elif pod.node == name and pod.process == "none":
                pod.started_at = self.now
                pod.end(self.now, 137)

    def remove_node(self, name: str) -> None:
        """The Node object goes, and its machine with it."""
        self.kill_processes(name)
        del self.nodes[name]

    # --- everybody else, at their own pace

    def schedule(self) -> None:
        """Bind what can be bound."""
        for pod in self.pods.values():
            if pod.node is None and pod.deleted_at is None:
                wanted = pod.manifest["spec"]["nodeSelector"]["tier"]
                avoided = _avoided(pod.manifest)
                fits = [n for n in self.nodes.values() if n.tier == wanted and n.ready and not n.taints]
                if free := [node for node in fits if node.name not in avoided]:
                    pod.node, pod.scheduled_at = free[0].name, self.now

    def kubelets(self) -> None:
        """Every reachable kubelet starts, ends and reports its pods; garbage collection follows."""
        for pod in list(self.pods.values()):
            node = self.nodes.get(pod.node or "")
            if pod.node and node is None:
                pod.collected = True
                self.erase(pod, 0)
            elif node and node.ready:
                self._kubelet(pod)
            if (job := self.jobs.get(pod.job)) is None or job.deleted:
                self.erase(pod)
        for zombie in self.zombies:
            if zombie.node in self.nodes and self.nodes[zombie.node].ready and zombie.process == "running":
                zombie.end(self.now, 137)
        for name in [name for name, job in self.jobs.items() if job.deleted and not self._of(name)]:
            del self.jobs[name]

    def _kubelet(self, pod: Pod) -> None:
        if pod.process == "none" and pod.deleted_at is None:
            pod.process, pod.started_at, pod.step = "running", self.now, self.jobs[pod.job].saved
        elif pod.process == "none":
            pod.started_at = self.now
            pod.end(self.now, 137)
        if pod.deleted_at and pod.process == "running":
            pod.told = True
            if self.now >= pod.deleted_at and not pod.stuck:
                pod.end(self.now, 137)
        pod.shown = pod.process
        self._reap(pod)

    def train(self, pod: Pod, steps: int) -> None:
        """The program of a pod does some work, on any node, even if it was forgotten."""
        job = self.jobs.get(pod.job)
        if pod.process != "running" or job is None:
            return
        if pod.left:
            pod.end(self.now, 0, verdict("drained", "SavedAndLeft", step=pod.step))
            return
        if job.library and not pod.fenced:
            if self._holds(job, pod):
                if pod.told and not pod.stuck:
                    pod.end(self.now, 0, verdict("drained", "Left"))
                return
            if job.fence[0] > pod.attempt:
                pod.end(self.now, 1, verdict("fenced", "Fenced"))
                return
            job.fence, job.handed_over, pod.fenced = (pod.attempt, pod.uid), False, True
            pod.step = job.saved
        pod.first_step = pod.first_step or pod.step + 1
        pod.step = min(pod.step + steps, self.goal)
        if job.library and job.fence != (pod.attempt, pod.uid):
            pod.end(self.now, 1, verdict("fenced", "Fenced"))
            return
        assert not (job.library and job.handed_over), "a pod that has handed over trains on"
        assert pod.step >= job.saved or not job.library
        job.saved = max(job.saved, pod.step)
        if pod.told and not pod.stuck and job.library:
            pod.left = job.handed_over = True
        elif pod.told and not pod.stuck:
            pod.end(self.now, 0, verdict("drained", "SavedAndLeft", step=pod.step))
        elif pod.step >= self.goal and (job.library or not self._leaving(pod)):
            pod.end(self.now, 0, verdict("completed", "Exited", step=pod.step))

    @staticmethod
    def _holds(job: Job, pod: Pod) -> bool:
        """True while a successor waits at the fence: not let pass, and the attempt before has not handed over."""
        if pod.predecessor is None or pod.go or job.fence[0] > pod.attempt:
            return False
        return not (job.handed_over and job.fence[0] >= pod.predecessor)

    def _leaving(self, pod: Pod) -> bool:
        """True if the operator wants this pod to leave. Then a plain program goes on for ever unless it is deleted."""
        current = self.jobs[pod.job].view().status.current
        return current is not None and current.number == pod.attempt and current.drain is not None

    def heal(self) -> None:
        """Every fault is over: each tier has ready nodes, nothing is refused."""
        self.refusing, self.goal = None, max((500, *(job.saved for job in self.jobs.values())))
        self.profile = self.profile or list(TIERS)
        for pod in (*self.pods.values(), *self.zombies):
            pod.stuck = False
        for name in [name for name, node in self.nodes.items() if node.taints]:
            self.remove_node(name)
        for node in self.nodes.values():
            self.set_node(node.name, kubelet=True, network=True)
        for tier in TIERS:
            self.add_node(f"fresh-{tier['name']}", tier["name"])


def _args(refusal: Refusal) -> tuple[int, str, str]:
    return refusal.status, refusal.reason, refusal.message


def _avoided(manifest: Mapping[str, Any]) -> set[str]:
    """The nodes on which the pod may not run. Those that it only would rather not have count as all others."""
    nodes = manifest["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = nodes.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    return {value for term in terms for field in term["matchFields"] for value in field["values"]}
