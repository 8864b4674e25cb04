"""What a person asks of a job with `holdfast suspend`, `resume` and `cancel`, beside an operator that does it."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.test_people import commits
from tests.support.cluster.training_jobs import Pool, stub, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast_cli.errors import ExitCode
from holdfast_local.cluster import Cluster


def holdfast(cluster: Cluster, namespace: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person does, without a terminal."""
    command = [str(Path(sys.executable).with_name("holdfast")), *arguments, "-n", namespace]
    command += ["--kubeconfig", str(cluster.admin_kubeconfig)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )  # fmt: skip


# Breaks if a suspension, a continuation or a cancellation is reported before it is true, or loses a step.
def test_suspend_resume_and_cancel(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    flags = stub("--step-seconds", 0.05)
    submitted = submit(cluster, namespace, [calm_pool.tier("cpu")], flags, goal={"steps": 3000})
    submitted.wait_step(5)

    said = holdfast(cluster, namespace, "suspend", "job")
    assert said.returncode == 0, said.stderr
    saved = commits(cluster, namespace)[-1]
    assert f"job is suspended; its newest checkpoint is step {saved}" in said.stdout
    assert submitted.status()["phase"] == "Suspended"
    listed = holdfast(cluster, namespace, "watch", "-o", "name", "--phase", "Suspended")
    assert listed.stdout == "trainingjob.holdfast.dev/job\n"

    said = holdfast(cluster, namespace, "resume", "job")
    assert said.returncode == 0, said.stderr
    assert f"attempt 2 runs on tier cpu, node {calm_pool.node('cpu-1')}" in said.stdout
    assert holdfast(cluster, namespace, "watch", "-o", "name", "--phase", "Suspended").stdout == ""

    refused = holdfast(cluster, namespace, "cancel", "job")
    assert (refused.returncode, submitted.exists()) == (ExitCode.FAILED, True), refused.stderr
    assert "give --yes" in refused.stderr
    status = submitted.wait("a step of attempt 2", lambda s: s["current"].get("firstStep"))
    assert status["current"]["resumedStep"] == saved
    said = holdfast(cluster, namespace, "cancel", "job", "--yes")
    assert said.returncode == 0, said.stderr
    assert not submitted.exists()
    assert not submitted.pods()
    assert f"s3://{cluster.s3.bucket}/{namespace}/job" in said.stdout
    assert commits(cluster, namespace)[-1] > saved, "it saved before it left"
