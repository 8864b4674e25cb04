"""Trainings on several nodes: real torchrun and gloo, real pods and nodes, that fail, are lost and get notices."""

import re
from datetime import timedelta
from typing import Any

import pytest
from tests.support.cluster.local_cluster import delete, pod_log
from tests.support.cluster.training_jobs import Job, Pool, Raw, restarts, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.training

STEPS = 300
# All ranks add up a number in each step, so no step can be taken unless all of them take it.
PROGRAM = """
import os, time, torch, torch.distributed as dist
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), os.environ["HOLDFAST_ATTEMPT"]
counter = Counter()
with Run(counter=counter) as run:
    print(f"rank {rank} of {dist.get_world_size()} begins attempt {attempt} at {run.step} \\n", end="", flush=True)
    for step in run.steps():
        one = torch.ones(1)
        dist.all_reduce(one)
        counter.add(step)
        run.report(loss=1 / (step + 1))
        if os.environ["FAIL"] == f"{attempt} {rank} {step}":
            raise ValueError("this batch is bad")
        time.sleep(float(os.environ["PACE"]) if attempt == "1" else 0)
print(f"rank {rank} ended at {run.step}, total {counter.total} \\n", end="", flush=True)
dist.destroy_process_group()
"""
COMMAND = ["torchrun", "--no-python", "python", "-c", PROGRAM]
TOTAL = STEPS * (STEPS + 1) // 2


def gang(cluster: Cluster, namespace: str, pool: Pool, *, pace: float, fail: str = "") -> Job:
    """A job on two of the pool's three nodes with an accelerator."""
    tier = pool.tier("spot", acquireTimeout="60s", nodeSelector={"test/pool": pool.name})
    trainer = {
        "nodes": 2,
        "acceleratorsPerNode": 1,
        "env": [{"name": "PACE", "value": str(pace)}, {"name": "FAIL", "value": fail}],
    }
    return submit(cluster, namespace, [tier], COMMAND, trainer=trainer, goal={"steps": STEPS})


def members(job: Job) -> dict[str, Raw]:
    """The pods by name."""
    return {pod["metadata"]["name"]: pod for pod in job.pods()}


def node_of(job: Job, pod: str) -> str:
    """The node of a pod."""
    return str(members(job)[pod]["spec"]["nodeName"])


def printed(job: Job, pod: str) -> str:
    """What the programs of a pod printed, of all attempts."""
    return pod_log(job.cluster, pod, job.namespace)


def completed(job: Job, timeout: float = 150) -> dict[str, Any]:
    """The status of the job once it is complete, and all programs have counted every step."""
    status = job.wait_phase("Completed", "Failed", timeout=timeout)
    assert status["phase"] == "Completed", [(one["rank"], one["reason"], one["message"]) for one in status["history"]]
    return status


@pytest.mark.thorough
def test_a_program_that_fails_is_started_again_on_all_nodes_in_their_pods(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if pods are made again, if a rank that lost its peer is blamed, or if steps are lost or doubled."""
    job = gang(cluster, namespace, pool, pace=0.01, fail="1 1 50")
    status = completed(job)
    assert restarts(status) == (0, 0, 1)
    assert sorted(members(job)) == ["job-1-0", "job-1-1"]
    first, last = status["history"]
    assert (first["kind"], first["reason"], first["rank"]) == ("Failure", "UserException", 1)
    assert "this batch is bad" in first["message"]
    assert first["node"] == node_of(job, "job-1-1")
    assert last["kind"] == "Completed"
    for rank in range(2):
        text = printed(job, f"job-1-{rank}")
        assert f"rank {rank} of 2 begins attempt 1 at 0 " in text
        assert re.search(rf"rank {rank} of 2 begins attempt 2 at (20|40) ", text), text
        assert f"rank {rank} ended at {STEPS}, total {TOTAL} " in text


def test_a_lost_node_costs_one_new_pod(cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool) -> None:
    """Breaks if the survivor's pod is made again, or if the interruption counts as a failure or twice."""
    job = gang(cluster, namespace, pool, pace=0.1)
    job.wait_checkpoint(20, 120)
    lost = node_of(job, "job-1-1")
    cluster.crash(lost)
    delete(cluster, f"node/{lost}")
    status = completed(job)
    assert restarts(status)[0] == 1
    assert restarts(status)[2] == 0
    assert {"job-1-0", "job-2-1"} <= members(job).keys()
    assert "job-2-0" not in members(job)
    assert status["history"][0]["rank"] == 1
    assert f"rank 0 ended at {STEPS}, total {TOTAL} " in printed(job, "job-1-0")


@pytest.mark.thorough
def test_a_notice_for_one_node_costs_one_new_pod_and_no_step(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if all pods move, if steps are trained twice, or if the new pod comes up only after the save."""
    job = gang(cluster, namespace, pool, pace=0.1)
    job.wait_checkpoint(20, 120)
    cluster.reclaim(node_of(job, "job-1-1"), timedelta(seconds=60))
    wait_for(lambda: "job-2-1" in members(job), 30, "the pod beside the others")
    status = completed(job)
    assert restarts(status) == (1, 0, 0)
    assert sorted(name for name in members(job) if name != "job-1-1") == ["job-1-0", "job-2-1"]
    interruption = status["history"][0]
    assert (interruption["kind"], interruption["reason"], interruption["rank"]) == (
        "Interruption",
        "SpotInterruption",
        1,
    )
    assert interruption.get("stepsLost", 0) == 0
    assert f"rank 0 ended at {STEPS}, total {TOTAL} " in printed(job, "job-1-0")


@pytest.mark.thorough
def test_a_suspended_training_gives_all_nodes_back(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    job = gang(cluster, namespace, pool, pace=0.1)
    job.wait_step(5, 120)
    job.patch({"suspend": True})
    job.wait_phase("Suspended")
    wait_for(lambda: [pod["status"]["phase"] for pod in job.pods()] == ["Succeeded"] * 2, 60, "all pods to end")
    assert all(f"rank {rank} of 2 begins attempt 1 at 0 " in printed(job, f"job-1-{rank}") for rank in range(2))
    saved = job.status()["checkpoint"]["step"]
    job.patch({"suspend": False})
    status = completed(job)
    assert restarts(status) == (0, 0, 0), status["history"]
    (again,) = [pod for pod in members(job) if pod.endswith("-0") and pod != "job-1-0"]
    assert f"begins attempt {again.split('-')[1]} at {saved} " in printed(job, again)
    labels = [pod["metadata"]["labels"] for pod in job.pods()]
    assert all(names.LABEL_RANK in one for one in labels)
