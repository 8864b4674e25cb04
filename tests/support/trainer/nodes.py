"""Launchers of a training on several nodes, as processes on one machine."""

import contextlib
import sys
import uuid
from pathlib import Path
from typing import Any, ClassVar

import psutil
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.pods import Pod
from tests.support.trainer.stores import LAUNCHER, variables


class Node(Pod):
    """The pod of one node. Its address is 127.0.0.1 for rank 0, 127.0.0.2 for rank 1, and so on.

    `started`: all nodes of this process. A launcher that is ready waits for ever, so a test that fails has to end it.
    """

    started: ClassVar[list["Node"]] = []

    def __init__(
        self,
        folder: Path,
        endpoint: Endpoint,
        rank: int,
        command: list[str],
        /,
        *,
        nodes: int = 2,
        uri: str | None = None,
        **more: Any,
    ) -> None:
        self.uid = uuid.uuid4().hex
        self._members = endpoint.members
        env = variables(uri, 1, HOLDFAST_POD_UID=self.uid, HOLDFAST_NODES=str(nodes), HOLDFAST_RANK=str(rank))
        env |= {"HOLDFAST_POD_IP": f"127.0.0.{rank + 1}", "PET_NPROC_PER_NODE": "1", **endpoint.variables, **more}
        super().__init__(folder, [sys.executable, str(LAUNCHER), "--", *command], **env)
        self.started.append(self)

    def told(self, state: str, attempt: int, seconds: float = 60.0) -> dict[str, Any]:
        """What the launcher tells in this state and attempt, waiting for it."""
        return self._members.wait_for(self.uid, state, attempt, seconds)

    @classmethod
    def end_all(cls) -> None:
        """Kill the nodes that are left, with all their processes."""
        for node in cls.started:
            if node.process.poll() is None:
                below = psutil.Process(node.process.pid).children(recursive=True)
                for process in (node.process, *below):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
                node.process.wait(20)
        cls.started.clear()
