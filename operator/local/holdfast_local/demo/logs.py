"""Follow the trainer's log of each pod with rank 0 for its losses. Only the display depends on it."""

import asyncio
import os
import re
from contextlib import suppress

from holdfast.api.names import TRAINER_CONTAINER
from holdfast.api.objects import TrainingJob
from holdfast.core.observe.members import births
from holdfast_local.cluster import Cluster
from holdfast_local.demo.losses import LossBook, parse_line

# A pod of several nodes serves one attempt after the other; its launcher says which one starts.
_STARTS = re.compile(r"\battempt (?P<number>\d+) starts: node 0\b")

RETRY = 0.5  # seconds until a log that does not exist yet is requested again


class LogFollower:
    """One `kubectl logs --follow` for each pod with rank 0 that has started."""

    def __init__(self, cluster: Cluster, book: LossBook) -> None:
        self._cluster = cluster
        self._book = book
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def see(self, job: TrainingJob) -> None:
        """Start following the current attempt's pod with rank 0, once."""
        attempt = job.status.current
        if attempt is None or attempt.started_at is None:
            return
        meta, born = job.metadata, births(attempt)[0]
        if born not in self._tasks:
            pod = f"{meta.name}-{born}-0"
            self._tasks[born] = asyncio.create_task(self._follow(meta.namespace, pod, born))

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
                seen, text = True, line.decode(errors="replace")
                if starts := _STARTS.search(text):
                    attempt = int(starts["number"])
                elif found := parse_line(text):
                    self._book.see(attempt, *found)
            ended = True
        finally:
            if not ended:  # a process that has ended must not be signalled: asyncio would lose its exit code
                with suppress(ProcessLookupError):
                    process.kill()
            await process.wait()
        return seen
