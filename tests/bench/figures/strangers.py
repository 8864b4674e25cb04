"""Notice → order while callers without a right do what they can: 50 scrapers and 1,000 forged tokens a second."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from tests.bench import jobs
from tests.bench.context import Bench
from tests.bench.cpu import Shares
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
    """The processes of tests.bench.strangers; use it as a context manager. `said` is how often each answer came."""

    def __init__(self, operator: OperatorProcess, members: list[Trainer]) -> None:
        one = members[0].pod["metadata"]
        orders = f"{operator.progress_url}/v1/namespaces/{one['namespace']}/jobs/{members[0].job}/orders"
        known = ",".join(member.uid for member in members[:200])
        self._arguments = {
            "scrapes": ["scrape", f"http://127.0.0.1:{operator.metrics_port}/metrics"],
            "forged tokens": ["forge", orders, "--pods", known],
        }
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._started = 0.0
        self.seconds = 0.0
        self.said: dict[str, dict[str, int]] = {}

    def __enter__(self) -> "Strangers":
        root, self._started = Path(__file__).parents[3], monotonic()
        for name, arguments in self._arguments.items():
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.strangers", *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, start_new_session=True,
            )  # fmt: skip
        return self

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [process.pid for process in self._processes.values()]

    def __exit__(self, *_: object) -> None:
        try:
            self.seconds = monotonic() - self._started
            self.said = {
                name: json.loads(process.communicate("", timeout=30)[0]) for name, process in self._processes.items()
            }
        finally:
            for process in self._processes.values():
                process.kill()


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
                shares = Shares(_groups(bench, operator, strangers))
                for number in range(bench.size(3, 2)):
                    received += (await wave(bench, operator, PODS, f"strangers-{number}", beside=steady))[0]
                used = shares.read()
                said, refused = load.reports - before, load.refused - refused
    orders = Sample.of(received)
    answers = "; ".join(f"{name} {_told(strangers.said[name], strangers.seconds)}" for name in strangers.said)
    load_of = ", ".join(f"{name} {share:.0f}%" for name, share in used.items())
    note = f"{orders}; {count} jobs, {said} reports, {refused} refused; {answers}; CPU of a core: {load_of}"
    return [Measured("strangers", orders.p99, note=note)]


def _groups(bench: Bench, operator: OperatorProcess, strangers: Strangers) -> Mapping[str, list[int]]:
    """Who takes part in the measurement, by process id."""
    return {
        "operator": [operator.pid],
        "strangers": strangers.pids,
        "trainers and this benchmark": [os.getpid()],
        "control plane": [part.pid for part in bench.cluster.status().parts],
    }


def _told(answers: dict[str, int], seconds: float) -> str:
    return f"({sum(answers.values()) / seconds:.0f}/s) " + ", ".join(
        f"{what}: {n}" for what, n in sorted(answers.items())
    )
