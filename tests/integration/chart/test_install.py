"""The chart installed, upgraded and uninstalled by Helm itself: two operators as pods, their leader election, the hook.

The operators run in a cluster of their own, under the rights and with the probes of the chart (see operator_image).
"""

import subprocess
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import yaml
from tests.integration.chart.test_chart import CHART, NAMESPACE, run
from tests.support.cluster.local_cluster import exists, fresh_namespace, get, items, running_cluster
from tests.support.cluster.training_jobs import stub, submit
from tests.support.guard import temporary_folder
from tests.support.operator import operator_image
from tests.support.tools.catalogue import HELM
from tests.support.waiting import wait_for

from holdfast.api import names, rbac
from holdfast_local import toolchain
from holdfast_local.cluster import Cluster
from holdfast_local.config import DEFAULT_IMAGES

pytestmark = pytest.mark.cluster

ON_ANY_NODE = {"name": "cpu", "kind": "CPU", "acquireTimeout": "10s"}
BREAKS = "settings.HOLDFAST_WORKERS=many"  # the operator refuses it at its start, and ends with 1
GOOD_IN = "120s"  # Helm's time for a healthy install; it takes a few seconds
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


class Release:
    """The release `holdfast` of the chart in a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._helm = toolchain.build(HELM)
        self._place = ("--namespace", NAMESPACE, "--kubeconfig", str(cluster.admin_kubeconfig))

    def helm(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Helm on the release."""
        return run(self._helm, command, "holdfast", *arguments, *self._place, timeout=200)

    def upgrade(self, *arguments: str, within: str = GOOD_IN) -> subprocess.CompletedProcess[str]:
        """`helm upgrade --install --wait`."""
        return self.helm(
            "upgrade", str(CHART), "--install", "--create-namespace", "--wait", "--timeout", within, *arguments
        )

    def pods(self) -> list[dict[str, Any]]:
        """The operator's pods."""
        return items(self.cluster, "pod", NAMESPACE, labelSelector="app.kubernetes.io/component=operator")

    def ready(self) -> set[str]:
        """The names of those that are Ready and stay."""
        return {pod["metadata"]["name"] for pod in self.pods() if _is_ready(pod)}

    def leader(self) -> str:
        """The name of the pod that has the Lease; empty if none has it."""
        holder = get(self.cluster, f"lease/{rbac.LEASE}", NAMESPACE)["spec"].get("holderIdentity") or ""
        return str(holder).rpartition("_")[0]

    def renewed(self) -> datetime:
        """When the Lease was renewed."""
        return datetime.fromisoformat(get(self.cluster, f"lease/{rbac.LEASE}", NAMESPACE)["spec"]["renewTime"])

    def objects(self, kinds: str, *names_: str) -> list[str]:
        """What there is of these kinds in the release's namespace, such as `configmap/a`."""
        found = self.cluster.kubectl("get", kinds, *names_, "-n", NAMESPACE, "-o", "name", "--ignore-not-found")
        return found.split()

    def completes_a_job(self, namespace: str, name: str) -> None:
        """A job that is applied now comes to its end."""
        job = submit(self.cluster, namespace, [ON_ANY_NODE], stub("--step-seconds", 0.01), name, goal={"steps": 20})
        assert job.wait_phase("Completed", "Failed", timeout=90)["phase"] == "Completed"


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True" and not pod["metadata"].get("deletionTimestamp")


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
    wait_for(lambda: _labelled(release) == {leader}, 20, "the leader's label, which the Service selects")
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


def _labelled(release: Release) -> set[str]:
    """The operators with the leader's label."""
    return {pod["metadata"]["name"] for pod in release.pods() if names.LABEL_LEADER in pod["metadata"]["labels"]}


def _restarts(pod: dict[str, Any]) -> int:
    return sum(one["restartCount"] for one in pod["status"].get("containerStatuses") or ())
