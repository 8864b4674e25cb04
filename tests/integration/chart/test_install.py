"""The chart installed, upgraded and uninstalled by Helm itself: two operators as pods, their leader election, the hook.

The operators run in a cluster of their own, under the rights and with the probes of the chart (see operator_image).
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.cluster.local_cluster import exists, fresh_namespace, running_cluster
from tests.support.cluster.training_jobs import stub, submit
from tests.support.guard import temporary_folder
from tests.support.operator import operator_image
from tests.support.operator.release import CHART, GOOD_IN, NAMESPACE, ON_ANY_NODE, Release
from tests.support.waiting import wait_for

from holdfast.api import names, rbac
from holdfast_local.cluster import Cluster
from holdfast_local.config import DEFAULT_IMAGES

pytestmark = pytest.mark.cluster

BREAKS = "settings.HOLDFAST_WORKERS=many"  # the operator refuses it at its start, and ends with 1
BROKEN_IN = "25s"  # long enough for pods to crash several times


@pytest.fixture(scope="module")
def installed_cluster() -> Iterator[Cluster]:
    """A cluster that knows the image of the operator and of the init container as the chart names them."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    tag = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    with temporary_folder("hf-img-") as folder:
        ours = {
            f"{values['image']['repository']}:{tag}": operator_image.image(folder),
            values["initImage"]: DEFAULT_IMAGES["holdfast.dev/init:local"],
        }
        with running_cluster(images={**DEFAULT_IMAGES, **ours}) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def release(installed_cluster: Cluster) -> Release:
    """The release, installed as docs/how-to/install.md says, by a command that waits until it is healthy."""
    made = Release(installed_cluster)
    done = made.helm("install", str(CHART), "--create-namespace", "--wait", "--timeout", GOOD_IN)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture
def namespace(installed_cluster: Cluster) -> Iterator[str]:
    """A namespace for jobs."""
    with fresh_namespace(installed_cluster) as name:
        yield name


def test_install_that_waits_returns_when_both_are_ready_and_one_leads(release: Release, namespace: str) -> None:
    """Breaks if the operator that does not lead is not Ready: then Helm waits until its time is over, and fails."""
    assert len(release.ready()) == len(release.pods()) == 2
    leader = wait_for(release.leader, 20, "an operator to lead")
    assert leader in release.ready()
    wait_for(lambda: release.labelled() == {leader}, 20, "the leader's label, which the Service selects")
    release.completes_a_job(namespace, "first")


@pytest.mark.thorough
def test_upgrade_to_an_operator_that_crashes_fails_and_an_old_one_goes_on(release: Release, namespace: str) -> None:
    """Breaks if a rollout stops the good operators before a new one is ready, or if Helm calls that a success."""
    old = release.ready()

    done = release.upgrade("--set", BREAKS, within=BROKEN_IN)

    assert done.returncode != 0
    crashed = [pod for pod in release.pods() if pod["metadata"]["name"] not in old]
    assert crashed
    assert all(_restarts(pod) for pod in crashed)
    left = release.ready()
    assert left
    assert left <= old
    wait_for(lambda: release.leader() in left, 30, "an old operator to lead")
    renewed = release.renewed()
    release.completes_a_job(namespace, "second")
    wait_for(lambda: release.renewed() > renewed, 30, "a leader that renews its Lease")

    repaired = release.upgrade()

    assert repaired.returncode == 0, repaired.stderr
    assert len(release.ready()) == 2
    wait_for(lambda: release.leader() in release.ready(), 30, "an operator to lead")
    release.completes_a_job(namespace, "third")


def test_uninstall_leaves_neither_lease_nor_private_key_nor_finalizer(release: Release, namespace: str) -> None:
    """Breaks if what the operator made outlives it: Helm does not know of it, so that the hook has to delete it."""
    training = stub("--step-seconds", 0.05, "--steps", 100_000)
    job = submit(release.cluster, namespace, [ON_ANY_NODE], training, goal={"steps": 100_000})
    job.wait_phase("Running", timeout=90)
    assert exists(release.cluster, f"lease/{rbac.LEASE}", NAMESPACE)
    assert release.objects("secret", rbac.SERVING_SECRET)

    done = release.helm("uninstall", "--wait", "--timeout", GOOD_IN)

    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(lambda: not release.pods(), 60, "the operators to be gone")
    assert not exists(release.cluster, f"lease/{rbac.LEASE}", NAMESPACE)
    kept = {"configmap/kube-root-ca.crt", f"configmap/{names.CA_CONFIG_MAP}"}  # the CA has no key, and pods mount it
    kinds = "secrets,configmaps,leases,services,deployments,jobs,pods,roles,rolebindings,endpointslices"
    assert set(release.objects(kinds)) <= kept
    cluster_wide = release.cluster.kubectl(
        "get", "clusterroles,clusterrolebindings", "-o", "name", "-l", "app.kubernetes.io/name=holdfast"
    )
    assert not cluster_wide.split()
    (pod,) = job.pods()
    assert names.POD_FINALIZER not in pod["metadata"].get("finalizers", [])
    assert pod["status"]["phase"] == "Running", "the training goes on"


def _restarts(pod: dict[str, Any]) -> int:
    return sum(one["restartCount"] for one in pod["status"].get("containerStatuses") or ())
