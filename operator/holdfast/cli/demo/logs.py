"""Follow the trainer's log of each attempt for its losses. Only the display depends on it."""

import asyncio
import os
from contextlib import suppress

from holdfast.api.names import TRAINER_CONTAINER
from holdfast.api.objects import TrainingJob
from holdfast.cli.demo.losses import LossBook, parse_line
from holdfast.local.cluster import Cluster

RETRY = 0.5  # seconds until a log that does not exist yet is requested again


class LogFollower:
    """One `kubectl logs --follow` for each attempt that has started."""

    def __init__(self, cluster: Cluster, book: LossBook) -> None:
        self._cluster = cluster
        self._book = book
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def see(self, job: TrainingJob) -> None:
        """Start following the current attempt, once."""
        attempt = job.status.current
        if attempt and attempt.started_at and attempt.number not in self._tasks:
            meta = job.metadata
            pod = f"{meta.name}-{attempt.number}-0"
            self._tasks[attempt.number] = asyncio.create_task(self._follow(meta.namespace, pod, attempt.number))

    async def close(self) -> None:
        """Stop following."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _follow(self, namespace: str, pod: str, attempt: int) -> None:
        while True:
            if await self._read(namespace, pod, attempt):
                return
            await asyncio.sleep(RETRY)

    async def _read(self, namespace: str, pod: str, attempt: int) -> bool:
        """Read until the log ends. True if it had any line."""
        process = await asyncio.create_subprocess_exec(
            str(self._cluster.tools["kubectl"]),
            *("--kubeconfig", str(self._cluster.admin_kubeconfig), "-n", namespace),
            *("logs", "--follow", "-c", TRAINER_CONTAINER, pod),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            limit=1 << 20,
        )
        assert process.stdout is not None
        seen = ended = False
        try:
            async for line in process.stdout:
                seen = True
                if found := parse_line(line.decode(errors="replace")):
                    self._book.see(attempt, *found)
            ended = True
        finally:
            if not ended:  # a process that has ended must not be signalled: asyncio would lose its exit code
                with suppress(ProcessLookupError):
                    process.kill()
            await process.wait()
        return seen
