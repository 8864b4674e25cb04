"""A node is reclaimed: notice → drain order received, old pod ended → replacement POSTed, notice → successor POSTed.

The replacement comes after the end where nothing fences the program; where something does, a successor comes before it.
"""

import asyncio
from time import time
from typing import Any

from tests.bench import jobs
from tests.bench.audit import Write
from tests.bench.context import Bench
from tests.bench.control_plane import kwok
from tests.bench.control_plane.kubelet import end_pod
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST, JOB, Kind
from tests.bench.stats import Sample
from tests.bench.trainers import Trainer, trainers
from tests.bench.waiting import until
from tests.support.operator.operator_process import OperatorProcess

PODS = 40
OTHERS = 960  # jobs beside those on the node that goes
NODES = 20
SAVE = 1.0  # seconds that a trainer takes to save


async def measure(bench: Bench) -> list[Measured]:
    """Both figures, on one node with 40 pods and on nodes with one pod each; Job beside them."""
    async with bench.operator() as operator:
        many: list[float] = []
        crowd: list[float] = []
        for number in range(bench.size(3, 1)):
            received, gaps = await wave(bench, operator, PODS, f"notice-40-{number}")
            many += received
            crowd += gaps
        singles: list[float] = []
        for number in range(bench.size(10, 3)):
            singles += (await wave(bench, operator, 1, f"notice-1-{number}"))[1]
        followed = Sample.of(await _followed(bench, operator))
    job_crowd = await _job_wave(bench, "job-40", PODS)
    job_singles: list[float] = []
    for number in range(bench.size(3, 1)):
        job_singles += await _job_wave(bench, f"job-1-{number}", 1)
    orders, together, alone = Sample.of(many), Sample.of(crowd), Sample.of(singles)
    job_together, job_alone = Sample.of(job_crowd), Sample.of(job_singles)
    return [
        Measured("notice", orders.p99, note=str(orders)),
        Measured("one", alone.p50, job_alone.p50, note=f"Holdfast {alone}; Job {job_alone}"),
        Measured("forty-p50", together.p50, job_together.p50, note=f"Holdfast {together}; Job {job_together}"),
        Measured("forty-p99", together.p99, job_together.p99),
        Measured("successor", followed.p99, note=str(followed)),
    ]


async def _followed(bench: Bench, operator: OperatorProcess) -> list[float]:
    """Beside many other jobs: seconds from taint to the POST of the successor, of every pod of a node."""
    others, delays = bench.size(OTHERS, 100), []
    await bench.nodes("others", NODES)
    async with jobs.namespace(bench.api, "others") as elsewhere:
        await jobs.create(bench.api, HOLDFAST, elsewhere, "others", others)
        await jobs.all_running(bench.api, elsewhere, others)
        for number in range(bench.size(3, 1)):
            delays += (await wave(bench, operator, PODS, f"followed-{number}", fenced=True))[1]
    return delays


async def wave(
    bench: Bench, operator: OperatorProcess, count: int, group: str, *, fenced: bool = False, beside: int = 0
) -> tuple[list[float], list[float]]:
    """Take one node with `count` pods away: seconds from taint to order, and from end to replacement, of every pod.

    `beside` other pods wait for orders too. If the programs are `fenced`, the second is from taint to successor.
    """
    await bench.nodes(group, 1)
    async with jobs.namespace(bench.api, group) as where:
        bench.audit.start()
        await jobs.create(bench.api, HOLDFAST, where, group, count)
        pods = await jobs.all_running(bench.api, where, count)
        await jobs.all_known_running(bench.audit, where, count)
        members = await trainers(bench.api, pods, operator.progress_url, fenced=fenced)
        orders = [asyncio.create_task(_listen(member)) for member in members]
        await until(lambda: _waiting(operator, count + beside), 30, f"{count} pods to wait for orders")
        await bench.nodes(group, 1, first=1)
        bench.audit.start()
        noticed = time()
        await kwok.give_notice(bench.api, f"{group}-0")
        received = [at - noticed for at in await asyncio.wait_for(asyncio.gather(*orders), 60)]
        await asyncio.sleep(SAVE)
        await asyncio.gather(*(end_pod(bench.api, member.pod) for member in members))
        gaps = await replaced(
            bench, HOLDFAST, where, {member.job for member in members}, since=noticed if fenced else None
        )
        await asyncio.gather(*(member.close() for member in members))
        return received, gaps


async def _listen(member: Trainer) -> float:
    await member.report()
    return await member.until_order()


async def _waiting(operator: OperatorProcess, count: int) -> bool:
    return await asyncio.to_thread(operator.metric, "holdfast_order_waits") >= count


async def _job_wave(bench: Bench, group: str, count: int) -> list[float]:
    """The same for batch/v1 Job, which acts on nothing before the eviction: seconds from end to replacement."""
    await bench.nodes(group, 1)
    async with jobs.namespace(bench.api, group) as where:
        made = await jobs.create(bench.api, JOB, where, group, count)
        pods = await jobs.all_running(bench.api, where, count)
        await bench.nodes(group, 1, first=1)
        bench.audit.start()
        await kwok.give_notice(bench.api, f"{group}-0")
        await asyncio.gather(*(kwok.evict(bench.api, where, pod["metadata"]["name"]) for pod in pods))
        return await replaced(bench, JOB, where, set(made))


async def replaced(
    bench: Bench, kind: Kind, where: str, wanted: set[str], *, seconds: float = 120, since: float | None = None
) -> list[float]:
    """Seconds from the end of each job's pod, or from `since`, to the POST of the next one, once all are there.

    The end is when the API server has answered the write that says so; the POST is when it arrives.
    """

    async def found() -> list[Write]:
        posts = kind.replacements(bench.audit, where)
        return posts if {kind.job_of(post) for post in posts} >= wanted else []

    posts = await until(found, seconds, f"{len(wanted)} replacements by {kind.title}")
    by_job = {kind.job_of(post): post.received for post in reversed(posts)}
    if since is not None:
        return [by_job[job] - since for job in sorted(wanted)]
    ends = ended(bench, where)
    return [by_job[job] - _end_of(ends, job) for job in sorted(wanted)]


def ended(bench: Bench, where: str) -> dict[str, float]:
    """When each pod of a namespace ended, by the pod's name."""
    over: dict[str, float] = {}
    for write in bench.audit.find(lambda w: w.resource == "pods/status" and w.namespace == where):
        if _phase(write.body) in ("Succeeded", "Failed"):
            over.setdefault(write.name, write.answered)
    return over


def _phase(body: dict[str, Any]) -> str | None:
    return (body.get("status") or {}).get("phase")


def _end_of(ends: dict[str, float], job: str) -> float:
    """The last end of a pod of this job."""
    mine = [at for pod, at in ends.items() if pod.startswith(f"{job}-")]
    if not mine:
        raise LookupError(f"no pod of {job} was seen to end")
    return max(mine)
