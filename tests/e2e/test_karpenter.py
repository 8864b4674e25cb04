"""A node that Karpenter takes away, with objects as Karpenter v1 writes them: the end is on the NodeClaim."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.cluster.local_cluster import apply
from tests.support.cluster.training_jobs import Pool, stub, submit
from tests.support.operator.operator_process import NAMESPACE
from tests.support.waiting import wait_for

from holdfast.api.rbac import KARPENTER_RULES
from holdfast.api.scalars import format_time
from holdfast_local.cluster import Cluster

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodeclaims.karpenter.sh"},
    "spec": {
        "group": "karpenter.sh",
        "scope": "Cluster",
        "names": {"kind": "NodeClaim", "plural": "nodeclaims", "singular": "nodeclaim"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}
ROLE = "holdfast-karpenter"


@pytest.fixture
def karpenter(cluster: Cluster) -> Iterator[None]:
    """The CRD, and the right that the chart gives to the operator where it is."""
    api = "rbac.authorization.k8s.io"
    role: dict[str, Any] = {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": ROLE}}
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": "holdfast", "namespace": NAMESPACE}],
    }
    apply(cluster, CRD, role | {"rules": list(KARPENTER_RULES)}, binding)
    cluster.kubectl("wait", "crd/nodeclaims.karpenter.sh", "--for=condition=Established", "--timeout=30s")
    yield
    cluster.kubectl("delete", "clusterrolebinding,clusterrole", ROLE)
    cluster.kubectl("delete", "crd", "nodeclaims.karpenter.sh")


@pytest.mark.usefixtures("karpenter", "operator")
def test_the_end_of_a_node_is_that_of_its_claim(cluster: Cluster, namespace: str, pool: Pool) -> None:
    """Breaks if a node that stays for 20 minutes is left after the 2 that such a notice usually leaves."""
    job = submit(cluster, namespace, [pool.tier("spot")], stub("--step-seconds", 0.1), goal={"steps": 100_000})
    node = job.wait_checkpoint(5)["node"]
    for name in pool.nodes:  # nothing is free for another attempt: it trains until its node goes
        if name != node:
            cluster.kubectl("cordon", name)
    end = format_time((datetime.now(UTC) + timedelta(minutes=20)).replace(microsecond=0))
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "default-x7k2p"},
        "spec": {"terminationGracePeriod": "20m"},
    }
    apply(cluster, claim)
    uid = cluster.kubectl("get", "nodeclaim", "default-x7k2p", "-o", "jsonpath={.metadata.uid}")
    owner = f'{{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","name":"default-x7k2p","uid":"{uid}"}}'
    cluster.kubectl("patch", "node", node, "--type=merge", "-p", f'{{"metadata":{{"ownerReferences":[{owner}]}}}}')

    cluster.kubectl("taint", "node", node, "karpenter.sh/disrupted:NoSchedule")
    first = job.wait("a departure", lambda s: s["current"].get("departure"))
    assert first["current"]["departure"]["deadline"] < end, "nothing says yet how long it stays"
    annotation = f"karpenter.sh/nodeclaim-termination-timestamp={end}"
    cluster.kubectl("annotate", "nodeclaim", "default-x7k2p", annotation)

    job.wait("the end that the claim names", lambda s: s["current"].get("departure", {}).get("deadline") == end)
    job.delete()
    cluster.kubectl("taint", "node", node, "karpenter.sh/disrupted-")
    wait_for(lambda: not job.exists(), 30, "the end of the job")
