"""How much memory an operator needs: `python -m tests.bench.operator_memory` prints the table of install.md.

Every line is measured in a process of its own: a resync of so many jobs with a pod each from an API server that is
simulated, then a page of /metrics, and TLS connections of pods.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.operator.fake_api_server import raw_job, raw_node, raw_pod

from holdfast.runtime.informer.cache import Key
from holdfast.runtime.informer.work_queue import WorkQueue

SIZES = (100, 1_000, 5_000, 10_000)
STATES = {"first attempt": 0, "20 attempts in history": 20}
PAGE = 500
JOBS_ON_A_NODE = 4
CONNECTIONS = 300
CLIENTS = """
import socket, ssl, sys
context = ssl._create_unverified_context()
port, count = map(int, sys.argv[1:])
made = [context.wrap_socket(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]
print(flush=True)
sys.stdin.read()
"""
AT = "2026-11-21T09:00:00Z"


def job(number: int, history: int) -> dict[str, Any]:
    """A job that runs, with so many attempts behind it."""
    tier = {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "3.06"}
    ended = [
        {
            "number": one, "tier": "spot", "node": f"ip-10-0-0-{one}.ec2.internal", "kind": "Interruption",
            "reason": "SpotInterruption", "message": "the node has the taint aws-node-termination-handler/spot-itn",
            "raisedAt": AT, "scheduledAt": AT, "startedAt": AT, "endedAt": AT, "firstStep": 1, "lastStep": 900,
            "steps": 900, "cost": "0.5", "recovery": {"notice": "1s"},
        }
        for one in range(1, history + 1)
    ]  # fmt: skip
    current = {"number": history + 1, "state": "Running", "tier": tier, "raisedAt": AT, "scheduledAt": AT}
    progress = {"step": 50, "steps": 200, "loss": "2.5", "updatedAt": AT}
    status = {"phase": "Running", "attempt": history + 1, "current": current, "history": ended, "progress": progress}
    made = raw_job(f"j{number}", f"job-uid-{number}", number + 1, **status)
    made["spec"]["trainer"]["env"] = [{"name": f"VAR_{one}", "value": "x" * 30} for one in range(20)]
    return made


def pod(number: int) -> dict[str, Any]:
    """Its pod, with managed fields as an API server writes them: about 12 KiB in all."""
    made = raw_pod(f"j{number}-1-0", f"pod-uid-{number}", number + 1, job=f"j{number}", job_uid=f"job-uid-{number}",
                   node=f"n{number // JOBS_ON_A_NODE}", phase="Running")  # fmt: skip
    made["metadata"]["managedFields"] = [{"manager": "holdfast", "fieldsV1": {f"f:{one}": {} for one in range(250)}}]
    environment = [{"name": f"V{one}", "value": "x" * 60} for one in range(80)]
    made["spec"]["containers"] = [{"name": "trainer", "env": environment}]
    return made


class Cluster:
    """An API server with `count` jobs; every page is decoded from text, as a real one is."""

    def __init__(self, count: int, history: int) -> None:
        self._count = count
        self._history = history

    def _objects(self, kind: str) -> Iterator[dict[str, Any]]:
        numbers = range(self._count)
        if kind == "trainingjobs":
            return (job(number, self._history) for number in numbers)
        if kind == "pods":
            return (pod(number) for number in numbers)
        if kind == "nodes":
            return (raw_node(f"n{number}", version=number + 1) for number in range(self._count // JOBS_ON_A_NODE))
        return iter(())

    async def pages(self, path: str, params: Any = None) -> AsyncIterator[tuple[list[Any], int]]:
        """See Client.pages."""
        texts: list[str] = []
        for one in self._objects(path.rpartition("/")[2]):
            texts.append(json.dumps(one))
            if len(texts) == PAGE:
                yield json.loads(f"[{','.join(texts)}]"), 10**9
                texts = []
        yield json.loads(f"[{','.join(texts)}]"), 10**9


async def measure(count: int, history: int) -> int:
    """The most memory that the process took, in MiB."""
    from prometheus_client import CollectorRegistry

    from holdfast.runtime import operator  # all that an operator imports
    from holdfast.runtime.informer.cache import Cache
    from holdfast.runtime.informer.resync import Resync
    from holdfast.serve.exposition import Exposition

    assert operator
    cache, cluster = Cache(), Cluster(count, history)
    client: Any = cluster
    resync = Resync(client, cache, WorkQueue[Key](), every=600)
    page = Exposition(CollectorRegistry(), cache.jobs.values, lambda: datetime.now(UTC))
    for _ in range(2):  # a second resync beside what the first one left
        await resync.once()
        await page.render()
    assert len(cache.jobs) == count
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


async def connection() -> float:
    """KiB of one TLS connection."""
    from aiohttp import web

    from holdfast.serve.certs import make_ca, make_serving, server_context
    from holdfast.serve.connections import Bounds, Connections
    from holdfast.serve.listener import Listener

    def taken() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4

    bounds = Bounds(unproven=10_000, burst=10_000, seconds=600)
    listener = Listener(web.Application(), Connections(bounds))
    port = await listener.start("127.0.0.1", 0, server_context(make_serving(make_ca(), ["localhost"])))
    before = taken()
    clients = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENTS, str(port), str(CONNECTIONS),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert clients.stdout
    await clients.stdout.readline()
    after = taken()
    await clients.communicate(b"")
    await listener.stop()
    return (after - before) / CONNECTIONS


def main() -> None:
    """Print the table, or measure one line of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.operator_memory", description=__doc__)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--history", type=int, default=0)
    options = parser.parse_args()
    if options.jobs is not None:
        sys.stdout.write(f"{asyncio.run(measure(options.jobs, options.history))}\n")
        return
    each = asyncio.run(connection())
    sys.stdout.write(f"one TLS connection: {each:.0f} KiB; a pod has two\n\n")
    sys.stdout.write(f"| jobs | {' | '.join(STATES)} |\n|---|---|---|\n")
    for count in SIZES:
        found = []
        for history in STATES.values():
            command = [sys.executable, "-m", "tests.bench.operator_memory", f"--jobs={count}", f"--history={history}"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found.append(round(int(done.stdout) + 2 * count * each / 1024))
        sys.stdout.write(f"| {count:,} | {' | '.join(f'{mib} MiB' for mib in found)} |\n")


if __name__ == "__main__":
    main()
