"""A reclaim with notice, with real training: time without a step, with a successor and without one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.goals import Measured
from tests.bench.timed_trainer import SAYS
from tests.support.cluster.local_cluster import fresh_namespace, running_cluster
from tests.support.cluster.training_jobs import Job, Pool, pool_nodes, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api.scalars import parse_duration
from holdfast_local.cluster import Cluster

NOTICE = timedelta(seconds=60)
COMMAND = ["python", "-m", "tests.bench.timed_trainer", "--batch", "4", "--context", "64", "--show-every", "1000000"]
PARTS = ("notice", "acquire", "start", "restore")
GIVES_UP = 240  # seconds


async def measure(quick: bool) -> list[Measured]:
    """The same job is reclaimed in turn with a successor, and as delete-and-recreate (`maxOverlap: 0s`)."""
    return await asyncio.to_thread(_measure, 1 if quick else 3)


def _measure(rounds: int) -> list[Measured]:
    lost: dict[str, list[float]] = {"10m": [], "0s": []}
    parts: dict[str, list[list[float]]] = {"10m": [], "0s": []}
    again = 0
    with _stage(2 * rounds) as (cluster, namespace):
        for number in range(2 * rounds):
            overlap = list(lost)[number % 2]
            pool = Pool(cluster, f"p{number}").rent()
            job = _submit(cluster, namespace, pool, f"job-{number}", overlap)
            record = _reclaimed(cluster, job)
            lost[overlap].append(_gap(job, record["number"], job.status()["current"]["number"]))
            parts[overlap].append([_seconds(record["recovery"].get(part)) for part in PARTS])
            again += record["stepsLost"]
            job.delete()
            pool.give_back()
    note = "; ".join(
        f"{title} {', '.join(f'{one:.2f}' for one in lost[overlap])} s ({_split(parts[overlap])})"
        for overlap, title in (("10m", "with a successor"), ("0s", "delete and recreate"))
    )
    with_one, without = median(lost["10m"]), median(lost["0s"])
    return [
        Measured("switch", with_one, without, note=note),
        Measured("switch-again", again, note=f"of {2 * rounds} reclaims"),
    ]


@contextmanager
def _stage(pools: int) -> Iterator[tuple[Cluster, str]]:
    """A cluster whose pods are real processes, with that many pools of nodes to rent, and an operator."""
    nodes = tuple(node for number in range(pools) for node in pool_nodes(number))
    with running_cluster(audit=True, nodes=nodes) as cluster:
        cluster.install()
        with OperatorProcess(cluster, log_level="INFO"), fresh_namespace(cluster, "bench") as namespace:
            yield cluster, namespace


def _submit(cluster: Cluster, namespace: str, pool: Pool, name: str, overlap: str) -> Job:
    env = [
        {"name": "PYTHONPATH", "value": str(Path(__file__).parents[3])},
        {"name": "OMP_NUM_THREADS", "value": "1"},
    ]
    return submit(
        cluster, namespace, [], COMMAND, name, trainer={"env": env}, goal={"steps": 1_000_000},
        capacity={"tiers": [pool.tier("spot")], "maxOverlap": overlap},
        checkpoint={"every": "20 steps", "gracePeriod": "30s"},
    )  # fmt: skip


def _reclaimed(cluster: Cluster, job: Job) -> dict[str, Any]:
    """Take the job's node, and wait until the next attempt trains: the record of the one that had to leave."""
    first = job.wait_checkpoint(40, timeout=GIVES_UP)
    cluster.reclaim(first["node"], NOTICE)
    number = first["current"]["number"]
    after = job.wait(
        "the next attempt's first step",
        lambda s: (s.get("current") or {}).get("number", 0) > number and s["current"].get("firstStep"),
        GIVES_UP,
    )
    found: dict[str, Any] = next(record for record in after["history"] if record["number"] == number)
    return found


def _gap(job: Job, before: int, after: int) -> float:
    """Seconds from the last step of one attempt to the first of the other, as both said. A report may be faster than
    a line of the log.
    """
    wait_for(lambda: _done(job, after), GIVES_UP, f"the first step of attempt {after} in its log")
    return _done(job, after)[0] - _done(job, before)[-1]


def _done(job: Job, attempt: int) -> list[float]:
    lines = [line.split() for line in job.logs(attempt).splitlines()]
    return [float(words[2]) for words in lines if len(words) == 3 and words[0] == SAYS]


def _seconds(text: str | None) -> float:
    return parse_duration(text).total_seconds() if text else 0.0


def _split(rows: list[list[float]]) -> str:
    """The median of every part, as the ledger has it: by the times at which reports arrived."""
    return ", ".join(
        f"{part} {median(column):.1f}" for part, column in zip(PARTS, zip(*rows, strict=True), strict=True)
    )
