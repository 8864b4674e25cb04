"""`holdfast why` beside the operator: the same policy, asked by another process, about a job that trains."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.cluster.training_jobs import Pool, Raw, stub, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast_cli.errors import ExitCode
from holdfast_local.cluster import Cluster

USER = "reader"


def holdfast(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person does."""
    command = [str(Path(sys.executable).with_name("holdfast")), *arguments, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=90)


def viewer(cluster: Cluster, namespace: str) -> Path:
    """A kubeconfig of a user who may see the jobs of this namespace, and nothing more."""
    cluster.kubectl("create", "serviceaccount", USER, "-n", namespace)
    rule = ["--verb=get,list", "--resource=trainingjobs.holdfast.dev"]
    cluster.kubectl("create", "role", USER, "-n", namespace, *rule)
    who = f"--serviceaccount={namespace}:{USER}"
    cluster.kubectl("create", "rolebinding", USER, "-n", namespace, f"--role={USER}", who)
    return cluster.kubeconfig_for(namespace, USER)


# Breaks if the deadline is promised with a node that is full, or if the command sees it otherwise than the operator.
def test_a_node_that_is_full_promises_nothing(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    other = submit(cluster, namespace, [pool.tier("dedicated")], ["sleep", "infinity"], "other")
    other.wait_phase("Running")
    deadline = datetime.now(UTC) + timedelta(hours=6)
    capacity: Raw = {"policy": "Deadline", "deadline": f"{deadline:%Y-%m-%dT%H:%M:%SZ}"}
    tiers = [pool.tier(kind, pace="50ms", observation="Free") for kind in ("spot", "dedicated")]
    job = submit(cluster, namespace, tiers, stub("--step-seconds", 0.05), goal={"steps": 10_000}, capacity=capacity)

    def risk(status: Raw) -> str:
        return next((one["reason"] for one in status.get("conditions") or () if one["type"] == "DeadlineAtRisk"), "")

    def dedicated() -> Raw:
        found = json.loads(holdfast(cluster.admin_kubeconfig, "why", "job", "-n", namespace, "-o", "json").stdout)
        tier: Raw = found["tiers"][1]
        return tier

    job.wait("the condition", lambda status: risk(status) == "DedicatedRefused" and status["phase"] == "Running")
    assert (dedicated()["available"], dedicated()["readyNodeSeconds"]) == (False, None)
    other.delete()
    job.wait("the promise", lambda status: risk(status) == "InTime")
    assert job.status()["tier"] == "spot"
    assert (dedicated()["available"], dedicated()["readyNodeSeconds"] is not None) == (True, True)


def test_why_a_job_under_deadline_is_on_spot(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if the command sees other nodes, other knowledge or another policy than the operator, or needs more
    rights than a person has."""
    deadline = datetime.now(UTC) + timedelta(hours=6)
    tiers = [
        calm_pool.tier("spot", pricePerNodeHour="1.02"),
        calm_pool.tier("dedicated", pricePerNodeHour="3.06"),
    ]
    capacity: Raw = {"policy": "Deadline", "deadline": f"{deadline:%Y-%m-%dT%H:%M:%SZ}", "budget": "50"}
    job = submit(
        cluster, namespace, tiers, stub("--step-seconds", 0.05), goal={"steps": 10_000}, capacity=capacity
    )  # fmt: skip
    in_force = {"type": "PolicyFallback", "status": "False"}
    status = job.wait(
        "the policy in force",
        lambda s: any(in_force.items() <= one.items() for one in s.get("conditions") or ()),
    )

    said = holdfast(cluster.admin_kubeconfig, "why", "job", "-n", namespace, "-o", "json")
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    spot, dedicated = found["tiers"]
    assert found["policy"] == {"wanted": "Deadline", "inForce": "Deadline", "missing": None}
    assert found["choice"]["tier"] == "spot"
    assert found["decision"]["message"].startswith("spot: up for")
    assert found["deadline"]["risk"]["reason"] == "InTime"
    assert (spot["here"], spot["available"], dedicated["here"]) == (True, True, False)
    assert 0.04 < spot["secondsPerStep"] < 1
    assert dedicated["secondsPerStep"] is None
    assert spot["acquireSeconds"]["measured"] is True
    assert spot["readyNodeSeconds"] > 0
    assert dedicated["readyNodeSeconds"] > 0
    assert 1.02 <= spot["costOfAnHoursWork"] < dedicated["costOfAnHoursWork"]
    assert found["work"]["goalSteps"] == 10_000
    assert found["budget"]["short"] is False
    assert status["forecast"]["slack"]
    assert 0 < found["deadline"]["slackSeconds"] < 6 * 3600

    screen = holdfast(cluster.admin_kubeconfig, "why", "job", "-n", namespace).stdout
    assert "● spot" in screen
    assert "not read" not in screen
    assert "█" in screen, "the timeline"

    seen = holdfast(viewer(cluster, namespace), "why", "job", "-n", namespace)
    assert seen.returncode == 0, seen.stderr
    assert "nodes were not read" in seen.stdout
    assert "Deadline: spot: up for" in seen.stdout

    nobody = holdfast(cluster.admin_kubeconfig, "why", "nobody", "-n", namespace)
    assert nobody.returncode == ExitCode.NOT_FOUND
    assert "nobody" in nobody.stderr

    job.patch({"suspend": True})
    job.wait_phase("Suspended")
    paused = holdfast(cluster.admin_kubeconfig, "why", "job", "-n", namespace).stdout
    assert "There is nothing to choose: spec.suspend is true." in paused
    assert "spent" in paused
