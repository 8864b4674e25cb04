"""The API server goes away and comes back."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster
Make = Callable[..., OperatorProcess]
OUTAGE = 12.0  # seconds: four leases


@pytest.mark.thorough
def test_the_operator_outlives_an_outage_of_the_api_server(cluster: Cluster, operators: Make, jobs: Any) -> None:
    """Breaks if an outage ends the operator, leaves a watch dead, or lets it write on an old lease."""
    operator = operators().start()
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    cluster.kill_component("kube-apiserver")
    try:
        wait_for(lambda: not operator.health()["leading"], 10, "the lease to run out")
        wait_for(lambda: operator.health()["leaseAgeSeconds"] > OUTAGE, OUTAGE + 10, "the outage to last")
        assert operator.returncode is None
    finally:
        cluster.start_component("kube-apiserver")
    operator.wait_ready(30)
    jobs.create("b", script="exit 0")
    wait_for(lambda: jobs.phase("b") == "Completed", 90, "the watches to see a new job")  # the scheduler watches too
    assert jobs.status()["attempt"] == 1
    assert operator.returncode is None
