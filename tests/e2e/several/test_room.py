"""Trainings on several nodes that want the same nodes: each has all of its nodes, or none."""

from typing import Any

import pytest
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.training_jobs import Job, Pool, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.training


def gang(cluster: Cluster, namespace: str, pool: Pool, name: str, timeout: str = "7d", **selector: str) -> Job:
    """A training on two nodes of a pool that has two; more labels may leave it fewer."""
    tier = pool.tier("spot", acquireTimeout=timeout, observation="Free")
    tier["nodeSelector"] |= selector
    trainer = {"nodes": 2, "acceleratorsPerNode": 1}
    return submit(cluster, namespace, [tier], ["sleep", "infinity"], name, trainer=trainer)


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((one for one in status.get("conditions") or () if one["type"] == kind), {})


def test_free_nodes_go_to_the_training_that_they_suffice_for(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if a training that can never be complete keeps nodes, or keeps others from theirs."""
    pinned = gang(cluster, namespace, pool, "pinned", **{"kubernetes.io/hostname": pool.node("spot-1")})
    status = pinned.wait("the condition", lambda status: condition(status, "NeverFits").get("status") == "True")
    assert "spot has 1" in condition(status, "NeverFits")["message"]
    first = gang(cluster, namespace, pool, "first")
    assert first.wait_phase("Running")["attempt"] == 1
    second = gang(cluster, namespace, pool, "second")
    status = second.wait("that it waits for room", lambda status: status.get("reason") == "WaitingForNodes")
    assert status["decision"]["message"] == "waits until 2 nodes of tier spot are free: 0 are"
    delete(cluster, "trainingjob/first", namespace)
    assert second.wait_phase("Running")["attempt"] == 1, "its pods were made once"
    assert pinned.pods() == []
    assert pinned.status()["attempt"] == 1


# Breaks if a training that lost a node for good keeps the others without end, and from a job that waits for them.
def test_nodes_of_a_training_that_its_tier_cannot_hold_any_more_go_to_another_job(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    first = gang(cluster, namespace, pool, "first", timeout="5s")
    first.wait_phase("Running")
    single = submit(
        cluster, namespace, [pool.tier("spot")], ["sleep", "infinity"], "single", trainer={"acceleratorsPerNode": 1}
    )
    cluster.crash(lost := pool.node("spot-2"))
    delete(cluster, f"node/{lost}")
    single.wait_phase("Running")
    status = first.wait("that it waits for room", lambda status: status.get("reason") == "WaitingForNodes")
    assert condition(status, "NeverFits")["status"] == "True"
    assert "spot has 1" in condition(status, "NeverFits")["message"]
    alive = {pod["spec"].get("nodeName") for pod in first.pods() if pod["status"]["phase"] == "Running"}
    assert alive <= {lost}, "nobody reports the end of a pod there"
