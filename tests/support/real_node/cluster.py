"""A local cluster whose nodes are real."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
from tests.support.cluster.local_cluster import items, running_cluster
from tests.support.guard import guarded_node
from tests.support.real_node.daemon import Daemon
from tests.support.real_node.node import Place, RealNode
from tests.support.tools.catalogue import COREDNS
from tests.support.waiting import wait_for

from holdfast_local import toolchain
from holdfast_local.agent.config import NodeSpec, Timings
from holdfast_local.cluster import Cluster
from holdfast_local.state import ClusterState

_TIMINGS = Timings(node_grace=20, lease=8)
# Pods reach the API server as `kubernetes.default.svc`.
_API_SERVER = ["--endpoint-reconciler-type=lease"]


@dataclass(frozen=True)
class RealCluster:
    """A cluster and its nodes."""

    cluster: Cluster
    nodes: Mapping[str, RealNode]

    def node_of(self, pod: dict[str, Any]) -> RealNode:
        """The node on which a pod runs."""
        return self.nodes[pod["spec"]["nodeName"]]

    def is_ready(self, name: str) -> bool:
        """If the API says that a node is Ready."""
        found = items(self.cluster, "node", fieldSelector=f"metadata.name={name}")
        conditions = [one for node in found for one in node["status"].get("conditions") or ()]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def wait_ready(self, name: str) -> None:
        """Wait until a node is Ready."""

        def looks_ready() -> bool:
            self.nodes[name].kubelet.check()
            return self.is_ready(name)

        wait_for(looks_ready, 30, f"node {name} to be Ready")


@contextmanager
def real_cluster(labels: Mapping[str, Mapping[str, str]], images: Mapping[str, Path]) -> Iterator[RealCluster]:
    """A cluster with a real node for each name of `labels`, which has them.

    Args:
        labels: the labels of each node, by its name.
        images: the archive of each image that the nodes have, by its reference.
    """
    options: dict[str, Any] = {
        "nodes": tuple(NodeSpec(name=name) for name in labels),
        "agent": False,
        "network": "isolated",
        "audit": True,
        "timings": _TIMINGS,
        "extra_args": {"kube-apiserver": _API_SERVER},
    }
    with running_cluster(**options) as cluster, ExitStack() as stack:
        network = ClusterState.load(cluster.root).network
        assert network is not None
        names = Daemon(
            [toolchain.build(COREDNS), "-conf", _write_names(cluster)], cluster.root / "logs" / "coredns.log"
        )
        stack.callback(names.kill)
        names.start()
        nodes = {}
        for name, own in labels.items():
            place = Place(name, cluster.root, cluster.server, cluster.address, network.nodes[name], network.subnet, own)
            nodes[name] = node = RealNode(place)
            stack.enter_context(guarded_node(node.folder))
            stack.callback(node.end)
            node.start()
            for image, archive in images.items():
                node.load_image(archive, image)
        found = RealCluster(cluster, nodes)
        wait_for(lambda: _names_are_known(cluster, names), 20, "CoreDNS")
        for name in nodes:
            found.wait_ready(name)
        yield found


def _write_names(cluster: Cluster) -> Path:
    path = cluster.root / "Corefile"
    path.write_text(
        f".:53 {{\n  bind {cluster.address}\n  ready {cluster.address}:8181\n  errors\n"
        f"  kubernetes cluster.local {{\n    kubeconfig {cluster.admin_kubeconfig}\n  }}\n}}\n"
    )
    return path


def _names_are_known(cluster: Cluster, names: Daemon) -> bool:
    names.check()
    try:
        return urllib3.request("GET", f"http://{cluster.address}:8181/ready", retries=False, timeout=2).status == 200
    except urllib3.exceptions.HTTPError:
        return False
