"""1,000 jobs of 8 pods: what the operator costs while all launchers hold their calls, and while all jobs report."""

import asyncio
import os

from tests.bench import jobs, launchers
from tests.bench.context import Bench
from tests.bench.cpu import Shares
from tests.bench.figures.idle import EVERY, at_rest, flowing, watch
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST, on_nodes
from tests.bench.trainers import Load, trainers
from tests.bench.waiting import until

from holdfast.api import names

JOBS = 1000
NODES = 8  # of one job
IN_CLUSTER = 32
GROUP = "several-endpoint"
LONGEST = 1200.0  # seconds until all pods are there, or all jobs run


async def measure(bench: Bench) -> list[Measured]:
    """Each launcher has a connection and an address of its own; rank 0 of each job reports and waits for orders too."""
    count = bench.size(JOBS, 40)
    await bench.nodes(GROUP, IN_CLUSTER)
    async with bench.operator() as operator, jobs.namespace(bench.api, GROUP, keep=True) as where:
        bench.audit.start()
        await jobs.create(bench.api, on_nodes(HOLDFAST, NODES), where, GROUP, count)
        await until(lambda: _started(bench, where, count * NODES), LONGEST, "all pods to run", every=1.0)
        pods = await jobs.all_running(bench.api, where, count * NODES, LONGEST)
        members = await launchers.launchers(bench.api, pods, operator.progress_url)
        await launchers.begin(members)
        await jobs.all_known_running(bench.audit, where, count, LONGEST)
        await at_rest(bench)
        quiet = await watch(bench, operator)
        leads = [pod for pod in pods if pod["metadata"]["labels"][names.LABEL_RANK] == "0"]
        reporting = await trainers(bench.api, leads, operator.progress_url)
        async with Load(reporting, EVERY) as load:
            await asyncio.sleep(2 * EVERY)
            bench.audit.start()
            await until(lambda: flowing(bench, count), 240, "progress to be written steadily", every=1.0)
            before, shares = load.reports, Shares({"launchers and trainers": [os.getpid()]})
            busy = await watch(bench, operator)
            others = shares.read()
            said, refused = load.reports - before, load.refused + sum(one.refused for one in members)
        running = sum(one.runs for one in members)
        await launchers.end(members)
    note = f"{count} jobs, {running} launchers whose programs run, each with a call open"
    told = (
        f"{note}, {said / busy.seconds:.0f} reports a second, {refused} requests refused; "
        f"{', '.join(f'{name} {share:.0f}% of a core' for name, share in others.items())}"
    )
    return [
        Measured("several-idle-writes", quiet.writes, note=f"{note}; {quiet.kinds}"),
        Measured("several-idle-cpu", quiet.cpu, note=f"{note}; {quiet.rss:.0f} MiB"),
        Measured("several-report-cpu", busy.cpu, note=told),
        Measured("several-report-rss", busy.rss, note=note),
    ]


async def _started(bench: Bench, where: str, count: int) -> bool:
    """Whether so many pods run; read from the audit log, because a list of all pods costs the API server seconds."""

    def runs(body: dict[str, object]) -> bool:
        status = body.get("status")
        return isinstance(status, dict) and status.get("phase") == "Running"

    found = bench.audit.find(lambda w: w.resource == "pods/status" and w.namespace == where and runs(w.body))
    return len({write.name for write in found}) >= count
