"""A rank that is slower than the other one, with DistributedDataParallel: it is said, and its node is left."""

import pytest
from tests.support.cluster.training_jobs import Job, Pool, restarts, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = [pytest.mark.training, pytest.mark.thorough]  # half a minute of training on two nodes

# The first pod of rank 1 is on a node whose data comes late.
PROGRAM = """
import os, time, torch, torch.distributed as dist
from holdfast_train import Run

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
pause = 0.3 if os.environ["HOLDFAST_POD_NAME"] == "job-1-1" else 0.02
with Run(model=model, optimizer=optimizer) as run:
    print("begins at", run.step, flush=True)
    for step in run.steps():
        time.sleep(pause)
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
"""


def test_the_node_of_a_slow_rank_is_left_without_a_lost_step(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if the time that a rank waits for the slow one counts as its own, or if all pods are made again."""
    tier = pool.tier("spot", acquireTimeout="60s", nodeSelector={"test/pool": pool.name})
    job = submit(
        cluster, namespace, [tier], ["torchrun", "--no-python", "python", "-c", PROGRAM],
        trainer={"nodes": 2, "acceleratorsPerNode": 1}, goal={"steps": 10_000_000},
        failure={"slowRanks": {"action": "Replace", "window": "1s"}},
    )  # fmt: skip
    slow = job.wait("a slow rank", lambda s: (s.get("current") or {}).get("slow"), 120)["current"]["slow"]
    assert [(one["rank"], one["pod"], one["node"]) for one in slow] == [(1, 1, node_of(job, "job-1-1"))]
    assert float(slow[0]["times"]) > 1.33
    status = job.wait(
        "a step on the new node", lambda s: s["current"]["number"] == 2 and "firstStep" in s["current"], 120
    )
    left = next(one for one in status["history"] if one["reason"] == "SlowRank")
    assert (left["kind"], left["rank"]) == ("Stopped", 1)
    assert restarts(status) == (0, 0, 0)
    assert status["current"]["resumedStep"] == left["lastStep"]
    assert {pod["metadata"]["name"] for pod in job.pods()} >= {"job-1-0", "job-2-1"}
    assert node_of(job, "job-2-1") != left["node"]
    wait_for(lambda: condition(job) == "False", 60, "no rank is slow")


def node_of(job: Job, pod: str) -> str:
    """The node of a pod."""
    return next(str(one["spec"]["nodeName"]) for one in job.pods() if one["metadata"]["name"] == pod)


def condition(job: Job) -> str:
    """Whether a rank is slow."""
    return next(str(one["status"]) for one in job.status()["conditions"] if one["type"] == "SlowRank")
