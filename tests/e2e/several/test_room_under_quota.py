"""A training on several nodes in a namespace whose quota allows some of its pods."""

import pytest
from tests.support.cluster.local_cluster import apply, delete
from tests.support.cluster.training_jobs import Pool, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.training


def test_a_part_that_a_quota_does_not_complete_is_given_back(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if the pods that the quota allows keep their nodes for the tenant's acquireTimeout."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": {"pods": "1"}}}
    apply(cluster, quota, namespace=namespace)
    tier = pool.tier("spot", acquireTimeout="7d", observation="Billed")
    trainer = {"nodes": 2, "acceleratorsPerNode": 1}
    job = submit(cluster, namespace, [tier], ["sleep", "infinity"], "half", trainer=trainer)
    job.wait("that the part is given back", lambda status: (status.get("current") or {}).get("givenBack", 0) >= 1)
    status = job.wait("the quota's words", lambda status: "exceeded quota: team" in status["decision"]["message"])
    assert status["phase"] == "Acquiring"
    delete(cluster, "resourcequota/team", namespace)
    assert job.wait_phase("Running")["phase"] == "Running"
