"""Edits of a job that the operator does not see in time, and edits that no attempt can run with."""

from typing import Any

import pytest
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.training_jobs import Job, Pool, Raw, restarts, slow_at_first, stub, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast_local.cluster import Cluster


def condition(status: Raw, kind: str) -> tuple[str, str] | None:
    """Status and reason of a condition, None if there is none."""
    found = (one for one in status["conditions"] if one["type"] == kind)
    return next(((one["status"], one["reason"]) for one in found), None)


def edit_unseen(operator: OperatorProcess, job: Job, trainer: dict[str, Any]) -> None:
    """Suspend, edit and resume while the operator sees nothing."""
    operator.pause()
    job.patch({"suspend": True, "trainer": trainer})
    job.patch({"suspend": False})
    operator.resume()


def test_another_program_replaces_the_one_that_runs_although_nobody_saw_the_suspension(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a program runs on that the spec does not name, until a loss that may come days later."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.05), goal={"steps": 120})
    job.wait_step(5)

    edit_unseen(operator, job, {"command": stub("--step-seconds", 0.01), "env": [{"name": "B"}, {"name": "A"}]})

    replaced = job.wait("attempt 2 to run", lambda s: (s.get("current") or {}).get("number") == 2)
    (left,) = replaced["history"]
    assert (left["kind"], left["reason"]) == ("Stopped", "SpecChanged")
    job.patch({"trainer": {"env": [{"name": "A"}, {"name": "B"}]}})  # the same program
    done = job.wait_phase("Completed", "Failed")
    assert (done["phase"], done["attempt"], restarts(done)) == ("Completed", 2, (0, 0, 0))
    assert done["history"][1]["resumedStep"] == left["lastStep"]


@pytest.mark.thorough
def test_fewer_nodes_replace_a_training_on_several_although_nobody_saw_the_suspension(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a training on two nodes is looked at as one on one node: its end is never seen, and is paid for."""
    trainer = {"nodes": 2, "resources": {"cpu": "100m", "memory": "256Mi"}}
    job = submit(cluster, namespace, [calm_pool.tier("spot")], ["sleep", "1000"], trainer=trainer)
    job.wait("both nodes to run", lambda s: s.get("phase") == "Running")

    edit_unseen(operator, job, {"nodes": 1, "command": ["true"]})

    done = job.wait_phase("Completed", "Failed")
    assert (done["phase"], done["attempt"]) == ("Completed", 2)
    assert [one["reason"] for one in done["history"]] == ["SpecChanged", "Completed"]


def test_an_edit_with_which_no_attempt_can_run_pauses_the_job_until_it_is_corrected(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if an accepted edit ends a training for good at its next loss, or if its correction does not help."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], slow_at_first(0.05), goal={"steps": 400},
                 checkpoint={"every": "10 steps"})  # fmt: skip
    job.wait_checkpoint()

    job.patch({"checkpoint": {"folder": "/tmp/outputs"}})

    pending = job.wait("the edit to be seen", lambda s: condition(s, "SettingsPending"))
    assert pending["phase"] == "Running"
    delete(cluster, "pod/job-1-0", namespace)  # stands for any loss

    paused = job.wait_phase("Suspended", "Failed", "Completed")
    assert (paused["phase"], paused["reason"]) == ("Suspended", "CheckpointNotFromFolder")
    assert condition(paused, "Misconfigured") == ("True", "CheckpointNotFromFolder")
    assert condition(paused, "SettingsPending") is None

    job.patch({"checkpoint": {"folder": None}})

    done = job.wait_phase("Completed", "Failed")
    assert done["phase"] == "Completed"
    assert condition(done, "Misconfigured") == ("False", "Corrected")
    assert done["history"][-1]["resumedStep"]


@pytest.mark.parametrize("goal", [160, 30])
def test_another_goal_counts_for_a_training_that_runs(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool, goal: int
) -> None:
    """Breaks if a job ends at the goal that it had before, which is final, or trains beyond a goal that is over."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], slow_at_first(0.1), goal={"steps": 100})
    job.wait_step(40)

    job.patch({"goal": {"steps": goal}})

    done = job.wait_phase("Completed", "Failed")
    left, last = done["history"]
    assert (left["kind"], left["reason"]) == ("Stopped", "SpecChanged")
    assert last["kind"] == "Completed"
    assert last["resumedStep"] == left["lastStep"] < 100
    assert done["progress"]["step"] == max(goal, left["lastStep"])
