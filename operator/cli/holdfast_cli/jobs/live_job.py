"""A job and its pods, kept current while a command follows it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from holdfast.api.names import LABEL_JOB_UID
from holdfast.api.objects import TrainingJob
from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.live_list import LiveList
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs.members import parse_pods


async def find_live(client: Client, namespace: str, name: str, rank: int) -> "LiveJob":
    """The job, for a command that works in the pod of one rank.

    Raises CliError if the job is over or has no such rank, ApiError.
    """
    found = await job_api.get_job(client, namespace, name)
    if found.status.is_over:
        raise CliError(f"{name} is over ({found.status.phase}): no program of it runs")
    if rank >= found.most_nodes:
        raise CliError(f"--rank {rank}: {name} has {found.most_nodes} nodes", code=ExitCode.USAGE)
    return LiveJob(client, found)


def waiting_words(job: TrainingJob) -> str:
    """Why no program of the job runs now."""
    status, name = job.status, job.metadata.name
    why = status.next or (status.decision.message if status.decision else "no operator has seen it yet")
    return f"{name} is {status.phase or 'new'}: {why}"


class LiveJob:
    """The job and its pods, kept current by two watches."""

    def __init__(self, client: Client, job: TrainingJob) -> None:
        meta = job.metadata
        named = {"fieldSelector": f"metadata.name={meta.name}"}
        pods, owned = f"/api/v1/namespaces/{meta.namespace}/pods", {"labelSelector": f"{LABEL_JOB_UID}={meta.uid}"}
        self._jobs = LiveList(client, job_api.jobs_path(meta.namespace), named, self._changed)
        self._pods = LiveList(client, pods, owned, self._changed)
        self._pulse = asyncio.Event()
        self._uid = meta.uid
        self.job = job
        self.deleted = False
        self.pods: list[PodView] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep it current inside the block. Raises ApiError if it cannot be read at first."""
        async with AsyncExitStack() as stack:
            for one in (self._jobs, self._pods):
                await stack.enter_async_context(one.running())
            self._changed()
            yield

    async def change(self, seconds: float | None = None) -> None:
        """Wait for a change, so many seconds at most. Raises ApiError if the watches have ended."""
        for one in (self._jobs, self._pods):
            one.check()
            if one.trouble is not None and not one.trouble.transient:
                raise one.trouble
        with suppress(TimeoutError):
            await asyncio.wait_for(self._pulse.wait(), seconds)

    @property
    def is_over(self) -> bool:
        """True if no more pods are to come."""
        return self.deleted or self.job.status.is_over

    def pod(self, uid: str) -> PodView | None:
        """The pod with this UID as it is now; None if it is gone."""
        return next((pod for pod in self.pods if pod.uid == uid), None)

    def training_pod(self, rank: int) -> PodView | None:
        """The newest pod of the rank whose program runs."""
        running = [pod for pod in self.pods if pod.rank == rank and pod.trainer and pod.trainer.running]
        current = self.job.status.current
        # While a successor waits at the fence, the program of the current attempt is the one that trains.
        mine = [pod for pod in running if current is None or pod.attempt <= current.number]
        return max(mine, key=lambda pod: pod.attempt, default=None)

    def _changed(self) -> None:
        found: list[dict[str, Any]] = [raw for raw in self._jobs.objects if raw["metadata"]["uid"] == self._uid]
        self.deleted = self._jobs.asked.is_set() and not found
        if found and not self.deleted:
            self.job = TrainingJob.parse(found[0])
        self.pods = parse_pods(self._pods.objects).views
        self._pulse.set()
        self._pulse = asyncio.Event()
