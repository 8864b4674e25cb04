"""What admission of a real API server says to our pods: Pod Security Standards, quotas, LimitRanges."""

import json
from collections.abc import Mapping

import pytest
from tests.support.cluster.local_cluster import apply
from tests.support.decisions.snapshots import attempt, job
from tests.support.waiting import wait_for

from holdfast.core.observe.config import OperatorConfig
from holdfast.core.pod_manifest import build_pod
from holdfast.local.cluster import Cluster
from holdfast.local.errors import LocalError

IMAGE = "registry.example/train:1"


def admit(cluster: Cluster, namespace: str, resources: Mapping[str, str] | None = None, **security: int) -> None:
    """Ask the API server to create the pod, without creating it. Raises LocalError with its words."""
    trainer = {"image": IMAGE, "securityContext": security, "resources": resources or {}}
    pod = build_pod(job(trainer=trainer), attempt(), OperatorConfig(), 7200.0)
    pod["metadata"]["namespace"] = namespace
    cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_baseline_admits_root_and_restricted_admits_any_other_user(cluster: Cluster, namespace: str) -> None:
    """Breaks if our pods ask for more than `baseline`, or lack something that `restricted` wants."""
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=baseline", "--overwrite")
    admit(cluster, namespace)
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    admit(cluster, namespace, runAsUser=1000, fsGroup=1000)
    with pytest.raises(LocalError, match="runAsNonRoot"):
        admit(cluster, namespace)


def test_a_pod_fits_quotas_and_limit_ranges_that_its_trainer_fits(cluster: Cluster, namespace: str) -> None:
    """Breaks if the init container has no limit that a quota asks for, or another ratio of limit to request."""
    kinds = ("cpu", "memory", "ephemeral-storage")
    hard = {f"{what}.{kind}": "100Gi" if kind != "cpu" else "100" for what in ("limits", "requests") for kind in kinds}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"}, "spec": {"hard": hard}}
    limits = {"type": "Container", "maxLimitRequestRatio": {"cpu": "1"}, "min": {"cpu": "500m", "memory": "512Mi"}}
    bounds = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"}, "spec": {"limits": [limits]}}
    for manifest in (quota, bounds):
        apply(cluster, manifest, namespace=namespace)
    wait_for(
        lambda: cluster.kubectl("get", "quota", "all", "-n", namespace, "-o", "jsonpath={.status.hard}"),
        20,
        "the quota to hold",
    )
    admit(cluster, namespace, {"cpu": "4", "memory": "8Gi", "ephemeralStorage": "20Gi"})
    with pytest.raises(LocalError, match=r"limits\.ephemeral-storage"):
        admit(cluster, namespace, {"cpu": "4", "memory": "8Gi"})
