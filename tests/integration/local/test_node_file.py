"""A cluster whose nodes come from a file."""

from pathlib import Path

import pytest
from tests.support.cluster.agent_pods import container, pod, run, until_phase
from tests.support.cluster.local_cluster import exists, fresh_namespace, get, running_cluster
from tests.support.waiting import wait_for

from holdfast_local.config import load_nodes

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[3] / "examples/nodes/eight-nodes.yaml"


# Breaks if the API server refuses a node of the example, or a field of the file does not reach the Node object.
def test_the_example_with_eight_nodes_comes_up() -> None:
    nodes = load_nodes(EXAMPLE)
    with running_cluster(nodes=nodes, s3=False) as cluster, fresh_namespace(cluster) as namespace:
        assert {node.name for node in cluster.status().nodes if node.ready} == {one.name for one in nodes} - {"cpu-2"}
        spot = get(cluster, "node/spot-3")
        assert spot["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-b"
        assert spot["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert not exists(cluster, "node/cpu-2")
        cluster.restore("cpu-2")
        wait_for(lambda: exists(cluster, "node/cpu-2"), 20, "the standby node")

        tier = {"holdfast.dev/tier": "dedicated"}
        tolerations = [{"key": "example.com/reserved", "operator": "Exists"}]
        run(cluster, namespace, pod("reserved", container("true"), nodeSelector=tier, tolerations=tolerations))
        until_phase(cluster, namespace, "reserved", "Succeeded")
