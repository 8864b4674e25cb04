"""What is made in the network of a node stays in it, and a node that is cut off reaches nobody."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.cluster.isolated import needs_isolation

from holdfast_local.agent.addresses import SHARED, PodAddresses
from holdfast_local.agent.container.network import IsolatedNetwork, Network
from holdfast_local.agent.container.process import Reaper
from holdfast_local.agent.errors import AgentError
from holdfast_local.network import links
from holdfast_local.network.plan import make_plan

TCP = (socket.AF_INET, socket.SOCK_STREAM, 0)
Nodes = dict[str, IsolatedNetwork]


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    """Two nodes, `a` and `b`."""
    reaper = Reaper()
    reaper.install()
    with links.choosing() as used:
        plan = make_plan(tmp_path, ["a", "b"], used)
        links.make(plan)
    try:
        yield {name: IsolatedNetwork(one, plan.bridge, reaper) for name, one in plan.nodes.items()}
    finally:
        reaper.remove()
        links.remove(plan)


# Breaks if gloo and NCCL listen at the address of the host name, which is one of the machine: no other node reaches it.
@needs_isolation
async def test_libraries_are_told_the_interface_of_the_node(nodes: Nodes) -> None:
    with nodes["a"].entered():
        there = {name for _, name in socket.if_nameindex()}
    assert set(nodes["a"].environment.values()) <= there
    assert nodes["a"].environment.keys() == {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}
    assert Network(PodAddresses(SHARED, 0)).environment == {}


def _namespace() -> str:
    return str(Path("/proc/thread-self/ns/net").readlink())


async def reaches(network: Network, address: tuple[str, int]) -> bool:
    """Whether a connection from there comes about within a second."""
    with network.open_socket(TCP) as connection:
        connection.setblocking(False)
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(connection, address), 1)
            return True
    return False


def listening(network: Network) -> tuple[socket.socket, tuple[str, int]]:
    """A server on an address of a pod."""
    server = network.open_socket(TCP)
    server.bind((network.pods.take(), 29500))
    server.listen()
    return server, server.getsockname()


# Breaks if a pod is not reached from another node, if two nodes share a port, or if a cut or its end has no effect.
@needs_isolation
async def test_a_node_that_is_cut_off_reaches_nobody_and_comes_back(nodes: Nodes) -> None:
    a, b = nodes["a"], nodes["b"]
    (server_a, pod_a), (server_b, pod_b) = listening(a), listening(b)
    with server_a, server_b:
        assert pod_a[0] != pod_b[0]
        assert await reaches(a, pod_b)
        await b.cut()
        assert not await reaches(a, pod_b)
        assert not await reaches(b, pod_a)
        assert await reaches(b, pod_b), "what runs on the node itself stays connected"
        await b.join()
        async with asyncio.timeout(20):  # the kernel needs up to a second to notice that a link is up
            while not (await reaches(a, pod_b) and await reaches(b, pod_a)):
                pass


# Breaks if this process, or what it starts later, stays in the network of a node.
@needs_isolation
async def test_only_what_is_made_inside_belongs_to_the_node(nodes: Nodes) -> None:
    here = _namespace()
    with pytest.raises(ZeroDivisionError), nodes["a"].entered():
        assert _namespace() != here
        _ = 1 / 0
    assert _namespace() == here
    with nodes["a"].entered():
        names = {name for _, name in socket.if_nameindex()}
    assert names == {"lo", "eth0"}


@needs_isolation
async def test_a_link_that_is_gone_is_named(nodes: Nodes, tmp_path: Path) -> None:
    with links.choosing() as used:
        plan = make_plan(tmp_path, ["a", "b"], used)
    links.remove(plan)
    with pytest.raises(AgentError, match=r"`ip -n hf-\w+ link set n0 down` failed: .*"):
        await nodes["a"].cut()


async def test_nodes_of_a_shared_network_stay_connected() -> None:
    network = Network(PodAddresses(SHARED))
    await network.cut()
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert await reaches(network, server.getsockname())
