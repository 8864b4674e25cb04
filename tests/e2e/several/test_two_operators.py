"""Two operators, and a training on two nodes that loses one of them while the operator that leads hangs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cluster.gangs import Gang
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.small_gangs import COMMAND, environment, printed_by_rank_0
from tests.support.cluster.training_jobs import Pool, restarts, submit
from tests.support.free_ports import free_port
from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.service import service
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

STEPS = 300
LEASE = {"lease_duration": 4, "lease_renew": 1}


@pytest.mark.thorough
def test_a_node_is_lost_while_the_leader_hangs(
    cluster: Cluster, namespace: str, lone_operator: Callable[..., OperatorProcess], pool: Pool, tmp_path: Path
) -> None:
    """Breaks if the interruption waits for the leader that hangs, or if that one counts it or creates a pod once
    more."""
    port = free_port()
    leader, other = (lone_operator(progress_url=f"https://{cluster.address}:{port}", **LEASE) for _ in range(2))
    cluster.kubectl("cordon", pool.node("cpu-1"))
    tier = pool.tier("spot", acquireTimeout="2m", nodeSelector={"test/pool": pool.name})
    trainer = {"nodes": 2, "acceleratorsPerNode": 0, "resources": {"cpu": "100m", "memory": "512Mi"}}
    trainer |= {"warmStart": False, "env": environment(tmp_path / "done", STEPS)}
    with service(cluster.address, port, [leader.progress_port]):
        leader.start()
        other.start(wait=False)
        job = submit(cluster, namespace, [tier], COMMAND, trainer=trainer, goal={"steps": STEPS})
        gang = Gang(cluster, namespace, job.name, job.manifest)
        gang.wait_checkpoint(20, 90)
        kept, lost = gang.uid_of("job-1-0"), gang.node_of("job-1-1")
        leader.pause()
    with service(cluster.address, port, [other.progress_port]):
        try:
            (tmp_path / "fast").touch()
            cluster.crash(lost)
            delete(cluster, f"node/{lost}")
            other.wait_ready(30)
            wait_for(lambda: "job-2-1" in gang.by_name(), 30, "a pod in place of the one that is lost")
        finally:
            leader.resume()
        assert leader.wait(20) == 1
        assert "has the lease now" in leader.log_tail()
        status = gang.wait_completed(90)
    assert restarts(status) == (1, 0, 0)
    assert [(one["kind"], one["number"]) for one in status["history"]] == [("Interruption", 1), ("Completed", 2)]
    created = [write["requestObject"]["metadata"]["name"] for write in gang.writes() if write["verb"] == "create"]
    assert sorted(created) == ["job-1-0", "job-1-1", "job-2-1"]
    assert gang.uid_of("job-1-0") == kept
    assert f"total {STEPS * (STEPS + 1) // 2} " in printed_by_rank_0(gang)
