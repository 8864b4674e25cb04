"""The life of one pod on a node: admission, volumes, init containers, containers, end, deletion."""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from holdfast_local.agent import status
from holdfast_local.agent.admission import Rejection
from holdfast_local.agent.api import Backoff
from holdfast_local.agent.container.container import Container, Machine, Sandbox, temporary_folder
from holdfast_local.agent.container.downward import PodFacts
from holdfast_local.agent.container.volumes import Volumes
from holdfast_local.agent.errors import AddressError, AgentError, ApiUnreachableError
from holdfast_local.agent.report import Reporter
from holdfast_local.agent.status import PodState, Terminated, Waiting

Object = dict[str, Any]

log = logging.getLogger(__name__)


class Host(Protocol):
    """What a pod needs of its node."""

    machine: Machine
    name: str
    silent: bool
    allocatable: dict[str, str]

    def admit(self, pod: Object) -> Rejection | None:
        """Whether the node takes the pod beside those it has."""

    async def refresh(self) -> None:
        """Look at the Node object again: people add labels and resources to it."""

    def pod_folder(self, uid: str) -> Path:
        """Where the files of a pod are."""


class PodWorker:
    """Runs one pod from the moment its node sees it until it is gone from the API."""

    def __init__(self, host: Host, pod: Object) -> None:
        self.pod = pod
        self.uid = str(pod["metadata"]["uid"])
        self.folder = host.pod_folder(self.uid)
        self._temporary = temporary_folder(host.machine.config, pod)
        self.ended = False  # no process of it runs, and none will
        self.init: list[Container] = []
        self.containers: list[Container] = []
        self._host = host
        self._changed = asyncio.Event()  # the object changed: look at deletion again
        self._told = False  # SIGTERM is sent
        self._admitted = False
        self._tasks: list[asyncio.Task[None]] = []
        self._address = ""  # from its pool; given back when no process of the pod runs
        self._facts = PodFacts(pod, "", host.machine.network.address, host.allocatable)
        self._state = PodState(pod, [], [], host_ip=host.machine.network.address)
        self.reporter = Reporter(host, self._state)
        self._sandbox = Sandbox(
            host.machine,
            self._facts,
            Volumes(host.machine.api, self._facts, self.folder / "volumes"),
            self.folder,
            self.reporter.changed,
            self.reporter.event,
        )

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.pod["metadata"]["namespace"], self.pod["metadata"]["name"]

    @property
    def address(self) -> str:
        """Its address; "" while it has none."""
        return self._facts.pod_ip

    @property
    def active(self) -> bool:
        """Whether it counts against what the node has."""
        return self._admitted and not self.ended

    def start(self) -> None:
        """Begin, in the background."""
        self._spawn(self._run())

    def update(self, pod: Object) -> None:
        """The object changed in the API."""
        self.pod = self._facts.pod = self._state.pod = pod
        self._changed.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _run(self) -> None:
        try:
            self._spawn(self.reporter.run())
            if (self.pod.get("status") or {}).get("startTime"):
                self._take_lost()
            elif self.pod["metadata"].get("deletionTimestamp"):
                self._state.terminal = True  # deleted before it was ever started here
            else:
                await self._live()
                await self._take_apart()
            self.ended = True
            self._give_address_back()
            self._state.terminal = True
            self.reporter.changed()
            await self._finish()
        except Exception as err:  # a bug here must not take the other pods down, and the pod must not wait for ever
            log.exception("pod %s/%s: the agent failed", *self.key)
            await self.kill()
            self._give_address_back()
            self.ended = self._state.terminal = True
            self._state.reason, self._state.message = "NodeAgentError", f"{type(err).__name__}: {err}"
            self.reporter.changed()
            await self._finish()

    def _take_lost(self) -> None:
        """A pod from before this agent's life: its processes are dead, so it has failed, unless it had ended before."""
        old = self.pod["status"]
        if old.get("phase") in ("Succeeded", "Failed"):
            self.reporter.settled = True
            return
        self._state.lost = True
        self._state.sandbox = True
        self._state.pod_ip = old.get("podIP", "")
        self.reporter.override = status.lost_containers(self.pod)

    async def _live(self) -> None:
        rejection = self._host.admit(self.pod)
        if rejection is not None:
            await self._host.refresh()
            rejection = self._host.admit(self.pod)  # no await between this and taking the place
        self._state.started_at = datetime.now(UTC)
        if rejection is not None:
            self._state.reason, self._state.message = rejection.reason, rejection.message
            self._state.terminal = True
            self.reporter.event(rejection.reason, rejection.message)
            return
        self._admitted = True
        spec = self.pod["spec"]
        first = Waiting("PodInitializing" if spec.get("initContainers") else "ContainerCreating")
        self.init = [Container(one, self._sandbox, first) for one in spec.get("initContainers") or []]
        self.containers = [Container(one, self._sandbox, first) for one in spec["containers"]]
        self._state.init = [one.state for one in self.init]
        self._state.containers = [one.state for one in self.containers]
        await self.reporter.flush()  # that a pod is there is said before anything of it runs, or fails
        ending = asyncio.create_task(self._end_when_told())
        renewing: asyncio.Task[None] | None = None
        try:
            if await self._make_sandbox():
                renewing = asyncio.create_task(self._sandbox.volumes.keep_fresh())
                await self._containers(spec.get("restartPolicy", "Always"))
        finally:
            for task in (ending, renewing):
                if task is not None:
                    task.cancel()

    async def _take_apart(self) -> None:
        """Wait between the two reports of an end: the containers have ended, and later nothing of the pod is left.

        Of a pod that had to end, or that never began, a kubelet says both at once.
        """
        if self._admitted and not self._told:
            await self.reporter.flush()
            await asyncio.sleep(self._host.machine.config.timings.final_phase)

    async def _make_sandbox(self) -> bool:
        """Take an address and make the volumes, again until that works; False if the pod is to end before that."""
        self.folder.mkdir(parents=True, exist_ok=True)
        backoff = Backoff(0.25, 10.0)
        while not self._sandbox.stopping.is_set():
            try:
                self._take_address()
                await self._sandbox.volumes.prepare()
            except ApiUnreachableError as err:
                log.warning("%s", err)
            except AddressError as err:
                self.reporter.event("FailedCreatePodSandBox", f"Failed to create pod sandbox: {err}")
            except AgentError as err:
                self.reporter.event("FailedMount", str(err))
            else:
                self._state.sandbox = True
                return True
            await self._sandbox.pause(backoff.take())
        return False

    def _take_address(self) -> None:
        if not self._facts.pod_ip:
            if self.pod["spec"].get("hostNetwork"):
                self._facts.pod_ip = self._host.machine.network.address
            else:
                self._facts.pod_ip = self._address = self._host.machine.network.pods.take()
            self._state.pod_ip = self._facts.pod_ip

    def _give_address_back(self) -> None:
        if self._address:
            self._host.machine.network.pods.give_back(self._address)
            self._address = ""

    async def _containers(self, policy: str) -> None:
        for container in self.init:
            await container.run("OnFailure" if policy == "Always" else policy)
            state = container.state.state
            if not isinstance(state, Terminated) or state.exit_code != 0:
                return
        await asyncio.gather(*(one.run(policy) for one in self.containers))

    async def _end_when_told(self) -> None:
        """Wait for the deletion or the deadline, then end the containers as a kubelet does: SIGTERM, grace, SIGKILL."""
        deadline = self.pod["spec"].get("activeDeadlineSeconds")
        try:
            await asyncio.wait_for(self._until_deleting(), deadline)
        except TimeoutError:
            self._state.reason = "DeadlineExceeded"
            self._state.message = "Pod was active on the node longer than the specified deadline"
            await self.reporter.flush()
        loop = asyncio.get_running_loop()
        since = loop.time()
        self.tell()
        while (left := since + self._grace() - loop.time()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
            self._changed.clear()
        await self.kill()

    async def _until_deleting(self) -> None:
        while not self._deleting():
            await self._changed.wait()
            self._changed.clear()

    def _deleting(self) -> bool:
        return bool(self.pod["metadata"].get("deletionTimestamp"))

    def _grace(self) -> float:
        """Seconds of grace; a later delete may have made it shorter."""
        grace = self.pod["metadata"].get("deletionGracePeriodSeconds")
        if grace is None:
            grace = self.pod["spec"].get("terminationGracePeriodSeconds")
        return float(30 if grace is None else grace)

    def tell(self) -> None:
        """SIGTERM to PID 1 of every container, once; nothing is started from here on."""
        if not self._told:
            self._told = self._state.stopped = True
            self._sandbox.stopping.set()
            for container in (*self.init, *self.containers):
                if container.process is not None:
                    container.process.terminate()

    async def kill(self) -> None:
        """SIGKILL to everything at once."""
        self._sandbox.stopping.set()
        processes = [one.process for one in (*self.init, *self.containers) if one.process is not None]
        await asyncio.gather(*(process.kill_tree() for process in processes))

    async def _finish(self) -> None:
        """Report the end; when the pod is being deleted, give the API leave to remove it."""
        await self._until_deleting()
        await self.reporter.flush()
        await self.reporter.release()

    async def close(self, *, keep_files: bool = False) -> None:
        """Kill, stop every task, and remove the files."""
        self.reporter.frozen = True
        await self.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._give_address_back()
        for container in (*self.init, *self.containers):
            if container.log is not None:
                container.log.close()
        if not keep_files:
            for folder in (self.folder, self._temporary):
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
