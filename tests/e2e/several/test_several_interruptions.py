"""Trainings on several nodes that lose more than one, or before they train: real torchrun and gloo, real pods."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.e2e.test_quotas import set_quota
from tests.support.cluster.gangs import STEPS, TOTAL, Gang, train
from tests.support.cluster.local_cluster import delete, get
from tests.support.cluster.training_jobs import GPU, Pool, Raw, exit_code, restarts
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.training

NOTICE = timedelta(seconds=90)


@pytest.fixture
def six(cluster: Cluster, pools: Callable[[], Pool]) -> Raw:
    """A tier of six nodes with an accelerator each."""
    two = [pools(), pools()]
    nodes = [pool.node(kind) for pool in two for kind in ("spot-1", "spot-2", "dedicated-1")]
    cluster.kubectl("label", "node", *nodes, f"test/gang={two[0].name}")
    return {
        "name": "spot",
        "kind": "Spot",
        "accelerator": GPU,
        "acquireTimeout": "60s",
        "nodeSelector": {"test/gang": two[0].name},
    }


def take(cluster: Cluster, node: str) -> None:
    """Take a node away without a notice."""
    cluster.crash(node)
    delete(cluster, f"node/{node}")


def assert_counted_every_step(job: Gang, *pods: str) -> None:
    """Each of these pods, in the order of ranks, ended at the last step, having counted each step once."""
    assert set(pods) <= job.by_name().keys(), [(s["kind"], s["number"]) for s in job.status()["history"]]
    for rank, pod in enumerate(pods):
        assert f"rank {rank} ended at {STEPS}, total {TOTAL} " in job.printed(pod)


@pytest.mark.thorough
def test_notices_for_two_of_three_then_rank_0_is_lost_then_a_member_is_out_of_memory(
    cluster: Cluster, namespace: str, operator: OperatorProcess, six: Raw, tmp_path: Path
) -> None:
    """Breaks if two notices cost two interruptions or a step, or if rank 0 or its address cannot be replaced."""
    job = train(cluster, namespace, six, tmp_path, 3)
    job.wait_checkpoint(20, 150)
    for rank in (1, 2):
        cluster.reclaim(job.node_of(f"job-1-{rank}"), NOTICE)
    status = job.wait_attempt(2)
    assert status["attempt"] == 2
    assert restarts(status) == (1, 0, 0)
    assert {"job-1-0", "job-2-1", "job-2-2"} <= set(job.alive())
    assert (status["history"][0]["reason"], status["history"][0].get("stepsLost", 0)) == ("SpotInterruption", 0)

    take(cluster, job.node_of("job-1-0"))
    status = job.wait_attempt(3)
    assert (restarts(status)[0], restarts(status)[2]) == (2, 0)
    assert {"job-2-1", "job-2-2", "job-3-0"} <= set(job.alive())
    assert status["history"][1]["rank"] == 0

    job.hog(1, 3)
    status = job.wait_attempt(4)
    assert (restarts(status)[0], restarts(status)[2]) == (2, 1)
    failed = status["history"][2]
    assert (failed["kind"], failed["reason"], failed["rank"]) == ("Failure", "OutOfMemory", 1)
    assert job.alive() == ["job-2-2", "job-3-0", "job-4-1"]
    job.hurry()
    job.wait_completed()
    assert_counted_every_step(job, "job-3-0", "job-4-1", "job-2-2")


@pytest.mark.thorough
def test_notices_for_all_and_a_new_pod_is_lost_before_it_trains(
    cluster: Cluster, namespace: str, operator: OperatorProcess, six: Raw, tmp_path: Path
) -> None:
    """Breaks if the job waits for a pod that is lost, leaves the others without a pod, or counts two interruptions."""
    job = train(cluster, namespace, six, tmp_path, 2)
    job.wait_checkpoint(20, 150)
    for rank in (0, 1):
        cluster.reclaim(job.node_of(f"job-1-{rank}"), NOTICE)
    new = wait_for(
        lambda: next((n for n, p in job.by_name().items() if n != "job-1-1" and n[-1] == "1" and on_node(p)), None),
        60,
        "a new pod of rank 1 on a node",
    )
    take(cluster, job.node_of(new))
    job.wait_attempt(2, 150)
    job.hurry()
    status = job.wait_completed()
    assert restarts(status)[2] == 0
    assert sum(restarts(status)) <= 2
    names = sorted(name for name, pod in job.by_name().items() if exit_code(pod) == 0)
    assert_counted_every_step(job, *sorted(names, key=lambda name: name[-1]))


def on_node(pod: Raw) -> bool:
    """True if the pod has a node."""
    return bool(pod["spec"].get("nodeName"))


@pytest.mark.thorough
def test_a_quota_for_one_pod_then_a_short_silence_then_another_number_of_nodes_while_suspended(
    cluster: Cluster, namespace: str, operator: OperatorProcess, six: Raw, tmp_path: Path
) -> None:
    """Breaks if half of a training stays silent about its quota, or if a node that is only silent costs a restart."""
    set_quota(cluster, namespace, "team", {"pods": "1"})
    job = train(cluster, namespace, six, tmp_path, 2)
    said = job.wait("the quota's name", lambda s: "quota" in str(s.get("conditions")) + str(s.get("decision")), 60)
    assert said["phase"] not in ("Running", "Failed")
    set_quota(cluster, namespace, "team", {"pods": "9"})
    status = job.wait_checkpoint(20, 150)
    before = (status["attempt"], restarts(status), job.alive())

    node = job.node_of(job.alive()[1])
    cluster.silence(node)
    wait_for(lambda: ready(cluster, node) == "Unknown", 30, "the node to be NotReady")
    wait_for(lambda: "its node has been silent for" in members(job), 30, "the silence to be shown")
    job.wait_step(job.status()["progress"]["step"] + 60, 60)
    cluster.heal(node)
    wait_for(lambda: ready(cluster, node) == "True", 30, "the node to be Ready")
    status = job.wait_step(job.status()["progress"]["step"] + 20, 60)
    assert (status["attempt"], restarts(status), job.alive()) == before

    job.patch({"suspend": True})
    job.wait_phase("Suspended")
    wait_for(lambda: not job.alive(), 30, "all pods to end")
    job.patch({"suspend": False, "trainer": {"nodes": 3}})
    job.hurry()
    status = job.wait_completed()
    assert restarts(status) == before[1]
    last = status["history"][-1]["number"]
    assert_counted_every_step(job, *(f"job-{last}-{rank}" for rank in range(3)))


def members(job: Gang) -> str:
    """What `holdfast describe --members` shows."""
    command = [str(Path(sys.executable).with_name("holdfast")), "describe", job.name, "--members", "-n", job.namespace]
    command += ["--kubeconfig", str(job.cluster.admin_kubeconfig)]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout


def ready(cluster: Cluster, node: str) -> str:
    """The status of a node's condition Ready."""
    return next(str(c["status"]) for c in get(cluster, f"node/{node}")["status"]["conditions"] if c["type"] == "Ready")
