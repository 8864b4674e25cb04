"""Operators with small deciders, and jobs for them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.cluster.local_cluster import apply, get, items
from tests.support.operator.operator_process import OperatorProcess, in_place_of

from holdfast_local.cluster import Cluster

LEASE = {"lease_duration": 3, "lease_renew": 0.5}
CRD = "customresourcedefinition/trainingjobs.holdfast.dev"


@pytest.fixture(scope="module")  # not longer: in the cluster other tests have jobs that this operator may not touch
def shared_operator(cluster: Cluster) -> Iterator[OperatorProcess]:
    """The operator of the tests that need no other one; it is started by the first test that asks for `operator`."""
    process = OperatorProcess(cluster, decider="tests.support.operator.deciders:one_pod", **LEASE)
    yield process
    process.end()


@pytest.fixture
def operator(shared_operator: OperatorProcess) -> OperatorProcess:
    """The shared operator, running."""
    return shared_operator.up()


@pytest.fixture
def operators(shared_operator: OperatorProcess) -> Iterator[Callable[..., OperatorProcess]]:
    """Makes operators with short leases, in place of the shared one; all are ended afterwards."""
    with in_place_of(shared_operator) as make:

        def make_short(decider: str | None = "one_pod", **settings: Any) -> OperatorProcess:
            """`decider` None: the real one."""
            module = decider and f"tests.support.operator.deciders:{decider}"
            return make(decider=module, **{**LEASE, **settings})

        yield make_short


class Jobs:
    """Jobs in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def create(self, name: str = "a", script: str = "exec sleep 3600", **spec: Any) -> None:
        body = {
            "trainer": {"image": "holdfast.dev/plain:local", "command": ["sh", "-c", script]},
            "capacity": {"tiers": [{"name": "cpu", "kind": "CPU", "nodeSelector": {"holdfast.dev/tier": "cpu"}}]},
            "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": f"{self.namespace}/{name}"}}},
        }
        manifest = {
            "apiVersion": "holdfast.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {**body, **spec},
        }
        apply(self.cluster, manifest, namespace=self.namespace)

    def raw(self, name: str = "a") -> dict[str, Any]:
        return get(self.cluster, f"trainingjob/{name}", self.namespace)

    def status(self, name: str = "a") -> dict[str, Any]:
        found: dict[str, Any] = self.raw(name).get("status", {})
        return found

    def phase(self, name: str = "a") -> str | None:
        return self.status(name).get("phase")

    def pods(self) -> dict[str, dict[str, Any]]:
        return {pod["metadata"]["name"]: pod for pod in items(self.cluster, "pod", self.namespace)}

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.namespace, *args, stdin=stdin)


@pytest.fixture
def jobs(cluster: Cluster, namespace: str) -> Jobs:
    return Jobs(cluster, namespace)


@pytest.fixture
def loosened(cluster: Cluster) -> Iterator[Cluster]:
    """The CRD as a later version may have it: `status.future` exists, and `spec.goal` takes anything."""
    before = get(cluster, CRD)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    root = "/spec/versions/0/schema/openAPIV3Schema/properties"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    def patch(*steps: dict[str, Any]) -> None:
        cluster.kubectl("patch", CRD, "--type=json", "-p", json.dumps(steps))

    patch(
        {"op": "add", "path": f"{root}/status/properties/future", "value": {"type": "string"}},
        {"op": "replace", "path": f"{root}/spec/properties/goal", "value": anything},
    )
    yield cluster
    patch(
        {"op": "remove", "path": f"{root}/status/properties/future"},
        {"op": "replace", "path": f"{root}/spec/properties/goal", "value": before["spec"]["properties"]["goal"]},
    )
