"""One simulated node: its object, its heartbeats, its pods, and how it is lost and comes back."""

import asyncio
import logging
import shutil
import uuid
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from holdfast_local.agent import admission
from holdfast_local.agent.api import follow
from holdfast_local.agent.config import NodeSpec
from holdfast_local.agent.container.container import Machine
from holdfast_local.agent.errors import AgentError
from holdfast_local.agent.heartbeat import Heartbeat, NodeFacts
from holdfast_local.agent.pod import PodWorker
from holdfast_local.agent.status import timestamp

Object = dict[str, Any]
State = Literal["up", "reclaiming", "gone", "crashed", "partitioned", "silenced"]

NOTICE_TAINT = "aws-node-termination-handler/spot-itn"
TERMINATION = "karpenter.sh/nodeclaim-termination-timestamp"  # when it goes: a cloud's metadata service says it too
FLUSH_SECONDS = 2.0

log = logging.getLogger(__name__)


class Node:
    """A node and the pods on it. It is a pod's Host."""

    def __init__(self, spec: NodeSpec, machine: Machine, facts: NodeFacts) -> None:
        self.spec = spec
        self.machine = machine
        self.name = spec.name
        self.silent = False
        self.allocatable = spec.capacity.resources()
        self.state: State = "gone"
        self.workers: dict[str, PodWorker] = {}
        self._folder = machine.config.data / spec.name / "pods"
        self._heartbeat = Heartbeat(spec, machine, facts)
        self._labels: dict[str, str] = {**spec.labels, **self._heartbeat.own_labels}
        self._accepting = True
        self._swept = False
        self._tasks: list[asyncio.Task[None]] = []
        self._reclaim: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def answers(self) -> bool:
        """Whether its kubelet answers; in an isolated network a cut node is not reached in the first place."""
        return not self.silent and self.state != "silenced"

    # What a pod asks of its node.

    def pod_folder(self, uid: str) -> Path:
        """Where the files of a pod are."""
        return self._folder / uid

    def admit(self, pod: Object) -> admission.Rejection | None:
        """Whether the node takes the pod beside those it has."""
        active = [worker.pod for worker in self.workers.values() if worker.active]
        return admission.admit(pod, active, self.allocatable, self._labels, self.name)

    async def refresh(self) -> None:
        """Look at the Node object again: people add labels and resources to it."""
        try:
            node = await self.machine.api.get(f"/api/v1/nodes/{self.name}")
        except AgentError as err:
            log.warning("node %s not read: %s", self.name, err)
            return
        self._labels = node["metadata"].get("labels") or {}
        self.allocatable.update(node["status"].get("allocatable") or {})

    # Life.

    async def start(self, *, fresh: bool = False) -> None:
        """Register, then keep up heartbeats and run pods. `fresh`: remove an earlier Node object of that name first."""
        self._folder.mkdir(parents=True, exist_ok=True)
        await self._connect()
        await self._heartbeat.register(fresh=fresh)
        self.silent, self._accepting, self._swept = False, True, False
        self._labels = {**self.spec.labels, **self._heartbeat.own_labels}
        self.allocatable = self.spec.capacity.resources()
        self.state = "up"
        self._spawn(self._heartbeat.renew_lease())
        self._spawn(self._heartbeat.keep_status())
        selector = f"spec.nodeName={self.name}"
        self._spawn(follow(self.machine.api, "/api/v1/pods", selector, self._on_list, self._on_event))

    async def _connect(self) -> None:
        await self.machine.network.join()
        await self.machine.api.reconnect()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(_complain)
        self._tasks.append(task)

    async def stop(self, *, keep_files: bool = True) -> None:
        """Fall silent and kill everything on the node, at once."""
        self._fall_silent()
        if self._reclaim is not None and self._reclaim is not asyncio.current_task():
            self._reclaim.cancel()
        workers, self.workers = list(self.workers.values()), {}
        await asyncio.gather(*(worker.close(keep_files=keep_files) for worker in workers), *self._closing)

    def _fall_silent(self) -> None:
        self.silent = True
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    # Pods.

    async def _on_list(self, pods: list[Object]) -> None:
        present = {pod["metadata"]["uid"] for pod in pods}
        for uid in [uid for uid in self.workers if uid not in present]:
            self._remove(uid)
        if not self._swept:
            self._swept = True
            await asyncio.to_thread(_remove_others, self._folder, present)
        for pod in sorted(pods, key=lambda one: one["metadata"]["creationTimestamp"]):
            self._see(pod)

    async def _on_event(self, kind: str, pod: Object) -> None:
        if kind == "DELETED":
            self._remove(pod["metadata"]["uid"])
        else:
            self._see(pod)

    def _see(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self.workers:
            self.workers[uid].update(pod)
        elif self._accepting:
            self.workers[uid] = PodWorker(self, pod)
            self.workers[uid].start()

    def _remove(self, uid: str) -> None:
        worker = self.workers.pop(uid, None)
        if worker is not None:
            task = asyncio.create_task(worker.close())
            task.add_done_callback(_complain)
            task.add_done_callback(self._closing.discard)
            self._closing.add(task)

    # Interruption.

    async def reclaim(self, notice: float, kill_after: float) -> str:
        """Begin to take the node away as a cloud does; returns the event's id once the notice taint is set.

        Raises AgentError where the node is not up, or the taint cannot be set.
        """
        if self.state != "up":
            raise AgentError(f"node {self.name} is {self.state}: only a node that is up can be reclaimed")
        self.state = "reclaiming"
        event = uuid.uuid4().hex
        try:
            goes = datetime.now(UTC) + timedelta(seconds=notice)
            taint = {"key": NOTICE_TAINT, "value": event, "effect": "NoSchedule"}
            await self._heartbeat.add_taint(taint, {TERMINATION: timestamp(goes)})
        except AgentError:
            self.state = "up"
            raise
        self._reclaim = asyncio.create_task(self._take_away(notice, kill_after))
        self._reclaim.add_done_callback(_complain)
        return event

    async def _take_away(self, notice: float, kill_after: float) -> None:
        await asyncio.sleep(notice)
        self._accepting = False
        for worker in self.workers.values():
            worker.tell()
        await asyncio.sleep(kill_after)
        ended = [worker.reporter.flush() for worker in self.workers.values() if worker.ended]
        try:
            await asyncio.wait_for(asyncio.gather(*ended), FLUSH_SECONDS)
        except TimeoutError:
            log.warning("node %s: the end of some pods was not reported before the node went", self.name)
        await self.stop()
        self.state = "gone"
        await self._heartbeat.delete_node()
        await self.machine.network.cut()

    async def crash(self) -> bool:
        """Kill everything on the node and fall silent; the Node object stays. False where it had crashed before."""
        if self.state == "crashed":
            return False
        if self.state == "gone":
            raise AgentError(f"node {self.name} is gone: restore it first")
        self.state = "crashed"
        await self.machine.network.cut()  # first: a machine without power does not close its connections either
        await self.stop()
        return True

    async def partition(self) -> bool:
        """Cut the node off from everything while its processes run on. False where it was partitioned before.

        Raises AgentError where the node is not up, or has no network of its own.
        """
        if self.state == "partitioned":
            return False
        self._check_up("partitioned")
        if not self.machine.network.isolated:
            raise AgentError(
                "all nodes of this cluster share the network of the machine, so none can be cut off: start the cluster "
                "with `holdfast local up --network isolated`, which needs root and the program `ip` (iproute2)"
            )
        await self.machine.network.cut()
        self.state = "partitioned"
        return True

    async def silence(self) -> bool:
        """Cut only the kubelet off from the API server; processes reach everything. False where that was so before.

        Raises AgentError where the node is not up.
        """
        if self.state == "silenced":
            return False
        self._check_up("silenced")
        self.state = "silenced"
        await self.machine.api.cut()
        return True

    async def heal(self) -> bool:
        """End a partition or a silence. False where the node is up.

        What happened on the node is reported, and what was deleted in the API is ended, as a kubelet does it.
        """
        if self.state == "up":
            return False
        if self.state not in ("partitioned", "silenced"):
            raise AgentError(f"node {self.name} is {self.state}: restore it, and it comes back empty")
        await self._connect()
        self.state = "up"
        return True

    def _check_up(self, to_be: str) -> None:
        if self.state != "up":
            raise AgentError(f"node {self.name} is {self.state}: only a node that is up can be {to_be}")

    async def restore(self) -> bool:
        """Kill what is left of the node and register a fresh one. False where the node is up."""
        if self.state == "up":
            return False
        if self.state == "reclaiming":
            raise AgentError(f"node {self.name} is being reclaimed: wait until it is gone, or crash it")
        await self.stop()
        await self.start(fresh=True)
        return True


def _complain(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a task of the agent failed", exc_info=task.exception())


def _remove_others(folder: Path, present: set[str]) -> None:
    for entry in folder.iterdir():
        if entry.name not in present:
            shutil.rmtree(entry, ignore_errors=True)
