"""A small world for trainings on several nodes: pods, nodes and launchers that follow the protocol, step by step.

Launchers act as holdfast_train's do: they get ready, start a program, end it when the operator regroups, and tell how
it ended. Time passes only by `pass_time`.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from tests.support.decisions.snapshots import CONFIG, FULL, NOW, job, node, stored, verdict

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.status import TrainingJobStatus
from holdfast.core.decide import decide
from holdfast.core.decision import CreatePod, Decision, DeletePod, ReleasePod, WorldOrder
from holdfast.core.observe.members import LauncherView
from holdfast.core.observe.nodes import ClusterView, NodeView, Taint
from holdfast.core.observe.pods import ContainerView, PodView, requests_of
from holdfast.core.observe.report import Report, SavedCheckpoint
from holdfast.core.observe.room import Room, asks_of, held_by_pods
from holdfast.core.observe.snapshot import Refusal, Snapshot
from holdfast.core.observe.verdict import parse_verdict

PORT = 30_000
CALL = timedelta(seconds=50)  # how long a launcher's call waits for an answer
COLLECTED_AFTER = timedelta(seconds=40)  # pods of a node that is gone
SPOT = "aws-node-termination-handler/spot-itn"


@dataclass
class Clock:
    """The time of a cluster."""

    now: datetime = NOW


@dataclass
class Launcher:
    """The launcher of one pod: the program that it started last, and how that ended."""

    attempt: int = 0
    running: bool = False
    verdict: str = ""
    told_at: Any = None
    heard_at: datetime = NOW  # its newest call
    asked_at: datetime | None = None


@dataclass
class GangWorld:
    """One job with several nodes. `nodes` may be taken away, silenced or tainted by tests."""

    size: int = 4
    spec: dict[str, Any] = field(default_factory=dict)
    name: str = "vit"
    namespace: str = "vision"
    beside: "GangWorld | None" = None  # another training in the same cluster, with the same clock
    imports: tuple[str, ...] = ()  # libraries that its launchers have told
    fenced: bool = True  # the program uses Holdfast's checkpoints
    profile: CapacityProfile | None = None
    job: TrainingJob = field(init=False)

    def __post_init__(self) -> None:
        self.clock = self.beside.clock if self.beside else Clock()
        self.edit()
        self.pods: dict[str, PodView] = {}
        self.launchers: dict[str, Launcher] = {}
        self.nodes: dict[str, NodeView] = {}
        self.reports: dict[str, Report] = {}
        self.orders: dict[str, WorldOrder] = {}
        self.told: dict[str, str] = {}  # orders for trainers, by pod UID
        self.refusal: Refusal | None = None
        self.refuse_after: int | None = None
        self.step = 0
        self.saved = 0
        self.worlds: dict[int, set[str]] = {}  # addresses at which programs of an attempt were started
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.last: Decision | None = None
        self.gone: dict[str, datetime] = {}
        self.dead: set[str] = set()  # nodes that are off, whether or not that is seen
        self.cut_off: set[str] = set()  # nodes whose kubelet alone is silent
        self.neighbours: list[GangWorld] = [self]
        self.turns: dict[str, datetime] = {}  # namespace -> when a training of it last began
        self.free = [f"n{number}" for number in range(1, self.size + 3)]
        for name in self.free:
            self.nodes[name] = node(name)
        if self.beside is not None:
            self.nodes, self.gone, self.free = self.beside.nodes, self.beside.gone, self.beside.free
            self.cut_off = self.beside.cut_off
            self.neighbours, self.turns = self.beside.neighbours, self.beside.turns
            self.neighbours.append(self)

    # --- the operator

    @property
    def now(self) -> datetime:
        """The time, which is the same for all trainings of the cluster."""
        return self.clock.now

    @now.setter
    def now(self, value: datetime) -> None:
        self.clock.now = value

    def room(self) -> Room:
        """The free nodes, and the trainings that want them, as the operator sees them."""
        held = held_by_pods(pod for one in self.neighbours for pod in one.pods.values())
        asks = [ask for one in self.neighbours for ask in asks_of(one.job, one.pods.values(), CONFIG)]
        return Room(ClusterView(self.nodes.values()), held, asks, dict(self.turns))

    @property
    def status(self) -> TrainingJobStatus:
        """The stored status."""
        return self.job.status

    def snapshot(self) -> Snapshot:
        """What the operator sees."""
        members = {
            uid: LauncherView(one.attempt, not one.running, one.heard_at,
                              PORT + one.attempt, parse_verdict(one.verdict), one.told_at, one.asked_at, self.imports)
            for uid, one in self.launchers.items() if uid in self.pods
        }  # fmt: skip
        return Snapshot(
            now=self.now, job=self.job, pods=tuple(self.pods.values()), cluster=ClusterView(self.nodes.values()),
            reports=dict(self.reports), members=members, refusal=self.refusal, config=CONFIG, listening_since=NOW,
            others=self.room(), profile=self.profile,
        )  # fmt: skip

    def edit(self, **changes: Any) -> None:
        """A person changes fields of the spec."""
        self.spec = {**self.spec, **changes}
        trainer = {"image": "registry.example/train:1", "command": ["python3", "train.py"], "nodes": self.size}
        uid = "u-job" if self.name == "vit" else f"u-{self.name}"
        meta = {"name": self.name, "namespace": self.namespace, "uid": uid}
        self.job = job(self.status if hasattr(self, "job") else None, **{"trainer": trainer, **self.spec}, meta=meta)

    def decide(self, writes: int | None = None) -> Decision:
        """One decision, carried out; with `writes`, the operator dies after so many actions."""
        decision = self.last = decide(self.snapshot())
        self.job = stored(self.job, decision.status)
        began = [one.created_at for one in (self.status.current, self.status.successor) if one and one.created_at]
        self.turns.update(dict.fromkeys([self.namespace] if began else [], max(began, default=NOW)))
        self.refusal = None
        self.orders = {uid: world for world in decision.worlds for uid in world.ranks}
        for uid in decision.asked:
            self._ask(uid)
        self.told = {order.pod_uid: order.type for order in decision.orders if order.type == "drain"}
        for action in decision.actions[:writes]:
            match action:
                case CreatePod():
                    self._create(action)
                case DeletePod():
                    self._delete(action)
                case ReleasePod():
                    self._release(action)
        return decision

    def promise(self) -> None:
        """The operator decides, creates the pods that may stand before the status, and dies."""
        for action in decide(self.snapshot()).actions:
            if isinstance(action, CreatePod) and action.promised:
                self._create(action)

    def settle(self) -> None:
        """Decide and let everybody act until nothing changes."""
        for _ in range(60):
            before = (self.job.status, dict(self.pods), [dict(vars(one)) for one in self.launchers.values()])
            self.decide()
            self.schedule()
            self.kubelets()
            self.launch()
            if before == (self.job.status, dict(self.pods), [dict(vars(one)) for one in self.launchers.values()]):
                return
        raise AssertionError(f"the world does not settle: {self.last.trace if self.last else ''}")

    def pass_time(self, seconds: float) -> None:
        """Time passes, and everybody acts."""
        self.now += timedelta(seconds=seconds)
        self.settle()

    def _ask(self, uid: str) -> None:
        """A launcher that lives answers at once."""
        if (one := self.launchers.get(uid)) is not None:
            if self.is_running(uid):
                one.heard_at, one.asked_at = self.now, None
            elif one.asked_at is None:
                one.asked_at = self.now

    def _create(self, action: CreatePod) -> None:
        name, labels = action.manifest["metadata"]["name"], action.manifest["metadata"]["labels"]
        if self.refuse_after is not None and len(self.pods) >= self.refuse_after:
            self.refusal = Refusal(action.attempt, self.now, 403, "Forbidden", "exceeded quota: gpus")
            return
        if name in {pod.name for pod in self.pods.values()}:
            return
        uid = f"u-{name}-{len(self.created)}"
        self.created.append(name)
        self.pods[uid] = PodView(
            namespace=self.namespace, name=name, uid=uid, resource_version="1", job=self.name,
            job_uid=self.job.metadata.uid,
            attempt=action.attempt, rank=action.rank, phase="Pending", created_at=self.now, finalized=True,
            protected=True, outlives=self.size > 1, address=f"10.0.0.{action.rank}", tier=labels["holdfast.dev/tier"],
            made_from=action.manifest["metadata"]["annotations"]["holdfast.dev/made-from"],
            requests=requests_of(action.manifest["spec"]),
        )  # fmt: skip

    def _delete(self, action: DeletePod) -> None:
        pod = self.pods.get(action.uid)
        if pod is None or pod.deleted_at:
            return
        self.deleted.append(pod.name)
        self.pods[action.uid] = replace(pod, deleted_at=self.now + timedelta(seconds=30), deletion_grace=30)
        if pod.ended and not pod.finalized:
            del self.pods[action.uid]

    def _release(self, action: ReleasePod) -> None:
        pod = self.pods.get(action.uid)
        if pod and pod.deleted_at:
            del self.pods[action.uid]
        elif pod:
            self.pods[action.uid] = replace(pod, finalized=False)

    # --- everybody else

    def is_running(self, uid: str) -> bool:
        """True if the pod's processes live and reach the operator."""
        pod = self.pods[uid]
        node = self.nodes.get(pod.node or "")
        lives = node is not None and (node.ready or node.name in self.cut_off) and node.name not in self.dead
        return lives and bool(pod.trainer and pod.trainer.running)

    def schedule(self, limit: int | None = None) -> None:
        """Bind pods to free nodes; not more than `limit` of them."""
        used = {pod.node for one in self.neighbours for pod in one.pods.values() if not pod.ended}
        for uid, pod in list(self.pods.items()):
            if pod.node is None and not pod.deleted_at and limit != 0:
                tier = {"tier": pod.tier}.items()
                free = [name for name in self.free if name not in used and self._is_good(name)]
                if fit := [name for name in free if tier <= self.nodes[name].labels.items()]:
                    used.add(fit[0])
                    where = {"node": fit[0], "scheduled_at": self.now, "prepared": True}
                    self.pods[uid] = replace(pod, **where, unscheduled_reason="", unscheduled_message="")
                    limit = None if limit is None else limit - 1
                else:
                    self.pods[uid] = replace(pod, unscheduled_reason="Unschedulable", unscheduled_message=FULL)

    def _is_good(self, name: str) -> bool:
        found = self.nodes.get(name)
        return found is not None and found.ready and not found.taints

    def kubelets(self) -> None:
        """Start containers on ready nodes; end pods that are deleted."""
        for uid, pod in list(self.pods.items()):
            node = self.nodes.get(pod.node or "")
            if pod.node is None and pod.deleted_at:
                del self.pods[uid]
            elif pod.node in self.gone and self.now - self.gone[pod.node] >= COLLECTED_AFTER:
                self.pods[uid] = replace(pod, phase="Failed", disruption="DeletionByPodGC")
            elif node is None or not node.ready or node.name in self.dead or pod.ended:
                continue
            elif pod.deleted_at:
                self.end_pod(uid, 143, self.launchers[uid].verdict if uid in self.launchers else "")
            elif pod.trainer is None:
                trainer = ContainerView(name="trainer", running=True, started_at=self.now)
                self.pods[uid] = replace(pod, phase="Running", trainer=trainer)
                self.launchers[uid] = Launcher(heard_at=self.now)

    def end_pod(self, uid: str, code: int, message: str = "") -> None:
        """The pod's trainer container ends."""
        pod = self.pods[uid]
        trainer = ContainerView(name="trainer", ended=True, exit_code=code, message=message,
                                started_at=self.now, ended_at=self.now)  # fmt: skip
        phase = "Failed" if code else "Succeeded"
        self.pods[uid] = replace(pod, phase=phase, trainer=trainer)
        self.launchers.pop(uid, None)

    def launch(self) -> None:
        """Each launcher does what the answer to its call says."""
        for uid, one in list(self.launchers.items()):
            if uid not in self.pods or not self.is_running(uid):
                continue
            if self.now - one.heard_at >= CALL:
                one.heard_at, one.asked_at = self.now, None
            order = self.orders.get(uid)
            if order is None or one.attempt >= order.attempt:
                continue
            if one.running:
                one.running, one.verdict = False, verdict("failed", "Regrouped", message="the operator regroups")
                one.told_at = one.heard_at = self.now
            elif order.leave:
                self.end_pod(uid, 1, one.verdict)
            elif order.world is not None:
                one.attempt, one.running, one.verdict, one.told_at = order.attempt, True, "", None
                one.heard_at = self.now
                if order.predecessor is not None and order.ranks[uid] == 0:  # it waits at the fence
                    self.reports[uid] = Report(uid, order.attempt, self.now, "waiting")
                self.worlds.setdefault(order.attempt, set()).add(f"{order.world.address}:{order.world.port}")

    # --- what a training does

    def uid(self, rank: int) -> str:
        """The pod of a rank that the current attempt has."""
        found = [uid for uid, order in self.orders.items() if order.ranks.get(uid) == rank]
        current = [
            uid for uid in found if self.status.current and self.orders[uid].attempt == self.status.current.number
        ]
        return (current or found)[0]

    def has_member(self, uid: str) -> bool:
        """True if the pod works for an attempt."""
        return uid in self.orders

    def trains(self) -> bool:
        """True if all programs of the current attempt run."""
        current = self.status.current
        if current is None:
            return False
        going = [uid for uid, one in self.launchers.items() if one.running and one.attempt == current.number]
        return len(going) == self.size

    def train(self, steps: int = 10, *, saved: bool = True) -> None:
        """All programs run some steps, and rank 0 reports."""
        current = self.status.current
        assert current is not None
        assert self.trains(), "all programs of the attempt run"
        lead, resumed = self.uid(0), self.saved
        self.step = max(self.step, self.saved) + steps
        before = self.reports.get(lead)
        first = before.first_step if before and before.attempt == current.number else resumed + 1
        if saved:
            self.saved = self.step
        checkpoint = SavedCheckpoint(self.saved, "s3://runs/x", 1, self.now, timedelta(seconds=1))
        self.reports[lead] = Report(
            lead, current.number, self.now, "training", self.step, first, self.now, self.now, fenced=self.fenced,
            resumed_step=resumed or None, checkpoint=checkpoint if self.fenced else None,
        )  # fmt: skip
        self.settle()

    def fail(
        self, rank: int, message: str = "RuntimeError: boom", *, pod_ends: bool = False, explained: bool = True
    ) -> None:
        """The program of a rank fails; its launcher tells it. `explained`: the rank has written why it failed."""
        uid = self.uid(rank)
        told = verdict("failed", "UserException", message=message, peer="peer" in message if explained else None)
        if pod_ends:
            self.end_pod(uid, 1, told)
            return
        self._tell_end(uid, told)

    def hang(self, rank: int, **hang: object) -> None:
        """The launcher of a rank ends a program that hangs, and tells what its ranks did."""
        self._tell_end(self.uid(rank), verdict("failed", "Stalled", message="no step for 20 s", peer=False, hang=hang))

    def _tell_end(self, uid: str, told: str) -> None:
        one = self.launchers[uid]
        one.running, one.verdict, one.told_at, one.heard_at = False, told, self.now, self.now

    def leave(self, told: str = "SavedAndLeft") -> None:
        """Every program that was ordered to leave saves and leaves, if its launcher tells that as reason."""
        if not self.told:
            return
        leaving = {self.launchers[uid].attempt for uid in self.told if uid in self.launchers}
        for one in self.launchers.values():
            if one.running and one.attempt in leaving:
                one.running, one.told_at, one.heard_at = False, self.now, self.now
                one.verdict = verdict("drained", told, step=self.step)
        self.saved = self.step
        self.settle()

    def complete(self) -> None:
        """Every program ends with 0, and so does its pod."""
        for uid in [uid for uid in self.launchers if uid in self.pods]:
            self.end_pod(uid, 0, verdict("completed", "Completed", step=self.step))
        self.settle()

    # --- faults

    def notice(self, name: str) -> None:
        """The cloud announces that it takes the node back."""
        self.nodes[name] = replace(self.nodes[name], taints=(Taint(SPOT, effect="NoSchedule"),))

    def remove(self, name: str) -> None:
        """The node goes, and its pods with it."""
        del self.nodes[name]
        self.gone[name] = self.now
        for uid, pod in list(self.pods.items()):
            if pod.node == name:
                self.launchers.pop(uid, None)

    def silence(self, name: str, *, ready: bool = False, alone: bool = False) -> None:
        """The node is silent, or answers again. `alone`: its kubelet is; what runs there lives, and is heard."""
        self.cut_off -= {name}
        self.cut_off |= {name} if alone else set()
        self.nodes[name] = replace(self.nodes[name], ready=ready, ready_changed_at=self.now)

    def node_of(self, rank: int) -> str:
        """The node of a rank."""
        found = self.pods[self.uid(rank)].node
        assert found is not None
        return found

    def heal(self) -> None:
        """Every fault is over: silent nodes answer, nodes on notice go, and there are enough fresh ones."""
        for name, found in list(self.nodes.items()):
            if found.taints or name in self.dead:
                self.remove(name)
            elif not found.ready:
                self.silence(name, ready=True)
        for number in range(self.size * 2):
            self.free.append(f"fresh{number}")
            self.nodes[f"fresh{number}"] = node(f"fresh{number}")
        self.settle()
