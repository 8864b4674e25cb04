"""2,000 trainings of 4 nodes wait for nodes that are not there: what the operator costs.

Three nodes are there, so no training can be complete. Once the tier has no autoscaler (`Free`), and no pod is made;
once it has one (`Billed`), and each training has a part of its pods on these nodes, which are large enough for all.
"""

import asyncio
from functools import partial
from typing import Any

from tests.bench import jobs
from tests.bench.context import Bench
from tests.bench.figures.idle import at_rest, watch
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST, Kind
from tests.bench.waiting import until

JOBS = 2000
NODES = 4
SETTLES = 30  # seconds after which each job says how many nodes it has


async def measure(bench: Bench) -> list[Measured]:
    """A minute of each, after the operator has seen all of them and has come to rest."""
    count = bench.size(JOBS, 200)
    found = []
    for observation in ("Free", "Billed"):
        group = f"wait-{observation.lower()}"
        await bench.nodes(group, NODES - 1)
        async with bench.operator() as operator, jobs.namespace(bench.api, group) as where:
            bench.audit.start()
            await jobs.create(bench.api, _kind(observation), where, group, count)
            await until(partial(_all_seen, bench, where, count), 600, "all jobs to be seen", every=1.0)
            await at_rest(bench)
            await asyncio.sleep(SETTLES)
            await at_rest(bench)
            spent = await watch(bench, operator)
        note = f"{count} jobs of {NODES} nodes, {spent.writes} writes in {spent.seconds:.0f} s ({spent.kinds}), "
        found.append(Measured(f"several-waiting-{observation.lower()}", spent.cpu, note=f"{note}{spent.rss:.0f} MiB"))
    return found


def _kind(observation: str) -> Kind:
    def manifest(name: str, group: str) -> dict[str, Any]:
        made = jobs.training_job(name, group, NODES)
        made["spec"]["capacity"]["tiers"][0]["observation"] = observation
        return made

    return Kind(HOLDFAST.title, HOLDFAST.path, HOLDFAST.user, manifest, HOLDFAST.label)


async def _all_seen(bench: Bench, where: str, count: int) -> bool:
    found = await bench.api.request("GET", f"{HOLDFAST.collection(where)}?resourceVersion=0")
    return sum(bool(job.get("status", {}).get("phase")) for job in found["items"]) >= count
