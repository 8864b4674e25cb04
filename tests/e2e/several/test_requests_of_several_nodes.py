"""Trainings on several nodes that do not get all of them, cannot start, or are suspended and deleted meanwhile."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.test_people import collector, commits, wait_gone
from tests.e2e.test_successors import on_tier
from tests.support.cluster.gangs import Gang, train
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.small_gangs import COMMAND, environment
from tests.support.cluster.training_jobs import Pool, Raw, restarts, storage_log, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

__all__ = ["collector"]

STEPS = 2000  # more than it takes in the test
WRONG_IMAGE = "holdfast.dev/unknown:1"
NOTICE = timedelta(seconds=30)


def tier(pool: Pool) -> Raw:
    """A tier of all nodes of the pool that are not cordoned."""
    return pool.tier("spot", acquireTimeout="3m", nodeSelector={"test/pool": pool.name})


def gang(
    cluster: Cluster,
    namespace: str,
    pool: Pool,
    folder: Path,
    *,
    name: str = "job",
    price: str = "0",
    every: str = "20 steps",
) -> Gang:
    """A small training on two nodes, which is slow."""
    trainer = {
        "nodes": 2,
        "acceleratorsPerNode": 1,
        "resources": {"cpu": "100m", "memory": "512Mi"},
        "env": environment(folder / name, STEPS),
    }
    tiers = [{**tier(pool), "pricePerNodeHour": price}]
    more = {"trainer": trainer, "goal": {"steps": STEPS}, "checkpoint": {"every": every}}
    job = submit(cluster, namespace, tiers, COMMAND, name, **more)
    return Gang(cluster, namespace, name, job.manifest)


def wait_for_a_part(job: Gang, number: int) -> Raw:
    """Until one of two pods of this attempt runs, and the other one has no node; returns the other one."""

    def other() -> Raw | None:
        pods = [pod for name, pod in job.by_name().items() if name.startswith(f"{job.name}-{number}-")]
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        return waiting[0] if len(waiting) == len(running) == 1 else None

    found = wait_for(other, 60, f"one of two pods of {job.name} to run")
    assert found is not None
    return found


@pytest.mark.thorough
@pytest.mark.usefixtures("collector")
def test_suspended_and_deleted_at_any_time_and_one_image_is_refused(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, tmp_path: Path
) -> None:
    """Breaks if a pod outlives the request, or if the refused image of one pod costs the pod that has started."""
    cluster.kubectl("cordon", pool.node("spot-2"), pool.node("dedicated-1"))
    job = gang(cluster, namespace, pool, tmp_path)
    wait_for_a_part(job, 1)
    job.patch({"suspend": True})
    status = job.wait_phase("Suspended")
    wait_for(lambda: not job.alive(), 30, "both pods to go")
    assert [(one["kind"], one["reason"]) for one in status["history"]] == [("Stopped", "Suspended")]

    job.patch({"suspend": False})
    again = job.wait("another attempt", lambda s: (s.get("current") or {}).get("number", 0) > 1)["attempt"]
    waits = wait_for_a_part(job, again)["metadata"]["name"]
    cluster.kubectl("set", "image", "pod", waits, "-n", namespace, f"trainer={WRONG_IMAGE}")
    (kept,) = [name for name in job.alive() if name != waits]
    cluster.kubectl("uncordon", pool.node("spot-2"), pool.node("dedicated-1"))
    status = job.wait_step(2, 90)
    interruption = status["history"][-1]
    assert (interruption["kind"], interruption["rank"]) == ("Interruption", int(waits[-1]))
    assert interruption["reason"] in ("ErrImagePull", "ImagePullBackOff")
    assert WRONG_IMAGE in interruption["message"]
    assert restarts(status) == (1, 1, 0)
    assert job.alive() == sorted([kept, f"job-{status['attempt']}-{waits[-1]}"])

    job.patch({"suspend": True})
    job.wait_phase("Suspended")
    wait_for(lambda: not job.alive(), 30, "both pods to end")
    job.delete()
    wait_gone(job)

    cluster.kubectl("cordon", pool.node("spot-2"), pool.node("dedicated-1"))
    other = gang(cluster, namespace, pool, tmp_path, name="other")
    wait_for_a_part(other, 1)
    other.delete()
    wait_gone(other)

    cluster.kubectl("uncordon", pool.node("spot-2"))
    third = gang(cluster, namespace, pool, tmp_path, name="third", every="1h")
    third.wait_step(5, 60)
    third.delete()
    wait_gone(third)
    saved = [one.commit.step for one in storage_log(cluster, f"{namespace}/third") if one.commit]
    assert len(saved) == 1
    assert saved[0] >= 5


def test_a_budget_and_a_deadline_stop_all_nodes_after_one_save(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, tmp_path: Path
) -> None:
    """Breaks if one of the nodes is paid for after the limit, or if the steps until then are lost."""
    job = gang(cluster, namespace, pool, tmp_path, price="3600", every="1h")
    job.wait_step(5, 90)
    job.patch({"capacity": {"budget": "1"}})
    status = job.wait_phase("Suspended")
    assert status["reason"] == "BudgetExceeded"
    wait_for(lambda: not job.alive(), 30, "both pods to end")
    assert commits(cluster, namespace) == [status["history"][0]["lastStep"]]

    job.patch({"capacity": {"budget": "100000"}})
    status = job.wait_step(status["history"][0]["lastStep"] + 5, 90)
    assert restarts(status) == (0, 0, 0)
    started = {"status": {"startedAt": f"{datetime.now(UTC) - timedelta(minutes=2):%Y-%m-%dT%H:%M:%SZ}"}}
    patch = ["--subresource=status", "--type=merge", "-p", json.dumps(started)]
    cluster.kubectl("patch", "tj", "job", "-n", namespace, *patch)
    job.patch({"activeDeadline": "1m"})
    status = job.wait_phase("Failed", "Completed")
    assert status["reason"] == "DeadlineExceeded"
    over = ("Succeeded", "Failed")
    wait_for(lambda: all(pod["status"]["phase"] in over for pod in job.pods()), 60, "both pods to save and go")
    first, second = commits(cluster, namespace)
    assert second >= first + 5


@pytest.mark.thorough
@pytest.mark.training
def test_without_a_new_node_all_go_to_the_next_tier_and_back_once_all_nodes_are_there(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pools: Callable[[], Pool], tmp_path: Path
) -> None:
    """Breaks if the others wait for ever for a node, or if the training leaves before the better tier has all nodes."""
    better, other = pools(), pools()
    tiers = [better.tier("spot"), {**other.tier("spot"), "name": "dedicated", "kind": "Dedicated"}]
    job = train(cluster, namespace, tiers[0], tmp_path, 2, capacity={"tiers": tiers, "returnPolicy": "Eager"})
    job.wait_checkpoint(20, 120)
    lost = job.node_of("job-1-1")
    cluster.crash(lost)
    delete(cluster, f"node/{lost}")

    status = job.wait("training on the next tier", on_tier("dedicated"), 90)
    number = status["current"]["number"]
    used = {f"job-{number}-{rank}": job.node_of(f"job-{number}-{rank}") for rank in range(2)}
    assert set(used.values()) == {other.node("spot-1"), other.node("spot-2")}
    assert (status["history"][0]["kind"], status["history"][0]["rank"]) == ("Interruption", 1)
    assert restarts(status)[0] == 1
    job.wait("a successor that waits", lambda s: (s.get("successor") or {}).get("tier", {}).get("name") == "spot", 30)

    cluster.restore(lost)

    status = job.wait("training on the better tier", on_tier("spot"), 90)
    number = status["current"]["number"]
    used = {f"job-{number}-{rank}": job.node_of(f"job-{number}-{rank}") for rank in range(2)}
    assert set(used.values()) == {better.node("spot-1"), better.node("spot-2")}
    returned = next(one for one in status["history"] if one["reason"] == "Returning")
    assert (returned["tier"], returned["kind"], returned.get("stepsLost", 0)) == ("dedicated", "Stopped", 0)
    assert status["current"]["resumedStep"] == returned["lastStep"]
    job.hurry()
    assert restarts(job.wait_completed())[0] == 1


FAILS = """
if [ "$RANK" = 1 ]; then echo "rank 1 has no data" >&2; exit 3; fi
exec sleep 600
"""


@pytest.mark.thorough
def test_restarts_without_a_step_leave_a_node_then_start_anew_and_then_end_the_job(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if a broken node, or what is broken in a pod, is kept, or if the job does not say why it failed."""
    trainer = {"nodes": 2, "acceleratorsPerNode": 1, "resources": {"cpu": "100m", "memory": "512Mi"}}
    limits = {"maxFailures": 20, "maxFruitless": 4}
    job = submit(cluster, namespace, [tier(pool)], ["sh", "-c", FAILS], trainer=trainer, failure=limits)
    status = job.wait_phase("Failed", "Completed", timeout=150)
    history = status["history"]
    assert [(one["kind"], one["rank"]) for one in history] == [("Failure", 1)] * 4
    assert history[0]["node"] == history[1]["node"] != history[2]["node"]
    created = [write["requestObject"]["metadata"]["name"] for write in job.writes() if write["verb"] == "create"]
    assert sorted(created) == ["job-1-0", "job-1-1", "job-3-1", "job-4-0", "job-4-1"]
    said = next(one["message"] for one in status["conditions"] if one["type"] == "Failed")
    for words in ("4 attempts in a row made no progress", "(rank 1)", history[3]["node"], "rank 1 has no data"):
        assert words in said
    wait_for(lambda: not any(pod["metadata"].get("finalizers") for pod in job.pods()), 30, "all pods to be released")


@pytest.mark.thorough
@pytest.mark.training
def test_the_last_save_before_a_node_goes_fits_into_a_notice_of_30_seconds(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, tmp_path: Path
) -> None:
    """Breaks if the training waits for a node that does not come, or if one rank leaves before all have saved."""
    cluster.kubectl("cordon", pool.node("dedicated-1"))
    job = train(cluster, namespace, tier(pool), tmp_path, 2, checkpoint={"every": "1h"})
    job.wait_step(20, 120)
    assert not commits(cluster, namespace)
    goes_at = datetime.now(UTC) + NOTICE
    cluster.reclaim(job.node_of("job-1-1"), NOTICE)
    status = job.wait("the end of the attempt", lambda s: s.get("history"), 60)
    (interruption,) = status["history"]
    assert (interruption["kind"], interruption["reason"], interruption["rank"]) == (
        "Interruption",
        "SpotInterruption",
        1,
    )
    assert interruption.get("stepsLost", 0) == 0
    assert commits(cluster, namespace) == [interruption["lastStep"]]
    assert datetime.fromisoformat(status["checkpoint"]["committedAt"]) < goes_at

    cluster.kubectl("uncordon", pool.node("dedicated-1"))
    job.hurry()
    status = job.wait_completed()
    assert status["history"][1]["resumedStep"] == interruption["lastStep"]
    assert restarts(status) == (1, 0, 0)
