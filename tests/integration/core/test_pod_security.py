"""What admission of a real API server says to our pods: Pod Security Standards, LimitRanges."""

import json
from collections.abc import Mapping

import pytest
from tests.support.cluster.local_cluster import apply
from tests.support.decisions.snapshots import attempt, job

from holdfast.core.observe.config import OperatorConfig
from holdfast.core.pod_manifest import build_pod
from holdfast_local.cluster import Cluster
from holdfast_local.errors import LocalError

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


def test_a_pod_fits_a_limit_range_that_its_trainer_fits(cluster: Cluster, namespace: str) -> None:
    """Breaks if the init container asks for less than a LimitRange allows, or has another ratio of limit to request."""
    limits = {"type": "Container", "maxLimitRequestRatio": {"cpu": "1"}, "min": {"cpu": "500m", "memory": "512Mi"}}
    bounds = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"}, "spec": {"limits": [limits]}}
    apply(cluster, bounds, namespace=namespace)
    admit(cluster, namespace, {"cpu": "4", "memory": "8Gi", "ephemeralStorage": "20Gi"})


def test_the_scheduler_prefers_nodes_without_faults(cluster: Cluster, namespace: str) -> None:
    """Breaks if an API server refuses the nodes that a pod avoids, or uses last."""
    pod = build_pod(job(), attempt(avoid_nodes=("bad",)), OperatorConfig(), 7200.0, shuns=["suspect", "other"])
    pod["metadata"]["namespace"] = namespace
    cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
