"""The page of /metrics: what it says, and that nothing else waits for it."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge
from tests.support.operator.fake_api_server import Clock, raw_job

from holdfast.api.objects import TrainingJob
from holdfast.serve import collectors, exposition
from holdfast.serve.collectors import FAMILIES, JobView
from holdfast.serve.exposition import Exposition
from holdfast.serve.fleet import Fleet

SAVED = {"step": 40, "uri": "s3://b/p", "committedAt": "2026-11-21T11:58:00Z"}


def job(name: str = "a", version: int = 1, **status: Any) -> TrainingJob:
    return TrainingJob.parse(raw_job(name, f"uid-{name}", version, **status))


class Page:
    """A page of these jobs, with a clock that a test moves."""

    def __init__(self, *jobs: TrainingJob, clock: Callable[[], float] | None = None) -> None:
        self.jobs = list(jobs)
        self.clock = Clock()
        self.registry = CollectorRegistry()
        self.renderings = 0
        self.fleet = Fleet()
        self.registry.register(self.fleet)
        self.exposition = Exposition(
            self.registry, lambda: self.jobs, self._now, fleet=self.fleet, most_jobs=60, clock=clock or self.clock
        )

    def _now(self) -> datetime:
        self.renderings += 1
        return self.clock.now()

    async def lines(self) -> list[str]:
        return (await self.exposition.page()).decode().splitlines()


async def test_each_metric_has_one_header_and_all_its_samples_below() -> None:
    page = Page(job("a"), job("b"))
    Gauge("holdfast_of_the_operator", "x", registry=page.registry).set(3)
    lines = await page.lines()
    assert "holdfast_of_the_operator 3.0" in lines
    at = lines.index("# TYPE holdfast_job_interruptions_total counter")
    assert lines[at - 1].startswith("# HELP holdfast_job_interruptions_total ")
    assert lines[at + 1 : at + 3] == [
        f'holdfast_job_interruptions_total{{job_name="{one}",job_namespace="ns"}} 0.0' for one in "ab"
    ]
    assert len([line for line in lines if line.startswith("# TYPE holdfast_job_")]) == len(FAMILIES)


async def test_other_work_runs_between_two_slices() -> None:
    """Breaks if rendering many jobs keeps the event loop from orders and the renewal of the lease."""
    a_second_at_each_look = count().__next__
    page = Page(*(job(f"j{number}") for number in range(50)), clock=a_second_at_each_look)
    turns = 0

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(other_work())
    await page.lines()
    other.cancel()
    assert turns >= 50


async def test_scrapes_at_once_share_one_rendering() -> None:
    page = Page(job())
    assert len(set(await asyncio.gather(*(page.exposition.page() for _ in range(50))))) == 1
    assert page.renderings == 1


async def test_rendering_takes_a_tenth_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(job())
    read = JobView.__init__

    def slow(view: JobView, *values: Any) -> None:
        page.clock.tick(1.0)  # a rendering takes one second
        read(view, *values)

    monkeypatch.setattr(JobView, "__init__", slow)
    await page.lines()
    began = page.exposition.began_at
    page.clock.tick(8.9)
    await page.lines()
    assert (page.renderings, page.exposition.began_at) == (1, began)
    page.clock.tick(0.2)
    await page.lines()
    assert (page.renderings, page.exposition.began_at) == (2, page.clock.now() - timedelta(seconds=1))


async def test_a_scrape_that_is_given_up_does_not_end_the_rendering_for_others() -> None:
    page = Page(job())
    first = asyncio.create_task(page.exposition.page())
    second = asyncio.create_task(page.exposition.page())
    await asyncio.sleep(0)
    first.cancel()
    assert b"holdfast_job_step" in await second


async def test_only_a_changed_job_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(job("a", progress={"step": 1, "loss": "2.5", "updatedAt": "2026-11-21T11:59:00Z"}), job("b"))
    read: list[str] = []
    of_step = collectors._step

    def noted(view: JobView) -> float | None:
        read.append("step")
        return of_step(view)

    families = tuple(one if one.name != "step" else collectors._gauge(one.name, one.text, noted) for one in FAMILIES)
    monkeypatch.setattr(exposition, "FAMILIES", families)
    await page.lines()
    assert len(read) == 2
    page.clock.tick(60)
    page.jobs[0] = job("a", 2, progress={"step": 7, "updatedAt": "2026-11-21T11:59:00Z"})
    lines = await page.lines()
    assert len(read) == 3
    assert 'holdfast_job_step{job_name="a",job_namespace="ns"} 7.0' in lines


async def test_costs_grow_without_a_change_of_the_job() -> None:
    at = "2026-11-21T11:30:00Z"
    tier = {"name": "v100", "kind": "Dedicated", "pricePerNodeHour": "2"}
    current = {"number": 1, "state": "Running", "tier": tier, "raisedAt": at, "scheduledAt": at}
    page = Page(job(current=current))
    assert 'holdfast_job_cost{job_name="a",job_namespace="ns"} 1.0' in await page.lines()
    page.clock.tick(1800)
    assert 'holdfast_job_cost{job_name="a",job_namespace="ns"} 2.0' in await page.lines()


async def test_only_the_newest_jobs_that_are_not_over_have_series_of_their_own() -> None:
    """Breaks if 10,000 jobs fill Prometheus' memory, or an old Completed job takes the place of one that trains."""
    page = Page(*(job(f"old{number}", phase="Completed") for number in range(60)), job("new", phase="Running"))
    lines = await page.lines()
    assert 'holdfast_job_phase{job_name="new",job_namespace="ns",phase="Running"} 1.0' in lines
    assert len([line for line in lines if line.startswith("holdfast_job_phase{")]) == 60
    assert "holdfast_jobs_omitted 1.0" in lines
    assert 'holdfast_jobs{job_namespace="ns",phase="Completed"} 60.0' in lines


async def test_every_family_that_reads_the_time_is_marked() -> None:
    """Breaks if a metric that depends on the time is kept until the job changes."""

    class Timeless(JobView):
        @property
        def now(self) -> datetime:
            raise AssertionError("reads the time")

        @now.setter
        def now(self, value: datetime) -> None:
            return

    full = job(
        phase="Acquiring",
        checkpoint=SAVED,
        forecast={"slack": "1h", "at": "2026-11-21T11:30:00Z"},
    )
    marked = set()
    for family in FAMILIES:
        try:
            family.read(Timeless(full, Clock().now()))
        except AssertionError:
            marked.add(family.name)
    assert marked == {one.name for one in FAMILIES if one.timed}


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("nan"), "NaN"), (float("inf"), "+Inf"), (-float("inf"), "-Inf"), (1e20, "1e+20"), (3, "3.0")],
)
def test_numbers_are_written_as_prometheus_reads_them(value: float, text: str) -> None:
    (family,) = (one for one in FAMILIES if one.name == "tier_cost")
    line = exposition.sample_lines(family, "ns", "a", {('t"x\\y\n', "Spot"): value})
    assert (
        line
        == f'holdfast_job_tier_cost{{job_name="a",job_namespace="ns",tier="t\\"x\\\\y\\n",tier_kind="Spot"}} {text}\n'
    )
