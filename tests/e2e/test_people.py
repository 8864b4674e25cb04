"""What people do to a job while it lives: suspend, edit, ask, delete, set limits."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.cluster.local_cluster import apply, delete, exists, get
from tests.support.cluster.training_jobs import (
    Job,
    Pool,
    Raw,
    exit_code,
    job_manifest,
    restarts,
    storage_log,
    stub,
    submit,
)
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_local.cluster import Cluster
from holdfast_local.errors import LocalError

STEPS = 120
TOTAL = f"total {STEPS * (STEPS + 1) // 2}"  # each step exactly once
NOWHERE = {"name": "nowhere", "kind": "CPU", "nodeSelector": {"test/none": "yes"}}


def conditions(status: Raw) -> dict[str, str]:
    """Status by type, where it is not False."""
    return {c["type"]: c["reason"] for c in status["conditions"] if c["status"] != "False"}


def commits(cluster: Cluster, namespace: str) -> list[int]:
    """The steps of all checkpoints that were committed, in order."""
    return [r.commit.step for r in storage_log(cluster, f"{namespace}/job") if r.commit is not None]


def wait_gone(job: Job) -> None:
    """Until neither job nor pod is there."""
    wait_for(lambda: not job.exists() and not job.pods(), 40, "job and pods to be gone")


@pytest.fixture
def collector(cluster: Cluster, namespace: str) -> None:
    """The garbage collector knows the kind of jobs: it looks for new kinds only every 30 s."""
    manifest = job_manifest(cluster, namespace, "owner", [NOWHERE], ["true"])
    apply(cluster, {**manifest, "spec": {**manifest["spec"], "suspend": True}}, namespace=namespace)
    meta = get(cluster, "trainingjob/owner", namespace)["metadata"]
    owner = {"apiVersion": names.API_VERSION, "kind": names.JOB_KIND, "name": "owner", "uid": meta["uid"]}
    owned = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": [owner]}}
    apply(cluster, owned, namespace=namespace)
    delete(cluster, "trainingjob/owner", namespace)
    wait_for(lambda: not exists(cluster, "configmap/owned", namespace), 60, "the garbage collector")


@pytest.mark.thorough
def test_suspend_saves_and_resume_goes_on_there(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a suspension loses steps, leaves a pod, or counts as an interruption; or if a condition says what is
    not so."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.05), goal={"steps": STEPS})
    running = job.wait_step(5)
    assert conditions(running) == {"CapacityAcquired": "NodeFound", "Progressing": "Running"}

    job.patch({"suspend": True})

    suspended = job.wait_phase("Suspended")
    assert conditions(suspended) == {"Suspended": "Suspended"}
    assert [exit_code(pod) for pod in job.pods()] == [0], "it saved and left"
    (stopped,) = suspended["history"]
    assert (stopped["kind"], stopped["reason"]) == ("Stopped", "Suspended")
    assert commits(cluster, namespace)[-1] == stopped["lastStep"]

    job.patch({"suspend": False})

    done = job.wait_phase("Completed", "Failed")
    assert conditions(done) == {"Complete": "Completed"}
    assert restarts(done) == (0, 0, 0)
    assert done["history"][1]["resumedStep"] == stopped["lastStep"]
    assert TOTAL in job.logs(2)


def test_suspend_while_no_node_is_found(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a pending pod survives the suspension: an autoscaler would make a node for it."""
    job = submit(cluster, namespace, [NOWHERE], stub("--step-seconds", 0.01, "--steps", 20))
    waiting = job.wait("its pod", lambda s: s.get("phase") == "Acquiring" and job.pod(1))
    assert conditions(waiting) == {}

    job.patch({"suspend": True})

    suspended = job.wait_phase("Suspended")
    wait_for(lambda: not job.pods(), 20, "the pending pod to go")
    assert [(entry["kind"], entry["reason"]) for entry in suspended["history"]] == [("Stopped", "Suspended")]
    assert conditions(suspended) == {"Suspended": "Suspended"}

    image = {"trainer": {**job.manifest["spec"]["trainer"], "image": "holdfast.dev/plain:local"}}
    job.patch({**image, "capacity": {"tiers": [calm_pool.tier("cpu")]}})  # while suspended anything may change
    job.patch({"trainer": job.manifest["spec"]["trainer"], "suspend": False})
    done = job.wait_phase("Completed", "Failed")
    assert done["phase"] == "Completed"
    assert restarts(done) == (0, 0, 0)


def test_edit_while_running(cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool) -> None:
    """Breaks if an edit of the grid touches a running attempt, or of the trainer is accepted and has no effect."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.05, "--steps", STEPS))
    tier = job.wait_step(1)["current"]["tier"]

    with pytest.raises(LocalError, match=r"must not change while the job runs"):
        job.patch({"trainer": {"image": "holdfast.dev/plain:local"}})
    with pytest.raises(LocalError, match=r"must not change while the job runs"):
        job.patch({"checkpoint": {"storage": {"s3": {"prefix": "elsewhere"}}}})
    job.patch(
        {
            "failure": {"maxFailures": 0},
            "checkpoint": {"every": "1h"},
            "capacity": {"tiers": [{**calm_pool.tier("dedicated"), "pricePerNodeHour": "3"}]},
        }
    )

    generation = job.get()["metadata"]["generation"]
    seen = job.wait("the edit to be seen", lambda s: s["observedGeneration"] == generation and s["phase"] == "Running")
    assert seen["current"]["tier"] == tier
    assert seen["attempt"] == 1
    done = job.wait_phase("Completed", "Failed")
    assert [(e["tier"], e["kind"]) for e in done["history"]] == [("cpu", "Completed")]
    assert TOTAL in job.logs(1)


@pytest.mark.usefixtures("collector")
def test_delete_while_training(cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool) -> None:
    """Breaks if the pod is killed before it has saved, or a finalizer outlives the job."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.05), checkpoint={"every": "1h"})
    job.wait_step(5)
    job.delete()
    wait_gone(job)
    (saved,) = commits(cluster, namespace)
    assert saved >= 5


@pytest.mark.usefixtures("collector")
def test_delete_during_a_save(cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool) -> None:
    """Breaks if a save in flight is stopped or begins again when the pod is deleted."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.02, "--save-seconds", 7))
    job.wait_phase("Running")
    wait_for(lambda: "step 20 " in job.logs(1), 30, "the save at step 20 to begin")
    job.delete()
    wait_gone(job)
    assert commits(cluster, namespace) == [20]


def test_a_namespace_with_a_running_job_can_be_deleted(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if pods are made in a namespace that ends, or are not released: then it ends never."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.05))
    submit(cluster, namespace, [NOWHERE], stub(), name="waiting")
    job.wait_step(1)
    delete(cluster, f"namespace/{namespace}")
    wait_for(lambda: not exists(cluster, f"namespace/{namespace}"), 60, "the namespace to be gone")


def holdfast(cluster: Cluster, *arguments: str) -> str:
    """Run the command as a person does, and return what it printed."""
    command = [str(Path(sys.executable).with_name("holdfast")), *arguments]
    command += ["--kubeconfig", str(cluster.admin_kubeconfig)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=90).stdout


@pytest.mark.thorough
def test_checkpoint_and_move_on_request(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a person's request is not heard, loses a step, or counts as an interruption."""
    tiers = [calm_pool.tier("spot"), calm_pool.tier("cpu")]
    flags = stub("--step-seconds", 0.1)
    job = submit(cluster, namespace, tiers, flags, checkpoint={"every": "1h"}, goal={"steps": 3000})
    node = job.wait_step(5)["node"]
    assert commits(cluster, namespace) == []

    said = holdfast(cluster, "checkpoint", "job", "-n", namespace)
    (saved,) = commits(cluster, namespace)
    assert f"saved step {saved}" in said

    said = holdfast(cluster, "move", "job", "-n", namespace)
    assert "attempt 2 runs on tier spot" in said
    assert job.status()["node"] != node

    said = holdfast(cluster, "move", "job", "-n", namespace, "--tier", "cpu")
    assert "attempt 3 runs on tier cpu" in said
    status = job.wait("a step on the new tier", lambda s: s["current"].get("firstStep") and len(s["history"]) == 2)
    assert [(e["kind"], e["reason"], e["stepsLost"]) for e in status["history"]] == [
        ("Stopped", "MoveRequested", 0)
    ] * 2
    assert restarts(status) == (0, 0, 0)


def test_active_deadline_ends_the_job_after_it_has_saved(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a job may run longer than its owner allows, or loses what it has done by then."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.05), checkpoint={"every": "1h"})
    job.wait_step(5)
    started = {"status": {"startedAt": f"{datetime.now(UTC) - timedelta(minutes=2):%Y-%m-%dT%H:%M:%SZ}"}}
    patch = ["--subresource=status", "--type=merge", "-p", json.dumps(started)]
    cluster.kubectl("patch", "tj", "job", "-n", namespace, *patch)

    job.patch({"activeDeadline": "1m"})

    failed = job.wait_phase("Failed", "Completed")
    assert failed["reason"] == "DeadlineExceeded"
    assert conditions(failed) == {"Failed": "DeadlineExceeded"}
    wait_for(lambda: not job.pods(), 30, "the pod to save and go")
    (saved,) = commits(cluster, namespace)
    assert saved >= 5


def test_a_finished_job_goes_after_its_time_and_leaves_its_checkpoints(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if ttlAfterFinished is not kept, or takes the result along."""
    flags = stub("--step-seconds", 0.01, "--steps", 20)
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], flags, ttlAfterFinished="3s")
    job.wait_phase("Completed")
    wait_gone(job)
    assert commits(cluster, namespace) == [20]


def test_kubectl_get_shows_how_a_job_stands(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a print column names a field that is not there."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], stub("--step-seconds", 0.05))
    job.wait_checkpoint(20)
    wide = cluster.kubectl("get", "tj", "-n", namespace, "-o", "wide").splitlines()
    narrow = cluster.kubectl("get", "tj", "job", "-n", namespace).splitlines()
    shown = ["NAME", "PHASE", "TIER", "NODES", "STEP", "PERCENT", "ETA"]
    shown += ["COST", "EXPECTED", "SAVINGS", "SLACK", "INTERRUPTIONS", "AGE"]
    assert narrow[0].split() == shown
    cells = table_row(*wide)
    assert list(cells)[len(shown) :] == ["LOSS", "CHECKPOINT", "NODE", "REASON"]
    node = calm_pool.node("cpu-1")
    assert (cells["NAME"], cells["PHASE"], cells["TIER"], cells["NODE"]) == ("job", "Running", "cpu", node)
    assert int(cells["STEP"]) >= 20
    assert int(cells["CHECKPOINT"]) >= 20
    assert float(cells["PERCENT"]) >= 10
    assert float(cells["LOSS"]) > 0


def table_row(header: str, row: str) -> dict[str, str]:
    """The cells of a row by their titles."""
    starts = [match.start() for match in re.finditer(r"\S+", header)]
    ends = [*starts[1:], None]
    return {header[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}
