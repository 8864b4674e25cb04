"""`holdfast local up` is all that a job needs: the operator is a part of the cluster, and ends with it."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from click.testing import Result
from tests.support.cluster.local_cluster import apply, get, patch
from tests.support.guard import guarded_cluster, temporary_folder
from tests.support.waiting import on_a_busy_machine, wait_for
from typer.testing import CliRunner

from holdfast_cli.main import app
from holdfast_local import command
from holdfast_local.cluster import Cluster
from holdfast_local.config import OPERATOR, ClusterConfig
from holdfast_local.state import ClusterState
from holdfast_local.status import PartStatus

pytestmark = pytest.mark.cluster


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for a cluster, which is down at the end; a busy machine has more time to start one."""
    patient = partial(ClusterConfig, ready_timeout=on_a_busy_machine(60))
    monkeypatch.setattr(command, "ClusterConfig", patient)
    with temporary_folder("hf-") as parent, guarded_cluster(parent / "c"):
        monkeypatch.setenv("HOLDFAST_LOCAL_ROOT", str(parent / "c"))
        try:
            yield parent / "c"
        finally:
            local("down")


def local(*arguments: str) -> Result:
    """Run `holdfast local`."""
    return CliRunner().invoke(app, ["local", *arguments])


def bring_up() -> Result:
    done = local("up")
    assert done.exit_code == 0, done.output
    return done


def operator(cluster: Cluster) -> PartStatus:
    return next(part for part in cluster.status().parts if part.name == OPERATOR)


def run_a_job(cluster: Cluster) -> None:
    """Run a job that has of its own only a program: all else is in the profile."""
    defaults = get(cluster, "capacityprofile/default")["spec"]["defaults"]
    spec = {
        "trainer": {"image": defaults["image"], "command": ["python", "-c", "print('trained')"]},
        "capacity": {"profile": "default"},
        "checkpoint": {"storage": defaults["storage"]},
    }
    job = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "tiny"}, "spec": spec}
    apply(cluster, job, namespace="default")

    def status() -> dict[str, object]:
        found: dict[str, object] = get(cluster, "trainingjob/tiny", "default").get("status", {})
        return found

    wait_for(lambda: status().get("phase") == "Completed", 60, lambda: f"the job to complete: {status()}")


# Breaks if one command does not give a cluster in which a job runs; or a second one changes or repeats anything.
def test_one_command_brings_a_cluster_in_which_a_job_runs(root: Path) -> None:
    assert "with Holdfast" in bring_up().stdout
    cluster = Cluster.load(root)
    assert operator(cluster).state == "running"
    assert OPERATOR in local("status").stdout
    run_a_job(cluster)

    patch(cluster, "capacityprofile/default", {"spec": {"defaults": {"image": "holdfast.dev/plain:local"}}})
    state, profile = ClusterState.load(root), get(cluster, "capacityprofile/default")["spec"]
    again = bring_up()
    assert not again.stderr, "nothing was done"
    assert ClusterState.load(root) == state
    assert get(cluster, "capacityprofile/default")["spec"] == profile

    pid = operator(cluster).pid
    assert local("down").exit_code == 0
    assert not psutil.pid_exists(pid)
    assert not root.exists()


# Breaks if the end of the operator is not seen, or it is not started again where pods look for it, or at once.
def test_an_operator_that_was_killed_is_started_again(root: Path) -> None:
    bring_up()
    cluster = Cluster.load(root)
    before = operator(cluster)
    os.kill(before.pid, signal.SIGKILL)
    wait_for(lambda: operator(cluster).state == "crashed", 10, "the status to show it")
    shown = local("status")
    assert shown.exit_code == 1
    assert "operator crashed; the end of" in shown.stdout

    assert "the operator has ended: starting it again" in bring_up().stderr
    after = operator(cluster)
    assert (after.state, after.port) == ("running", before.port)
    assert after.pid != before.pid
    assert local("status").exit_code == 0
    run_a_job(cluster)
