"""The meeting of the launchers of one training: the last one is ready → all have the order to start."""

import asyncio
from time import time

from tests.bench import jobs, launchers
from tests.bench.audit import OPERATOR, costs
from tests.bench.context import Bench
from tests.bench.cpu import Shares
from tests.bench.goals import Measured
from tests.bench.jobs import HOLDFAST, on_nodes
from tests.bench.launchers import Launcher
from tests.bench.stats import Sample
from tests.bench.waiting import until
from tests.support.operator.operator_process import OperatorProcess

NODES = 1024
GROUP = "meeting"
LAST = 0.05  # seconds in which the others must have come to rest before the last launcher is ready


async def measure(bench: Bench) -> list[Measured]:
    """A job for each round. The orders are received by simulated launchers over HTTPS, which share the machine."""
    count, delays, notes = bench.size(NODES, 256), list[float](), list[str]()
    await bench.nodes(GROUP, count)
    async with bench.operator() as operator:
        for _ in range(bench.size(3, 1)):
            found, note = await _meeting(bench, operator, count)
            delays += found
            notes.append(note)
    whole = Sample.of(delays)
    return [Measured("meeting", whole.p99, note=f"{count} launchers; {whole}; {'; '.join(notes)}")]


async def _meeting(bench: Bench, operator: OperatorProcess, count: int) -> tuple[list[float], str]:
    async with jobs.namespace(bench.api, GROUP) as where:
        bench.audit.start()
        await jobs.create(bench.api, on_nodes(HOLDFAST, count), where, GROUP, 1)
        pods = await jobs.all_running(bench.api, where, count, 600)
        members = await launchers.launchers(bench.api, pods, operator.progress_url)
        last, others = members[-1], members[:-1]
        shares = Shares({"operator": [operator.pid]})
        started = time()
        await launchers.begin(others)
        await until(lambda: _waiting(operator, len(others)), 300, f"{len(others)} launchers to wait", every=0.25)
        gathered, used = time() - started, shares.read()["operator"]
        await jobs.at_rest(bench.audit, HOLDFAST)
        await last.connect()
        last.begin()
        await until(lambda: _all_started(members), 120, f"{count} launchers to have the order", every=LAST)
        writes = sum(costs(bench.audit.by(OPERATOR)).values())
        delays = [one.started[1] - last.ready_at for one in members]
        await launchers.end(members)
        note = f"the others were there in {gathered:.1f} s, with {used:.0f}% of a core by the operator"
        return delays, f"{note}; {writes - count} writes besides the pods"


async def _waiting(operator: OperatorProcess, count: int) -> bool:
    return await asyncio.to_thread(operator.metric, "holdfast_member_waits") >= count


async def _all_started(members: list[Launcher]) -> bool:
    return all(1 in one.started for one in members)
