"""One of four nodes is lost, fails, or gets a notice, with real training: time without a step.

Beside each, in the same job: the whole is deleted and created again after the same fault, as a controller does that
knows no single members. The program is the language model on gloo; each rank is a process of its own. Each fault comes
when every pod has a process that waits for the next attempt; once these processes are killed just before the fault.
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

import psutil
from tests.bench.goals import Measured
from tests.bench.timed_trainer import FILE, SAYS
from tests.support.cluster.local_cluster import fresh_namespace, running_cluster
from tests.support.cluster.training_jobs import GPU, Job, Raw, processes_of, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_local.agent.config import Capacity, NodeSpec
from holdfast_local.cluster import Cluster
from holdfast_protocol.endpoint import WAIT_SECONDS
from holdfast_train.pod.launcher.member_call import CALL_SECONDS

NODES = 4
SPARE = 4  # as many as a successor of the whole needs
NOTICE = timedelta(seconds=60)
VICTIM = 2  # the rank that is hit
GIVES_UP = 240  # seconds
COMMAND = ["python", "-m", "tests.bench.timed_trainer", "--batch", "4", "--context", "64", "--show-every", "1000000"]


@dataclass
class _Stage:
    """One job on four nodes, and the file with the times of its steps.

    `alone`: seconds from the creation of a job with one node to its first step, before this job was there.
    """

    cluster: Cluster
    job: Job
    times: Path
    alone: float
    gone: list[str] = field(default_factory=list)

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
        alone = stage.alone
        for _ in range(rounds):
            for name, (fault, is_whole) in FAULTS.items():
                gap, steps_lost = _episode(stage, fault, whole=is_whole)
                lost[name].append(gap)
                again += steps_lost if name == "notice" else 0
    load = f"load {os.getloadavg()[0]:.1f}"
    found = []
    for name, beside in (("lost", "lost, whole"), ("failed", "failed, whole"), ("notice", "notice, whole")):
        note = f"Holdfast {_list(lost[name])}; the whole deleted and created again {_list(lost[beside])}; {load}"
        if name == "failed":
            note += f"; without a process that waits {_list(lost['failed, cold'])}"
        else:
            note += f"; {_bound(name, alone, median(lost['failed']), median(lost[beside]))}"
        found.append(Measured(f"several-switch-{name}", median(lost[name]), median(lost[beside]), note=note))
    own = Measured("several-switch-own", median(lost["lost"]) / alone, note=f"one pod alone {alone:.2f} s")
    return [found[0], own, *found[1:], Measured("several-switch-again", again, note=f"of {rounds} notices")]


def _bound(name: str, alone: float, restart: float, whole: float) -> str:
    """What the time consists of: a new pod has to start, and after a save the programs restart."""
    if name == "lost":
        return f"from its creation to its first step, a pod of this program alone needs {alone:.2f} s"
    return (
        f"the restart after the save needs {restart:.2f} s, as after a program that died, so at best it is "
        f"{whole / restart:.1f} times less here, where all pods share the cores"
    )


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
            "acceleratorsPerNode": 1,
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        }
        with OperatorProcess(cluster, log_level="INFO"), fresh_namespace(cluster, "bench") as namespace:
            alone = _start_alone(cluster, namespace, tier, trainer, times)
            job = submit(
                cluster, namespace, [tier], COMMAND, trainer=trainer | {"nodes": NODES}, goal={"steps": 1_000_000},
                failure={"maxFailures": 50}, checkpoint={"every": "20 steps", "gracePeriod": "30s"},
            )  # fmt: skip
            yield _Stage(cluster, job, times, alone)


def _start_alone(cluster: Cluster, namespace: str, tier: Raw, trainer: Raw, times: Path) -> float:
    """Seconds from the creation of a job with one pod of the same program to its first step. The job is gone then."""
    began = time()
    job = submit(cluster, namespace, [tier], COMMAND, name="alone", trainer=trainer, goal={"steps": 1_000_000})
    wait_for(lambda: steps_done(times), GIVES_UP, "the first step of one pod alone", every=0.1)
    cluster.kubectl("delete", "trainingjob", "-n", namespace, job.name)
    wait_for(lambda: not job.pods(), GIVES_UP, "its pod to be gone")
    found = steps_done(times)[0] - began
    times.write_text("")
    return found


def steps_done(times: Path) -> list[float]:
    """When each step was done, by all attempts, in seconds since 1970."""
    lines = [line.split() for line in times.read_text(encoding="utf-8").splitlines()]
    return [float(words[2]) for words in lines if len(words) == 3 and words[0] == SAYS]


def _episode(stage: _Stage, fault: Callable[[_Stage], None], *, whole: bool) -> tuple[float, int]:
    """Seconds between the last step before the fault's restart and the first one after it, and steps done twice."""
    job = stage.job
    saved = (job.status().get("checkpoint") or {}).get("step", 0) if job.exists() else 0
    job.wait_checkpoint(saved + 20, timeout=GIVES_UP)
    wait_for(lambda: all(_has_spare(stage, rank) for rank in range(NODES)), GIVES_UP, "processes that wait", every=1)
    if fault is _notice:  # a launcher tells what another pod can import with its next call
        ready = time()
        wait_for(lambda: time() > ready + WAIT_SECONDS + CALL_SECONDS, 2 * GIVES_UP, "the next calls", every=1)
    number, began = job.status()["current"]["number"], time()
    fault(stage)
    if whole:
        _delete_whole(stage)
    after = job.wait(
        "the next attempt's first step",
        lambda s: (s.get("current") or {}).get("number", 0) > number and s["current"].get("firstStep"),
        GIVES_UP,
    )
    _mend(stage)
    steps = [at for at in steps_done(stage.times) if at > began - 5]
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
    program = [one for one in processes_of(uid) if "tests.bench.timed_trainer" in one.cmdline() and not _waits(one)]
    os.kill(max(program, key=lambda one: one.create_time()).pid, signal.SIGKILL)


def _waits(process: psutil.Process) -> bool:
    """True if the process waits for the next attempt: the kernel ends it first."""
    return Path(f"/proc/{process.pid}/oom_score_adj").read_text(encoding="ascii").strip() == "1000"


def _has_spare(stage: _Stage, rank: int) -> bool:
    """True if the launcher of a rank has said, in its newest attempt, that a process waits."""
    pod = stage.member(rank)["metadata"]["name"]
    log = stage.cluster.kubectl("logs", "-n", stage.job.namespace, pod, "-c", "trainer")
    return log.rfind("wait for the next attempt") > log.rfind(f" starts: node {rank} of ") >= 0


def _kill_cold(stage: _Stage) -> None:
    """The same, but no process waits."""
    for rank in range(NODES):
        for process in processes_of(stage.member(rank)["metadata"]["uid"]):
            if _waits(process):
                process.kill()
    _kill(stage)


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
    "failed, cold": (_kill_cold, False),
    "failed, whole": (_kill, True),
    "notice": (_notice, False),
    "notice, whole": (_notice, True),
}
