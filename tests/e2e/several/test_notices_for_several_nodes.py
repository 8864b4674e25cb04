"""Notices for half of the nodes, for a training whose new pod is lost, and where the tier has no other node."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.e2e.several.test_several_interruptions import assert_counted_every_step, six, take
from tests.e2e.test_successors import on_tier
from tests.support.cluster.gangs import Gang, train
from tests.support.cluster.training_jobs import Pool, Raw, restarts
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

__all__ = ["six"]

pytestmark = pytest.mark.training

NOTICE = timedelta(seconds=120)


def new_pods(job: Gang) -> dict[str, str]:
    """By rank, the newest pod that is not of the first attempt and that has a node."""
    pods = sorted(job.by_name().items())
    return {name[-1]: name for name, pod in pods if not name.startswith("job-1-") and pod["spec"].get("nodeName")}


@pytest.mark.thorough
def test_notices_for_half_of_four_and_a_new_pod_is_lost_while_they_train(
    cluster: Cluster, namespace: str, operator: OperatorProcess, six: Raw, tmp_path: Path
) -> None:
    """Breaks if the others stop before all new pods are there, if they leave their pods, or if a step is lost."""
    job = train(cluster, namespace, six, tmp_path, 4)
    job.wait_checkpoint(20, 200)
    for rank in (1, 3):
        cluster.reclaim(job.node_of(f"job-1-{rank}"), NOTICE)
    pods = wait_for(lambda: found if len(found := new_pods(job)) == 2 else None, 60, "a new pod for each of two nodes")
    assert pods is not None
    assert set(pods) == {"1", "3"}
    node = job.node_of(pods["3"])
    take(cluster, node)
    # The node comes back only after the operator saw it gone: the end of a pod on a node that is back is ContainerLost.
    job.wait("its new pod is lost", lambda status: bool(status.get("history")), 60)
    cluster.restore(node)
    cluster.kubectl("label", "node", node, f"test/gang={six['nodeSelector']['test/gang']}")

    status = job.wait_attempt(2, 200)
    new, interruption = status["history"][:2]
    assert (new["reason"], new["rank"], new["stepsTrained"]) == ("NodeGone", 3, 0)
    assert (interruption["kind"], interruption["reason"], interruption.get("stepsLost", 0)) == (
        "Interruption",
        "SpotInterruption",
        0,
    )
    assert restarts(status) == (2, 0, 0), status["history"]
    kept = {name[-1]: name for name in job.alive()}
    assert (kept["0"], kept["2"]) == ("job-1-0", "job-1-2")
    assert len(kept) == len(job.alive()) == 4
    assert not {kept["1"], kept["3"]} & {"job-1-1", "job-1-3"}
    job.hurry()
    job.wait_completed()
    assert_counted_every_step(job, *(kept[rank] for rank in "0123"))


@pytest.mark.thorough
def test_without_another_node_a_noticed_training_goes_to_the_next_tier_while_it_trains(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pools: Callable[[], Pool], tmp_path: Path
) -> None:
    """Breaks if it stands still until the next tier has all nodes, or if the nodes of both tiers are mixed."""
    pool, other = pools(), pools()
    cluster.kubectl("cordon", pool.node("dedicated-1"))
    better = pool.tier("spot", nodeSelector={"test/pool": pool.name}, acquireTimeout="5s")
    tiers = [better, {**other.tier("spot"), "name": "dedicated", "kind": "Dedicated"}]
    job = train(cluster, namespace, better, tmp_path, 2, capacity={"tiers": tiers})
    job.wait_checkpoint(20, 150)
    cluster.reclaim(job.node_of("job-1-1"), NOTICE)

    status = job.wait("training on the next tier", on_tier("dedicated"), 150)
    interruption = status["history"][0]
    assert (interruption["kind"], interruption["reason"], interruption.get("stepsLost", 0)) == (
        "Interruption",
        "SpotInterruption",
        0,
    )
    current = status["current"]
    assert current["resumedStep"] == interruption["lastStep"]
    assert current["scheduledAt"] < interruption["lastStepAt"], "it had its nodes while the other one trained"
    used = {job.node_of(f"job-{current['number']}-{rank}") for rank in range(2)}
    assert used == {other.node("spot-1"), other.node("spot-2")}
    job.hurry()
    status = job.wait_completed()
    assert restarts(status) == (1, 0, 0)
    assert_counted_every_step(job, *(f"job-{current['number']}-{rank}" for rank in range(2)))
