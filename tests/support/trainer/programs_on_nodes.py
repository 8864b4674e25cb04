"""Programs of several nodes: an agent of torchrun for each node, with one process, on this machine."""

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
from tests.support.free_ports import free_port
from tests.support.trainer.exact import process_context
from tests.support.waiting import wait_for

PROGRAMS = "tests.support.trainer.strangers.on_nodes"


class Programs:
    """One start of `command` on all nodes: the name of a module, and the arguments before the folder.

    `place`: a new folder for notes and output. `roots`: the folder of each node. `holds`: see `Notes`.
    `order`: the rank of the program on each node.
    """

    def __init__(
        self, place: Path, command: str, roots: Sequence[Path], holds: str = "", order: Sequence[int] = ()
    ) -> None:
        place.mkdir()
        self.place, self._count = place, len(roots)
        name, *arguments = command.split()
        context, port = process_context(), free_port()
        self._agents: list[Any] = []
        for node, root in enumerate(roots):
            root.mkdir(exist_ok=True)
            rank = order[node] if order else node
            given = (name, [*arguments, str(root), str(place), holds], rank, len(roots), port)
            self._agents.append(context.Process(target=_agent, args=given))
        for agent in self._agents:
            agent.start()

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End all processes at once, without a word."""
        found = [psutil.Process(agent.pid) for agent in self._agents if agent.is_alive()]
        everyone = [*found, *(child for one in found for child in one.children(recursive=True))]
        for one in everyone:
            one.kill()
        psutil.wait_procs(everyone)

    def lines(self, rank: int) -> list[str]:
        """What the rank has noted."""
        path = self.place / f"notes-{rank}"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def wait_for_save(self, step: int) -> None:
        """Wait until all ranks have noted the save of this step."""
        wait_for(lambda: self._has(f"saved {step}"), 120, lambda: f"the save of step {step}: {self.output}")

    def _has(self, line: str) -> bool:
        assert all(agent.is_alive() for agent in self._agents), self.output
        return all(line in self.lines(rank) for rank in range(self._count))

    def go(self, step: int) -> None:
        """Let the program go on that waits after the save of this step."""
        (self.place / f"go-{step}").touch()

    def join(self) -> None:
        """Wait for the end, which must be a good one."""
        for agent in self._agents:
            agent.join(240)
        assert [agent.exitcode for agent in self._agents] == [0] * self._count, self.output

    @property
    def output(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.place.glob("output-*")))


# In the process of an agent.


def _agent(name: str, arguments: list[str], rank: int, nodes: int, port: int) -> None:
    *_, place, _ = arguments
    output = os.open(Path(place) / f"output-{rank}", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    program = importlib.import_module(f"{PROGRAMS}.{name}")
    config = LaunchConfig(
        run_id="run", min_nodes=nodes, max_nodes=nodes, nproc_per_node=1, max_restarts=0, start_method="fork",
        rdzv_backend="static", rdzv_endpoint=f"127.0.0.1:{port}", rdzv_configs={"rank": rank, "timeout": 300},
        monitor_interval=0.1,
    )  # fmt: skip
    elastic_launch(config, program.main)(*arguments)
    sys.exit(0)
