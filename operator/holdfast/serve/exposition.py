"""The page of /metrics. It is rendered in slices, between which the event loop does its other work.

Only so many jobs have series of their own, the newest of those that are not over first: Prometheus keeps every series
in memory. The lines of a job are kept until its resourceVersion changes, except those that depend on the time of the
scrape. One rendering runs at a time, and all scrapes that come meanwhile get its page.
"""

import asyncio
import heapq
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from prometheus_client import CollectorRegistry, generate_latest

from holdfast.api.objects import TrainingJob
from holdfast.serve.collectors import FAMILIES, LABELS, Family, JobView
from holdfast.serve.fleet import Fleet

SLICE = 0.002  # seconds of rendering until other work gets its turn
MOST_JOBS = 2_000  # that have series of their own
SHARE = 0.1  # of the time that rendering may take: after it, a page is good for nine times as long as it took

log = logging.getLogger(__name__)

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class _Kept:
    version: str
    lines: tuple[str, ...]  # one text for each family; empty for a family that depends on the time


def header(family: Family) -> str:
    """The comment lines before the samples of a metric."""
    text = family.text.replace("\\", r"\\").replace("\n", r"\n")
    kind = "counter" if family.counter else "gauge"
    return f"# HELP {family.full_name} {text}\n# TYPE {family.full_name} {kind}\n"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))


def sample_lines(family: Family, namespace: str, job: str, samples: Mapping[tuple[str, ...], float]) -> str:
    """The samples of one job, in Prometheus' text format. Labels are sorted by name, as prometheus_client does."""
    made = []
    for values, number in samples.items():
        labels = sorted(zip((*LABELS, *family.labels), (namespace, job, *values), strict=True))
        text = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels)
        made.append(f"{family.full_name}{{{text}}} {_number(number)}\n")
    return "".join(made)


def _rank(job: TrainingJob) -> tuple[bool, float]:
    """The order in which jobs get series: jobs that are not over first, then the newest."""
    phase, created = job.status.phase, job.metadata.creation_timestamp or _LONG_AGO
    return bool(phase and phase.final), -created.timestamp()


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Exposition:
    """Renders the metrics of `registry` and of every job. `now` is the wall clock, `clock` measures the rendering.

    `fleet` gets every job, also those beyond `most_jobs`, which have no series of their own.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        jobs: Callable[[], Iterable[TrainingJob]],
        now: Callable[[], datetime],
        *,
        fleet: Fleet | None = None,
        most_jobs: int = MOST_JOBS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._fleet = fleet or Fleet()
        self._most_jobs = most_jobs
        self.last_seconds = 0.0  # how long the last rendering took, with the other work in between
        self.began_at: datetime | None = None  # of the rendering that runs, or of the last one
        self._registry = registry
        self._jobs = jobs
        self._now = now
        self._clock = clock
        self._kept: dict[str, _Kept] = {}  # by job UID
        self._running: asyncio.Task[bytes] | None = None
        self._page = b""
        self._good_until = float("-inf")

    async def page(self) -> bytes:
        """The page. It is at most so old that rendering takes a tenth of the time, however often it is asked for."""
        if self._running is None:
            if self._clock() < self._good_until:
                return self._page
            self._running = asyncio.create_task(self._render_and_keep())
        return await asyncio.shield(self._running)

    async def _render_and_keep(self) -> bytes:
        started = self._clock()
        try:
            self._page = await self.render()
            took = self.last_seconds = self._clock() - started
            self._good_until = started + took / SHARE
            return self._page
        finally:
            self._running = None

    async def render(self) -> bytes:
        """A new page."""
        found: list[list[str]] = [[] for _ in FAMILIES]
        kept: dict[str, _Kept] = {}
        now, until = self._now(), self._clock() + SLICE
        self.began_at = now
        jobs = list(self._jobs())
        shown = self._shown(jobs)
        self._fleet.begin()
        for job in jobs:
            try:
                self._fleet.add(job, now)
                if shown is None or job.metadata.uid in shown:
                    kept[job.metadata.uid] = self._add(found, job, now)
                else:
                    self._fleet.omit()
            except Exception:  # one job must not hide the metrics of all others
                name = f"{job.metadata.namespace}/{job.metadata.name}"
                log.exception("cannot compute the metrics of this job", extra={"job": name})
            if self._clock() >= until:
                await asyncio.sleep(0)
                until = self._clock() + SLICE
        self._kept = kept
        self._fleet.end()
        parts = [generate_latest(self._registry)]
        for family, texts in zip(FAMILIES, found, strict=True):
            parts.append("".join((header(family), *texts)).encode())
            await asyncio.sleep(0)
        return b"".join(parts)

    def _shown(self, jobs: list[TrainingJob]) -> set[str] | None:
        """UIDs of the jobs that get series of their own; None if all do."""
        if len(jobs) <= self._most_jobs:
            return None
        return {job.metadata.uid for job in heapq.nsmallest(self._most_jobs, jobs, key=_rank)}

    def _add(self, found: list[list[str]], job: TrainingJob, now: datetime) -> _Kept:
        meta, view = job.metadata, JobView(job, now)
        old = self._kept.get(meta.uid)
        if old is None or old.version != meta.resource_version:
            old = _Kept(meta.resource_version, tuple(_lines(one, view, job) for one in FAMILIES if not one.timed))
        fixed = iter(old.lines)
        # All lines of the job are made before the first one is added: an error leaves no part of it on the page.
        lines = [_lines(one, view, job) if one.timed else next(fixed) for one in FAMILIES]
        for texts, text in zip(found, lines, strict=True):
            if text:
                texts.append(text)
        return old


def _lines(family: Family, view: JobView, job: TrainingJob) -> str:
    return sample_lines(family, job.metadata.namespace, job.metadata.name, family.read(view))
