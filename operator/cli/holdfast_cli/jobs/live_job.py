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
from holdfast_cli.jobs.members import parse_pods


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

    def _changed(self) -> None:
        found: list[dict[str, Any]] = [raw for raw in self._jobs.objects if raw["metadata"]["uid"] == self._uid]
        self.deleted = self._jobs.asked.is_set() and not found
        if found and not self.deleted:
            self.job = TrainingJob.parse(found[0])
        self.pods = parse_pods(self._pods.objects).views
        self._pulse.set()
        self._pulse = asyncio.Event()
