"""Two operators: one acts. Each test says how the leadership moves."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.cluster.local_cluster import get
from tests.support.operator.operator_process import NAMESPACE, OperatorProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.cluster
Make = Callable[..., OperatorProcess]


def pair(operators: Make) -> tuple[OperatorProcess, OperatorProcess]:
    leader = operators().start()
    follower = operators().start(wait=False)
    wait_for(follower.health, 60, "the follower to answer")
    return leader, follower


def test_one_acts_and_a_clean_exit_hands_over_at_once(operators: Make, jobs: Any) -> None:
    """Breaks if the lease is not released: then every roll-out is a gap of the lease's duration."""
    leader, follower = pair(operators)
    assert follower.get("/healthz")[0] == 200
    wait_for(lambda: follower.get("/readyz")[0] == 200, 20, "the follower to be ready")
    assert not follower.health()["leading"]
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    assert follower.metric("holdfast_reconcile_total") == 0
    assert leader.stop() == 0
    follower.wait_ready(3)
    jobs.create("b", script="exit 0")
    wait_for(lambda: jobs.phase("b") == "Completed", 20, "the successor to act")
    assert jobs.status()["attempt"] == 1


def test_a_killed_leader_is_replaced_when_its_lease_is_over(operators: Make, jobs: Any) -> None:
    """Breaks if a crash leaves the cluster without an operator."""
    leader, follower = pair(operators)
    holder = get(jobs.cluster, "lease/holdfast", NAMESPACE)["spec"]["holderIdentity"]
    leader.kill()
    jobs.create(script="exit 0")
    wait_for(lambda: jobs.phase() == "Completed", 20, "the successor to act")
    spec = get(jobs.cluster, "lease/holdfast", NAMESPACE)["spec"]
    assert spec["holderIdentity"] != holder
    assert follower.health()["leading"]


def test_a_leader_that_was_frozen_ends_without_writing(operators: Make, jobs: Any) -> None:
    """Breaks if a leader that slept through its lease acts beside its successor."""
    leader, follower = pair(operators)
    leader.pause()
    try:
        follower.wait_ready(20)
        jobs.create()
        wait_for(lambda: jobs.phase() == "Running", 20, "the successor to act")
    finally:
        leader.resume()
    assert leader.wait(20) == 1
    assert "has the lease now" in leader.log_tail()
    assert jobs.status()["attempt"] == 1
    assert list(jobs.pods()) == ["a-1-0"]
