"""Names and addresses of an isolated network. Pure."""

from collections.abc import Iterable
from ipaddress import IPv4Network
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from holdfast_local.agent.config import NodeNetwork
from holdfast_local.agent.container.process import agent_mark
from holdfast_local.errors import StartError

RANGE = IPv4Network("198.18.0.0/15")
"""For tests of network devices (RFC 2544): neither the internet nor, as a rule, a private network uses it."""

MOST_NODES = 31
MOST_PODS = 250  # of one node: its range has 254 usable addresses

_CLUSTER_BITS = 19  # 16 clusters on one machine
_NODE_BITS = 24  # the first such range is for the machine and the nodes, each other one for the pods of a node


class NetworkPlan(BaseModel):
    """An isolated network.

    Attributes:
        bridge: the namespace of the bridge.
        link: the machine's interface to the bridge.
        subnet: the range of all addresses.
        nodes: the network of each node, by the node's name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bridge: str
    link: str
    subnet: IPv4Network
    nodes: dict[str, NodeNetwork]

    @property
    def address(self) -> str:
        """The machine's address, at which nodes reach it."""
        return str(self.subnet[1])

    @property
    def namespaces(self) -> list[str]:
        """The names of all namespaces, for `ip netns`."""
        return [self.bridge, *(node.namespace for node in self.nodes.values())]


def make_plan(root: Path, nodes: Iterable[str], used: Iterable[IPv4Network]) -> NetworkPlan:
    """The network of the cluster in `root`, in a range that overlaps with none of `used`.

    Names follow from the root, so that two clusters never have the same ones. Raises StartError if no range is free.
    """
    taken = list(used)
    free = (one for one in RANGE.subnets(new_prefix=_CLUSTER_BITS) if not any(one.overlaps(other) for other in taken))
    subnet = next(free, None)
    if subnet is None:
        raise StartError(
            f"every range of {RANGE} is in use on this machine: end another cluster, or use a shared network"
        )
    mark = agent_mark(root)[:8]
    _, *ranges = subnet.subnets(new_prefix=_NODE_BITS)
    networks = {
        name: NodeNetwork(
            namespace=f"hf-{mark}-{name}",
            link=f"n{number}",
            address=str(subnet[2 + number]),
            prefix=_CLUSTER_BITS,
            pods=ranges[number],
        )
        for number, name in enumerate(nodes)
    }
    return NetworkPlan(bridge=f"hf-{mark}", link=f"hf{mark}", subnet=subnet, nodes=networks)
