"""The agent process: every node, the kubelet port, the control socket, the memory watch."""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping

from filelock import Timeout

from holdfast_local.agent.addresses import SHARED, PodAddresses, place_in_shared
from holdfast_local.agent.api import ApiClient, insist
from holdfast_local.agent.config import AgentConfig
from holdfast_local.agent.container.container import Container, Machine, measure
from holdfast_local.agent.container.network import IsolatedNetwork, Network
from holdfast_local.agent.container.process import Reaper, agent_mark, kill_children, kill_marked
from holdfast_local.agent.control import Control
from holdfast_local.agent.errors import AgentError
from holdfast_local.agent.heartbeat import NodeFacts
from holdfast_local.agent.node import Node
from holdfast_local.agent.pod import PodWorker
from holdfast_local.agent.server import LogServer
from holdfast_local.locking import exclusive

_IDLE_FACTOR = 4

log = logging.getLogger(__name__)


class Agent:
    """Everything that runs in the agent process."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.nodes: dict[str, Node] = {}

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """The worker of a pod, on a node that answers."""
        for node in self.nodes.values():
            if node.answers:
                for worker in node.workers.values():
                    if worker.key == (namespace, name):
                        return worker
        return None

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then kill every container. Raises AgentError if another agent is at work."""
        self.config.data.mkdir(parents=True, exist_ok=True)
        try:
            with exclusive(self.config.root / "agent.lock", wait=False):
                await self._run_alone()
        except Timeout as err:
            raise AgentError(f"{err.lock_file}: another agent serves this folder; stop it first") from err

    async def _run_alone(self) -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        reaper = Reaper()
        reaper.install()
        leftovers = await kill_marked(agent_mark(self.config.root) + ".")
        if leftovers:
            log.warning("killed %d processes that an earlier agent left", leftovers)
        await self._serve(reaper, stop)

    async def _serve(self, reaper: Reaper, stop: asyncio.Event) -> None:
        isolated = {
            name: IsolatedNetwork(one, self.config.bridge, reaper) for name, one in self.config.networks.items()
        }
        server = LogServer(self.config, self.find)
        port = await server.start(isolated.values())
        shared = Network(PodAddresses(SHARED, place_in_shared(port)))
        networks = {spec.name: isolated.get(spec.name, shared) for spec in self.config.nodes}
        control = Control(self.config, self.nodes, lambda: {"pid": os.getpid(), "kubeletPort": port})
        serving = asyncio.create_task(self._start(reaper, networks, port, control))
        watching = asyncio.create_task(self._watch_memory())
        stopping = asyncio.create_task(stop.wait())
        try:
            # Only stop ends the agent in peace; either of the others ends by an error, which is raised here.
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            for task in (serving, watching, stopping):
                task.cancel()
            await control.stop()
            await asyncio.gather(*(node.stop() for node in self.nodes.values()))
            await asyncio.gather(*(node.machine.api.close() for node in self.nodes.values()))
            await kill_children()
            await server.stop()

    async def _start(self, reaper: Reaper, networks: Mapping[str, Network], port: int, control: Control) -> None:
        facts = NodeFacts(port, await self._server_version())
        for spec in self.config.nodes:
            network = networks[spec.name]
            machine = Machine(self.config, ApiClient(self.config, network.open_socket), reaper, network)
            self.nodes[spec.name] = Node(spec, machine, facts)
        there = [node for node in self.nodes.values() if not node.spec.standby]
        await asyncio.gather(*(node.start() for node in there))
        # The socket comes last: a client that can connect knows that every node is registered.
        await control.start()
        log.info("%d nodes are registered, kubelet port %d", len(there), port)

    async def _server_version(self) -> str:
        api = ApiClient(self.config)
        try:
            return str((await insist(lambda: api.get("/version")))["gitVersion"])
        finally:
            await api.close()

    async def _watch_memory(self) -> None:
        """Kill containers above their memory limit, as the kernel does for a real one."""
        period = self.config.timings.memory_poll
        while True:
            limited = [one for one in self._containers() if one.memory_limit is not None and one.process is not None]
            for container in measure(limited):
                if container.process is not None:
                    log.info("container %s is above its memory limit", container.state.name)
                    container.process.out_of_memory = True
                    await container.process.kill_tree()
            await asyncio.sleep(period if limited else period * _IDLE_FACTOR)

    def _containers(self) -> list[Container]:
        workers = [worker for node in self.nodes.values() for worker in node.workers.values() if not worker.ended]
        return [container for worker in workers for container in (*worker.init, *worker.containers)]
