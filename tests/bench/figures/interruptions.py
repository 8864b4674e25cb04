"""One job loses its node again and again, with progress between: is it replaced as fast each time?

Nothing fences its program, so that no successor comes up before its end: the delay after the end is what is measured.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from tests.bench import jobs
from tests.bench.context import Bench
from tests.bench.control_plane import kwok
from tests.bench.control_plane.kubelet import end_pod
from tests.bench.figures.notice import replaced
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST, JOB
from tests.bench.trainers import Trainer, trainers
from tests.bench.waiting import until
from tests.support.operator.operator_process import OperatorProcess

INTERRUPTIONS = 4
NAME = "j0000"


async def measure(bench: Bench) -> list[Measured]:
    """Seconds from the end of the pod to its replacement, interruption by interruption."""
    interruptions = bench.size(INTERRUPTIONS, 2)
    async with bench.operator() as operator:
        ours = await _holdfast(bench, operator, interruptions)
    theirs = await _job(bench, interruptions)
    growth = max(ours) / max(min(ours[0], ours[-1]), 0.001) if max(ours) != ours[0] else 1.0
    note = f"Holdfast {_list(ours)}; Job {_list(theirs)}"
    return [Measured("nth", max(growth, 1.0), theirs[-1] / theirs[0], max(ours), note)]


def _list(seconds: list[float]) -> str:
    return ", ".join(f"{s:.3f}" for s in seconds) + " s"


async def _holdfast(bench: Bench, operator: OperatorProcess, interruptions: int) -> list[float]:
    group, gaps = "interruptions", []
    async with jobs.namespace(bench.api, group) as where, AsyncExitStack() as stack:
        await bench.nodes(group, 1)
        bench.audit.start()
        await jobs.create(bench.api, HOLDFAST, where, group, 1)
        await jobs.all_known_running(bench.audit, where, 1)
        for interruption in range(interruptions):
            pod = await _newest(bench, where)
            (member,) = await trainers(bench.api, [pod], operator.progress_url, fenced=False)
            stack.push_async_callback(member.close)
            await _progress(bench, member, where)
            await bench.nodes(group, 1, first=interruption + 1)
            bench.audit.start()
            waiting = asyncio.create_task(member.until_order())
            await kwok.give_notice(bench.api, pod["spec"]["nodeName"])
            await asyncio.wait_for(waiting, 60)
            await end_pod(bench.api, pod)
            gaps += await replaced(bench, HOLDFAST, where, {NAME})
            await jobs.all_known_running(bench.audit, where, 1)
    return gaps


async def _progress(bench: Bench, member: Trainer, where: str) -> None:
    """Steps, until the operator has them in status."""
    for _ in range(3):
        await member.report()

    async def known() -> bool:
        found = await bench.api.request("GET", f"{HOLDFAST.collection(where)}/{NAME}")
        return (found["status"].get("current") or {}).get("firstStep") is not None

    await until(known, 30, "the first step to be in status")


async def _job(bench: Bench, interruptions: int) -> list[float]:
    group, gaps = "job-interruptions", []
    async with jobs.namespace(bench.api, group) as where:
        await bench.nodes(group, 1)
        await jobs.create(bench.api, JOB, where, group, 1)
        for interruption in range(interruptions):
            pod = await _newest(bench, where)
            await bench.nodes(group, 1, first=interruption + 1)
            bench.audit.start()
            await kwok.give_notice(bench.api, pod["spec"]["nodeName"])
            await kwok.evict(bench.api, where, pod["metadata"]["name"])
            gaps += await replaced(bench, JOB, where, {NAME}, seconds=180)
    return gaps


async def _newest(bench: Bench, where: str) -> dict[str, Any]:
    """The pod that runs now and was not told to go."""
    (pod,) = await jobs.all_running(bench.api, where, 1)
    return pod
