"""The program of one of four ranks dies, with real training: time without a step.

The other three stay in their processes (`holdfast_train.restart_in_place`), and that rank starts in a process that has
waited. Beside it, in the same run: all four start in processes that have waited, as they do by default. The note has a
third time: all four start in new processes. There is no cluster: launchers run as processes here, and what answers
them orders the next attempt once all are ready. So the time contains no decision of the operator.
"""

import asyncio
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from tests.bench.goals import Measured
from tests.bench.timed_trainer import FILE, IN_PLACE, SAYS
from tests.support.http.progress_endpoint import Endpoint, serving
from tests.support.trainer.nodes import Node
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Every

NODES = 4
VICTIM = 2  # the rank whose program is killed
STEPS = 30  # of each attempt
GIVES_UP = 240  # seconds
MODULE = "tests.bench.timed_trainer"
LAST = "1000000"  # its last step must not come while processes still prepare to wait
COMMAND = [sys.executable, "-m", MODULE, "--batch", "4", "--context", "64", "--steps", LAST, "--show-every", LAST]


IN_THEIR_PROCESSES, WAITED, NEW = "in place", "processes that have waited", "new processes"
WAYS = {
    IN_THEIR_PROCESSES: {IN_PLACE: "1", "gates": ("RestartInPlace",)},
    WAITED: {},
    NEW: {"warm_start": False},
}


async def measure(quick: bool) -> list[Measured]:
    """All ways in turn."""
    return await asyncio.to_thread(_measure, 1 if quick else 3)


def _measure(rounds: int) -> list[Measured]:
    gaps: dict[str, list[float]] = {way: [] for way in WAYS}
    with TemporaryDirectory() as folder, serving(Path(folder)) as endpoint:
        for number in range(rounds):
            for way, found in gaps.items():
                own = Path(folder, f"{number}-{way}")
                own.mkdir()
                found.append(_episode(own, endpoint, WAYS[way]))
    note = "; ".join(f"{way} {_list(found)}" for way, found in gaps.items()) + f"; load {os.getloadavg()[0]:.1f}"
    return [Measured("several-in-place", median(gaps[IN_THEIR_PROCESSES]), median(gaps[WAITED]), note=note)]


def _list(seconds: list[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in seconds) + " s"


def _episode(folder: Path, endpoint: Endpoint, way: dict[str, Any]) -> float:
    """Seconds between the last step of the first attempt and the first step of the second one."""
    times = folder / "times"
    times.touch()
    own = {FILE: str(times), "every": Every(10), **way}
    uri = f"file://{folder}/prefix"
    nodes = [Node(folder, endpoint, rank, COMMAND, nodes=NODES, uri=uri, **own) for rank in range(NODES)]
    try:
        endpoint.members.begin(1, *(node.uid for node in nodes))
        wait_for(lambda: len(_done(times)) >= STEPS, GIVES_UP, "the steps of the first attempt")
        for node in nodes if "warm_start" not in way else ():
            node.wait_for("wait for the next attempt", GIVES_UP)
        os.kill(_program(nodes[VICTIM]), signal.SIGKILL)
        nodes[VICTIM].told("ready", 1, GIVES_UP)
        before = len(_done(times))
        endpoint.members.begin(2, *(node.uid for node in nodes))
        wait_for(lambda: len(_done(times)) >= before + STEPS, GIVES_UP, "the steps of the second attempt")
    finally:
        Node.end_all()
    return max(later - earlier for earlier, later in pairwise(_done(times)))


def _done(times: Path) -> list[float]:
    lines = [line.split() for line in times.read_text(encoding="utf-8").splitlines()]
    return [float(words[2]) for words in lines if len(words) == 3 and words[0] == SAYS]


def _program(node: Node) -> int:
    children = psutil.Process(node.process.pid).children()
    return min((one for one in children if MODULE in one.cmdline()), key=lambda one: one.create_time()).pid
