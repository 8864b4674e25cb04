"""Nodes are taken away, with notice and without: the job goes on where it was."""

import json
from datetime import timedelta

import pytest
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.training_jobs import Pool, restarts, slow_at_first, stub, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster


def test_moves_to_the_other_spot_node_and_loses_no_step(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if the notice is not seen, the save is not awaited, or an older checkpoint is resumed from."""
    job = submit(cluster, namespace, [pool.tier("spot"), pool.tier("cpu")], slow_at_first(0.05))
    first = job.wait_step(30)["current"]["pods"][0]["node"]

    cluster.reclaim(first, timedelta(seconds=12))

    done = job.wait_phase("Completed")
    one, two = done["history"]
    assert (one["kind"], one["reason"]) == ("Interruption", "SpotInterruption")
    assert two["kind"] == "Completed"
    assert two["node"] != first
    assert two["resumedStep"] == one["lastStep"]
    assert one["stepsLost"] == 0
    assert restarts(done) == (1, 0, 0)
    assert "total 20100" in job.logs(two["number"]), "200 steps, each exactly once"


def test_dead_node_costs_only_what_was_not_saved(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if NotReady is not acted on, or the next attempt does not resume from the last commit."""
    job = submit(cluster, namespace, [pool.tier("spot"), pool.tier("cpu")], slow_at_first(0.05))
    job.wait_checkpoint(20)
    node = job.status()["node"]

    cluster.crash(node)

    done = job.wait_phase("Completed")
    lost, last = done["history"][0], done["history"][-1]
    assert (lost["kind"], lost["reason"], lost["estimated"]) == ("Interruption", "NodeSilent", True)
    assert last["node"] != node
    assert last["resumedStep"] >= 20
    assert last["resumedStep"] % 20 == 0, "it resumes from a checkpoint that was due every 20 steps"


def test_a_node_whose_hardware_breaks_is_left_with_a_save_and_not_used_again(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if the condition is not read, the pod does not save, or the next pod may use the node."""
    job = submit(cluster, namespace, [pool.tier("spot"), pool.tier("cpu")], slow_at_first(0.05))
    node = job.wait_step(30)["current"]["pods"][0]["node"]
    says = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error"}
    patch = json.dumps({"status": {"conditions": [says]}})
    cluster.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", patch)
    try:
        done = job.wait_phase("Completed")
    finally:
        says["status"] = "True"
        patch = json.dumps({"status": {"conditions": [says]}})
        cluster.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", patch)
    broken, last = done["history"][0], done["history"][-1]
    assert (broken["kind"], broken["reason"], broken["node"]) == ("Interruption", "NodeFaulty", node)
    assert broken["stepsLost"] == 0
    assert last["node"] != node


@pytest.mark.thorough
def test_a_pod_that_a_person_deletes_is_an_interruption(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if a trainer that saves on SIGTERM and exits with 0 counts as complete."""
    job = submit(cluster, namespace, [pool.tier("cpu")], stub("--step-seconds", 0.05))
    job.wait_step(20)
    delete(cluster, "pod/job-1-0", namespace)
    done = job.wait_phase("Completed")
    first = done["history"][0]
    assert first["kind"] == "Interruption"
    assert first["stepsLost"] == 0
    assert done["history"][-1]["kind"] == "Completed"


def test_image_without_the_library(cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool) -> None:
    """Breaks if a program that knows nothing of Holdfast is waited for, or its exit 0 after SIGTERM ends the job."""
    script = "trap 'exit 0' TERM; echo started; while [ ! -e /tmp/never ]; do sleep 0.1; done"
    job = submit(cluster, namespace, [pool.tier("spot"), pool.tier("cpu")], ["sh", "-c", script], goal={"steps": 1})
    job.wait_phase("Running")
    node = job.status()["node"]

    cluster.reclaim(node, timedelta(seconds=20))

    status = job.wait("the second attempt", lambda s: s["attempt"] == 2 and s["phase"] == "Running")
    assert (status["history"][0]["kind"], status["history"][0]["reason"]) == ("Interruption", "SpotInterruption")
    assert status["node"] != node


def test_silent_node_under_a_program_without_the_library_waits_for_the_old_pod(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if two writers could run at once: nothing fences this program."""
    script = "while [ ! -e /tmp/never ]; do sleep 0.1; done"
    job = submit(cluster, namespace, [pool.tier("spot"), pool.tier("cpu")], ["sh", "-c", script])
    job.wait_phase("Running")
    node = job.status()["node"]
    cluster.crash(node)
    waiting = job.wait_phase("Recovering")
    assert waiting["reason"] == "NodeSilent"
    assert "confirmed gone" in waiting["decision"]["message"]
    assert job.pod(2) is None
    delete(cluster, f"node/{node}")
    job.wait("the replacement", lambda s: s["attempt"] >= 2 and s["phase"] == "Running")


def test_silent_node_under_a_program_whose_folder_is_saved_is_left_at_once(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if a dead node waits for a person, although the program can write nothing but a folder of its pod."""
    script = "cat /outputs/said; echo attempt $HOLDFAST_ATTEMPT >> /outputs/said; while sleep 0.1; do :; done"
    trainer = {"volumes": [{"name": "outputs", "mountPath": "/outputs", "emptyDir": {}}]}
    tiers = [pool.tier("spot"), pool.tier("cpu")]
    job = submit(cluster, namespace, tiers, ["sh", "-c", script], trainer=trainer, checkpoint={"folder": "/outputs"})
    node = job.wait("a checkpoint", lambda s: s.get("checkpoint", {}).get("committedAt"), 60)["node"]
    cluster.crash(node)
    status = job.wait("the replacement", lambda s: s["attempt"] >= 2 and s["phase"] == "Running", 60)
    assert (status["history"][0]["kind"], status["history"][0]["reason"]) == ("Interruption", "NodeSilent")
    assert status["node"] != node
    wait_for(lambda: "attempt 1" in job.logs(status["attempt"]), 30, "the folder to be put back")


@pytest.mark.thorough
def test_torchrun_with_loader_workers_saves_on_a_notice(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if loader workers die of SIGTERM before the rank has saved, or torchrun's exit 1 counts as a failure."""
    command = [
        "torchrun", "--nproc-per-node=1", "-m", "tests.support.trainer.loader_trainer", "--steps", "100000",
    ]  # fmt: skip
    spec = {"trainer": {"command": command, "env": loader_environment()}, "checkpoint": {"gracePeriod": "30s"}}
    job = submit(cluster, namespace, [pool.tier("spot"), pool.tier("cpu")], command, **spec)
    node = job.wait_step(5, timeout=120)["node"]
    cluster.reclaim(node, timedelta(seconds=25))
    status = job.wait(
        "the next attempt's first step", lambda s: s["current"]["number"] == 2 and s["current"].get("firstStep"), 120
    )
    first = status["history"][0]
    assert (first["kind"], first["reason"], first["stepsLost"]) == ("Interruption", "SpotInterruption", 0)
    job.delete()


def loader_environment() -> list[dict[str, str]]:
    """Where the pod finds the trainer that stands among these tests."""
    from pathlib import Path

    return [{"name": "PYTHONPATH", "value": str(Path(__file__).parents[2])}, {"name": "OMP_NUM_THREADS", "value": "1"}]
