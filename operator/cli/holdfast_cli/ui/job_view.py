"""The page of one job. Its Events, nodes, checkpoints and history are read only while the page is open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from holdfast.api.objects import TrainingJob
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.live_list import LiveList
from holdfast_cli.pages.frame import actions
from holdfast_cli.pages.job_page import job_page
from holdfast_cli.pages.jobs_page import job_address
from holdfast_cli.ui.cluster import Cluster
from holdfast_cli.ui.drawn import Drawn
from holdfast_cli.ui.readings import Reading, Readings
from holdfast_cli.why.reasons import Reasons, find_reasons
from holdfast_model.pages.template import Markup

PATIENCE: Final = 2.0  # seconds that the document waits for Events; the stream brings them if they come later


class JobView:
    """One job."""

    has_ages = True

    def __init__(self, cluster: Cluster, job: TrainingJob, events: LiveList, reading: Reading) -> None:
        self._place = job.metadata.namespace, job.metadata.name
        self.path = job_address(*self._place)
        self._cluster = cluster
        self._events = events
        self._reading = reading

    async def draw(self) -> Drawn | None:
        """The page now; None if there is no such job. Raises SpecError if this version cannot read it."""
        job = self._cluster.job(*self._place)
        if job is None:
            return None
        now, notes = datetime.now(UTC), list(self._reading.stored.notes)
        events: list[job_api.Line] | None = job_api.event_lines(self._events.objects, job)
        if self._events.forbidden:
            events = None
            notes.append("events are not seen: you may not list Events in this namespace (403)")
        elif self._events.trouble is not None:
            notes.append(f"events may be missing: {self._events.trouble}")
        inputs = replace(
            self._reading.stored, job=job, now=now, events=events, reasons=self._reasons(job, now), notes=notes
        )
        return Drawn(job_page(inputs), actions=self._actions(job))

    def _reasons(self, job: TrainingJob, now: datetime) -> Reasons | None:
        name = job.spec.capacity.profile
        profile = self._cluster.profile(name) if name else None
        return None if name and profile is None else find_reasons(job, profile, self._reading.nodes, now)

    def _actions(self, job: TrainingJob) -> Markup:
        name = job.spec.capacity.profile
        profile = self._cluster.profile(name) if name else None
        grid = profile.spec.tiers if profile else job.spec.capacity.tiers
        pods = job.status.current.pods if job.status.current else ()
        return actions(job, grid, [pod.node for pod in pods if pod.node])


@asynccontextmanager
async def job_view(cluster: Cluster, readings: Readings, namespace: str, name: str) -> AsyncIterator[JobView | None]:
    """The view of a job that is there now; None if there is none."""
    job = cluster.job(namespace, name)
    if job is None:
        yield None
        return
    async with cluster.events_of(namespace, name) as events, readings.of(namespace, name) as reading:
        view = JobView(cluster, job, events, reading)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await events.asked.wait()
        yield view
