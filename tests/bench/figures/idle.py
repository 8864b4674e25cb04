"""1,000 running jobs: what the operator costs when nothing happens, and when all of them report."""

import asyncio
from time import monotonic, time

import psutil
from tests.bench import jobs
from tests.bench.audit import OPERATOR, costs
from tests.bench.context import Bench
from tests.bench.cpu import used_by
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST
from tests.bench.trainers import Load, trainers
from tests.bench.waiting import until
from tests.support.operator.operator_process import OperatorProcess

JOBS = 1000
NODES = 20
SECONDS = 60.0
EVERY = 15.0


async def measure(bench: Bench) -> list[Measured]:
    """First silent pods, then pods that report every 15 s and hold a long poll each."""
    count = bench.size(JOBS, 150)
    await bench.nodes("idle", NODES)
    async with bench.operator() as operator, jobs.namespace(bench.api, "idle") as where:
        bench.audit.start()
        await jobs.create(bench.api, HOLDFAST, where, "idle", count)
        await jobs.all_known_running(bench.audit, where, count)
        await at_rest(bench)
        quiet = await watch(bench, operator)
        pods = await jobs.all_running(bench.api, where, count)
        members = await trainers(bench.api, pods, operator.progress_url)
        async with Load(members, EVERY) as load:
            await asyncio.sleep(2 * EVERY)  # tokens are reviewed, and first steps go into status
            bench.audit.start()
            await until(lambda: flowing(bench, count), 240, "progress to be written steadily", every=1.0)
            before = load.reports
            busy = await watch(bench, operator)
            said, refused = load.reports - before, load.refused
    note = f"{count} jobs"
    told = f"{note}, {said / busy.seconds:.0f} reports a second, {refused} requests refused, {busy.rss:.0f} MiB"
    return [
        Measured("idle-writes", quiet.writes, note=f"{note}; {quiet.kinds}"),
        Measured("idle-cpu", quiet.cpu, note=note),
        Measured("idle-rss", quiet.rss, note=note),
        Measured("report-cpu", busy.cpu, note=told),
        Measured("report-writes", busy.writes / busy.seconds, note=f"{told}; {busy.kinds}"),
    ]


class Spent:
    """What the operator used in a while: percent of a core, MiB, writes."""

    def __init__(self, cpu: float, rss: float, seconds: float, writes: int, kinds: str) -> None:
        self.cpu, self.rss, self.seconds, self.writes, self.kinds = cpu, rss, seconds, writes, kinds or "none"


async def watch(bench: Bench, operator: OperatorProcess) -> Spent:
    """What the operator uses in the next minute."""
    process = psutil.Process(operator.pid)
    bench.audit.start()
    started, before = monotonic(), used_by(operator.pid)
    await asyncio.sleep(bench.size(int(SECONDS), 15))
    seconds, used = monotonic() - started, used_by(operator.pid) - before
    made = costs(bench.audit.by(OPERATOR))
    kinds = ", ".join(f"{what}: {number}" for what, number in sorted(made.items()))
    rss = process.memory_info().rss / 2**20
    return Spent(100 * used / seconds, rss, seconds, sum(made.values()), kinds)


async def flowing(bench: Bench, count: int) -> bool:
    """First steps of `count` jobs have used up the slots for progress; what is measured is what comes after that."""
    return sum(write.received > time() - 5 for write in bench.audit.by(OPERATOR)) >= min(30, count // 5)


async def at_rest(bench: Bench) -> None:
    """Until the operator has written nothing for five seconds, Events included."""
    seen: list[int] = []

    async def still() -> bool:
        seen.append(len(bench.audit.by(OPERATOR)))
        return len(seen) > 5 and seen[-6] == seen[-1]

    await until(still, 300, "the operator to come to rest", every=1.0)
