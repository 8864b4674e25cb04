"""A scrape of the metrics of 10,000 jobs that all change between two scrapes: its duration, and what waits for it."""

import asyncio
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry
from tests.bench.goals import Measured
from tests.bench.stats import Sample
from tests.support.operator.every_metric import job_with_everything

from holdfast.api.objects import TrainingJob
from holdfast.runtime.operator import utc_now
from holdfast.serve.exposition import Exposition
from holdfast.serve.fleet import Fleet

JOBS = 10_000
ROUNDS = 20
TICK = 0.001  # seconds


async def measure(quick: bool) -> list[Measured]:
    """The page is rendered in this process; only what leaves it, TLS and sockets, is not measured."""
    rounds = 5 if quick else ROUNDS
    jobs = [_job(number) for number in range(JOBS)]
    durations, lags, size = [], [], 0
    for _ in range(rounds):  # a new one each time: nothing of a job is kept, as if all had changed
        registry, fleet = CollectorRegistry(), Fleet()
        registry.register(fleet)
        exposition = Exposition(registry, lambda: jobs, utc_now, fleet=fleet)
        waits: list[float] = []
        meter = asyncio.create_task(_meter(waits))
        await asyncio.sleep(0)
        started = perf_counter()
        size = len(await exposition.render())
        durations.append(perf_counter() - started)
        meter.cancel()
        lags.append(max(waits))
    scrape, lag = Sample.of(durations), Sample.of(lags)
    note = f"{size / 2**20:.1f} MiB of text"
    return [
        Measured("scrape", scrape.p50, note=f"{scrape}; {note}"),
        Measured("scrape-lag", 1000 * lag.p50, note=f"{lag}"),
    ]


def _job(number: int) -> TrainingJob:
    raw: dict[str, Any] = job_with_everything()
    return TrainingJob.parse({**raw, "metadata": {**raw["metadata"], "name": f"j{number}", "uid": f"u{number}"}})


async def _meter(waits: list[float]) -> None:
    """How much later than asked the event loop goes on."""
    while True:
        due = perf_counter() + TICK
        await asyncio.sleep(TICK)
        waits.append(perf_counter() - due)
