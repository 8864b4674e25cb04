"""What pod security admission of a real API server says to our pods."""

import json

import pytest
from tests.support.decisions.snapshots import attempt, job

from holdfast.core.observe.config import OperatorConfig
from holdfast.core.pod_manifest import build_pod
from holdfast.local.cluster import Cluster
from holdfast.local.errors import LocalError

IMAGE = "registry.example/train:1"


def admit(cluster: Cluster, namespace: str, **security: int) -> None:
    """Ask the API server to create the pod, without creating it. Raises LocalError with its words."""
    pod = build_pod(job(trainer={"image": IMAGE, "securityContext": security}), attempt(), OperatorConfig(), 7200.0)
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
