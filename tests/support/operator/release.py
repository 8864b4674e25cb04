"""The chart, installed by Helm itself into a cluster."""

import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.cluster.local_cluster import get, items
from tests.support.cluster.training_jobs import stub, submit
from tests.support.tools.catalogue import HELM

from holdfast.api import names, rbac
from holdfast_local import toolchain
from holdfast_local.cluster import Cluster

CHART = Path(__file__).resolve().parents[3] / "charts" / "holdfast"
NAMESPACE = "holdfast-system"
GOOD_IN = "120s"  # Helm's time for a healthy install; it takes a few seconds

ON_ANY_NODE = {"name": "cpu", "kind": "CPU", "acquireTimeout": "10s"}


def run(helm: Path, *args: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run Helm without a cluster and without the user's own settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
    return subprocess.run([helm, *args], capture_output=True, text=True, timeout=timeout, check=False, env=environment)


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

    def holder(self) -> str:
        """The process that has the Lease, as it calls itself; empty if none has it."""
        return str(get(self.cluster, f"lease/{rbac.LEASE}", NAMESPACE)["spec"].get("holderIdentity") or "")

    def leader(self) -> str:
        """The name of the pod that has the Lease; empty if none has it."""
        return self.holder().rpartition("_")[0]

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

    def labelled(self) -> set[str]:
        """The operators with the leader's label, which the Service selects."""
        return {pod["metadata"]["name"] for pod in self.pods() if names.LABEL_LEADER in pod["metadata"]["labels"]}


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True" and not pod["metadata"].get("deletionTimestamp")
