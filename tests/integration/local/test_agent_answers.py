"""Simulated nodes say of a pod what a real kubelet said of the same pod."""

import json

import pytest
from tests.support.cluster.agent_pods import PLAIN
from tests.support.cluster.kubelet_answers import PODS, RECORDED, answers

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster

# The simulated kubelet rejects the pod, and says so: test_agent_pods.py.
REJECTED = {"has a sidecar"}


@pytest.mark.parametrize("name", [name for name in PODS if name not in REJECTED])
def test_a_pod_that(cluster: Cluster, namespace: str, name: str) -> None:
    """Breaks if the operator is tested with answers that no real kubelet gives."""
    assert answers(cluster, namespace, name, PLAIN) == json.loads(RECORDED.read_text())[name]
