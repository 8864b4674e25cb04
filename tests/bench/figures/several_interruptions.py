"""Many trainings on several nodes lose one node each at once: lost → the pod in its place POSTed. Job beside it."""

import asyncio

from tests.bench import jobs, launchers
from tests.bench.api import Raw
from tests.bench.audit import Write
from tests.bench.context import Bench
from tests.bench.control_plane.kubelet import lose_pod
from tests.bench.figures.notice import ended
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST, JOB, Kind, on_nodes
from tests.bench.stats import Sample
from tests.bench.trainers import trainers
from tests.bench.waiting import until

from holdfast.api import names

JOBS = 40
NODES = 8  # of one job
IN_CLUSTER = 16
LOST = "3"  # the rank whose node is lost
OURS, THEIRS = on_nodes(HOLDFAST, NODES), on_nodes(JOB, NODES)
RANK = {OURS: names.LABEL_RANK, THEIRS: "batch.kubernetes.io/job-completion-index"}


async def measure(bench: Bench) -> list[Measured]:
    """Rounds of Holdfast, then one of Job. The programs of all other nodes run, and their launchers wait for orders."""
    count, group = bench.size(JOBS, 20), "several-lost"
    await bench.nodes(group, IN_CLUSTER)
    ours: list[float] = []
    again: list[float] = []
    async with bench.operator() as operator:
        for _ in range(bench.size(3, 1)):
            gaps, regrouped = await _round(bench, OURS, group, count, operator.progress_url)
            ours += gaps
            again += regrouped
    theirs, _ = await _round(bench, THEIRS, group, count, "")
    mine, job = Sample.of(ours), Sample.of(theirs)
    note = (
        f"{count} jobs of {NODES}; Holdfast {mine}; Job {job}; lost → the other launchers told it: {Sample.of(again)}"
    )
    return [
        Measured("several-lost-p50", mine.p50, job.p50, note=note),
        Measured("several-lost-p99", mine.p99, job.p99),
    ]


async def _round(bench: Bench, kind: Kind, group: str, count: int, url: str) -> tuple[list[float], list[float]]:
    """Seconds from each interruption to the POST of the pod in its place, and until each other launcher was told it."""
    async with jobs.namespace(bench.api, group) as where:
        bench.audit.start()
        made = await jobs.create(bench.api, kind, where, group, count)
        pods = await jobs.all_running(bench.api, where, count * NODES)
        members: list[launchers.Launcher] = []
        if kind is OURS:
            members = await launchers.launchers(bench.api, pods, url)
            await launchers.begin(members)
            await jobs.all_known_running(bench.audit, where, count)
            await _train(bench, where, pods, url)
            await jobs.at_rest(bench.audit, kind)
        lost = [pod for pod in pods if pod["metadata"]["labels"][RANK[kind]] == LOST]
        dead = {pod["metadata"]["uid"] for pod in lost}
        await asyncio.gather(*(one.end() for one in members if one.uid in dead))
        bench.audit.start()
        await asyncio.gather(*(lose_pod(bench.api, pod) for pod in lost))

        async def found() -> list[Write]:
            posts = kind.replacements(bench.audit, where)
            return posts if {kind.job_of(post) for post in posts} >= set(made) else []

        posts = await until(found, 120, f"{count} replacements by {kind.title}")
        at = {kind.job_of(post): post.received for post in posts}
        assert len(posts) == count, f"one new pod for each job, not {len(posts)} for {count}"
        ends = _ends(bench, where, kind, lost)
        survivors = [one for one in members if one.uid not in dead]
        await until(lambda: _all_regrouped(survivors), 60, "the other launchers to regroup")
        told = [one.regrouped_at - ends[one.job] for one in survivors]
        await launchers.end(survivors)
        return [at[name] - ends[name] for name in made], told


async def _train(bench: Bench, where: str, pods: list[Raw], url: str) -> None:
    """Rank 0 of each job reports steps, until the operator has them in status: a job without steps waits longer."""
    leads = [pod for pod in pods if pod["metadata"]["labels"][names.LABEL_RANK] == "0"]
    members = await trainers(bench.api, leads, url)
    for _ in range(3):
        await asyncio.gather(*(member.report() for member in members))

    async def known() -> bool:
        found = await bench.api.items(HOLDFAST.collection(where))
        return all((one["status"].get("current") or {}).get("firstStep") is not None for one in found)

    await until(known, 60, "the first steps to be in status", every=0.5)
    await asyncio.gather(*(member.close() for member in members))


async def _all_regrouped(members: list[launchers.Launcher]) -> bool:
    return all(one.regrouped_at for one in members)


def _ends(bench: Bench, where: str, kind: Kind, lost: list[Raw]) -> dict[str, float]:
    """When the write that says that the pod was lost was answered, by job."""
    over = ended(bench, where)
    label = kind.label
    return {pod["metadata"]["labels"][label]: over[pod["metadata"]["name"]] for pod in lost}
