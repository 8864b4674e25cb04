"""One of four nodes is lost, fails, or gets a notice, with real training: time without a step.

Beside each, in the same job: the whole is deleted and created anew after the same fault, as a controller does that
knows no single members. The program is the language model on gloo; each rank is a process of its own.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import time
from typing import Any

from tests.bench.goals import Measured
from tests.bench.timed_trainer import FILE, SAYS
from tests.support.cluster.local_cluster import fresh_namespace, running_cluster
from tests.support.cluster.training_jobs import GPU, Job, processes_of, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast.local.cluster import Cluster, NodeSpec
from holdfast.local.config import Capacity

NODES = 4
SPARE = 4  # as many as a successor of the whole needs
NOTICE = timedelta(seconds=60)
VICTIM = 2  # the rank that is hit
GIVES_UP = 240  # seconds
COMMAND = ["python", "-m", "tests.bench.timed_trainer", "--batch", "4", "--context", "64", "--show-every", "1000000"]


@dataclass
class _Stage:
    """One job on four nodes, and the file with the times of its steps."""

    cluster: Cluster
    job: Job
    times: Path
    gone: list[str] = field(default_factory=list)

    def done(self) -> list[float]:
        """When each step was done, by all attempts."""
        lines = [line.split() for line in self.times.read_text(encoding="utf-8").splitlines()]
        return [float(words[2]) for words in lines if len(words) == 3 and words[0] == SAYS]

    def member(self, rank: int) -> dict[str, Any]:
        """The newest pod of a rank."""
        live = [p for p in self.job.pods() if p["metadata"]["labels"][names.LABEL_RANK] == str(rank)]
        return max(live, key=lambda pod: int(pod["metadata"]["labels"][names.LABEL_ATTEMPT]))

    def node(self, rank: int) -> str:
        """The node of a rank."""
        return str(self.member(rank)["spec"]["nodeName"])


async def measure(quick: bool) -> list[Measured]:
    """Each fault in turn, mended by Holdfast and by deleting the whole."""
    return await asyncio.to_thread(_measure, 1 if quick else 3)


FAULTS: dict[str, tuple[Callable[[_Stage], None], bool]] = {}  # name -> what happens, and if the whole is deleted


def _measure(rounds: int) -> list[Measured]:
    lost: dict[str, list[float]] = {name: [] for name in FAULTS}
    again = 0
    with _stage() as stage:
        for _ in range(rounds):
            for name, (fault, is_whole) in FAULTS.items():
                gap, steps_lost = _episode(stage, fault, whole=is_whole)
                lost[name].append(gap)
                again += steps_lost if name == "notice" else 0
    load = f"load {os.getloadavg()[0]:.1f}"
    found = []
    for name, beside in (("lost", "lost, whole"), ("failed", "failed, whole"), ("notice", "notice, whole")):
        note = f"Holdfast {_list(lost[name])}; the whole deleted and created anew {_list(lost[beside])}; {load}"
        found.append(Measured(f"several-switch-{name}", median(lost[name]), median(lost[beside]), note=note))
    return [*found, Measured("several-switch-again", again, note=f"of {rounds} notices")]


def _list(seconds: list[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in seconds) + " s"


@contextmanager
def _stage() -> Iterator[_Stage]:
    nodes = tuple(
        NodeSpec(name=f"n{number}", labels={names.LABEL_TIER: "spot"}, capacity=Capacity(accelerators={GPU: 1}))
        for number in range(NODES + SPARE)
    )
    tier = {
        "name": "spot", "kind": "Spot", "accelerator": GPU, "nodeSelector": {names.LABEL_TIER: "spot"},
        "acquireTimeout": "120s",
    }  # fmt: skip
    with running_cluster(nodes=nodes) as cluster:
        cluster.install()
        times = cluster.root / "step-times"
        times.touch()
        environment = {"PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1", FILE: str(times)}
        trainer = {
            "nodes": NODES,
            "acceleratorsPerNode": 1,
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        }
        with OperatorProcess(cluster, log_level="INFO"), fresh_namespace(cluster, "bench") as namespace:
            job = submit(
                cluster, namespace, [tier], COMMAND, trainer=trainer, goal={"steps": 1_000_000},
                failure={"maxFailures": 50}, checkpoint={"every": "20 steps", "gracePeriod": "30s"},
            )  # fmt: skip
            yield _Stage(cluster, job, times)


def _episode(stage: _Stage, fault: Callable[[_Stage], None], *, whole: bool) -> tuple[float, int]:
    """Seconds between the last step before the fault's restart and the first one after it, and steps done twice."""
    job = stage.job
    saved = (job.status().get("checkpoint") or {}).get("step", 0) if job.exists() else 0
    before = job.wait_checkpoint(saved + 20, timeout=GIVES_UP)
    number, began = before["current"]["number"], time()
    fault(stage)
    if whole:
        _delete_whole(stage)
    after = job.wait(
        "the next attempt's first step",
        lambda s: (s.get("current") or {}).get("number", 0) > number and s["current"].get("firstStep"),
        GIVES_UP,
    )
    _mend(stage)
    steps = [at for at in stage.done() if at > began - 5]
    gaps = [later - earlier for earlier, later in pairwise(steps) if later > began]
    record = next((one for one in after["history"] if one["number"] == number), {})
    return max(gaps), int(record.get("stepsLost", 0))


def _crash(stage: _Stage) -> None:
    stage.gone.append(stage.node(VICTIM))
    stage.cluster.crash(stage.gone[-1])
    stage.cluster.kubectl("delete", "node", stage.gone[-1])


def _kill(stage: _Stage) -> None:
    """The program of one rank dies; its launcher and its pod live."""
    uid = stage.member(VICTIM)["metadata"]["uid"]
    program = [one for one in processes_of(uid) if "tests.bench.timed_trainer" in one.cmdline()]
    os.kill(max(program, key=lambda one: one.create_time()).pid, signal.SIGKILL)


def _notice(stage: _Stage) -> None:
    stage.gone.append(stage.node(VICTIM))
    stage.cluster.reclaim(stage.gone[-1], NOTICE)


def _delete_whole(stage: _Stage) -> None:
    """Delete all pods of the job that are there, with their grace."""
    pods = [pod["metadata"]["name"] for pod in stage.job.pods() if pod["status"].get("phase") in ("Pending", "Running")]
    stage.cluster.kubectl("delete", "pod", "--wait=false", "-n", stage.job.namespace, *pods)


def _mend(stage: _Stage) -> None:
    """Bring nodes back that were lost, empty."""
    while stage.gone:
        node = stage.gone.pop()
        wait_for(lambda node=node: not _is_up(stage, node), NOTICE.total_seconds() + 60, f"{node} to be gone")
        stage.cluster.restore(node)


def _is_up(stage: _Stage, node: str) -> bool:
    return node in stage.cluster.kubectl("get", "nodes", "-o", "name").replace("node/", "").split()


FAULTS |= {
    "lost": (_crash, False),
    "lost, whole": (_crash, True),
    "failed": (_kill, False),
    "failed, whole": (_kill, True),
    "notice": (_notice, False),
    "notice, whole": (_notice, True),
}
