"""Notice → order while callers without a right do what they can: 50 scrapers and 1,000 forged tokens a second."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from tests.bench import jobs
from tests.bench.context import Bench
from tests.bench.figures.notice import PODS, wave
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST
from tests.bench.stats import Sample
from tests.bench.trainers import Load, Trainer, trainers
from tests.support.operator.operator_process import OperatorProcess

JOBS = 1000
NODES = 20
EVERY = 15.0


class Strangers:
    """The process of tests.bench.strangers; use it as a context manager."""

    def __init__(self, operator: OperatorProcess, members: list[Trainer]) -> None:
        one = members[0].pod["metadata"]
        orders = f"{operator.progress_url}/v1/namespaces/{one['namespace']}/jobs/{members[0].job}/orders"
        self._command = [
            *(sys.executable, "-m", "tests.bench.strangers"),
            *("--metrics", f"http://127.0.0.1:{operator.metrics_port}/metrics", "--orders", orders),
            *("--pods", ",".join(member.uid for member in members[:200])),
        ]
        self.said: dict[str, dict[str, int]] = {}

    def __enter__(self) -> "Strangers":
        root = Path(__file__).parents[3]
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        try:
            out, _err = self._process.communicate("", timeout=30)
            self.said = json.loads(out)
        finally:
            self._process.kill()


async def measure(bench: Bench) -> list[Measured]:
    """Orders to 40 pods of a node, beside jobs that report; /metrics is open, so scrapers cost the most."""
    count = bench.size(JOBS, 150)
    await bench.nodes("reporting", NODES)
    async with bench.operator() as operator, jobs.namespace(bench.api, "reporting") as where:
        bench.audit.start()
        await jobs.create(bench.api, HOLDFAST, where, "reporting", count)
        await jobs.all_known_running(bench.audit, where, count)
        pods = await jobs.all_running(bench.api, where, count)
        members = await trainers(bench.api, pods, operator.progress_url)
        received: list[float] = []
        async with Load(members, EVERY) as load:
            await asyncio.sleep(2 * EVERY)
            strangers = Strangers(operator, members)
            with strangers:
                steady = int(0.95 * count)  # a few are always between two polls
                before, refused = load.reports, load.refused
                for number in range(bench.size(3, 2)):
                    received += (await wave(bench, operator, PODS, f"strangers-{number}", beside=steady))[0]
                said, refused = load.reports - before, load.refused - refused
    orders = Sample.of(received)
    scrapes, forged = (_told(strangers.said[kind]) for kind in ("scrapes", "forged"))
    note = f"{orders}; {count} jobs, {said} reports, {refused} refused; scrapes {scrapes}; forged tokens {forged}"
    return [Measured("strangers", orders.p99, note=note)]


def _told(answers: dict[str, int]) -> str:
    return ", ".join(f"{what}: {number}" for what, number in sorted(answers.items()))
