"""The network that a node and its pods are in."""

import ctypes
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from holdfast_local.agent.addresses import PodAddresses
from holdfast_local.agent.config import INTERFACE, NodeNetwork
from holdfast_local.agent.container.process import Reaper
from holdfast_local.agent.errors import AgentError

_CLONE_NEWNET = 0x40000000
_NAMESPACES = "/var/run/netns"
_OWN = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


class Network:
    """The network of the machine, which all nodes share."""

    isolated = False
    environment: Mapping[str, str] = {}  # of each container

    def __init__(self, pods: PodAddresses, address: str = "127.0.0.1") -> None:
        self.pods = pods
        self.address = address  # of the node itself

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Sockets and processes that are made inside belong to this network. Do not wait inside: it is for a thread."""
        yield

    def open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """A socket in this network for an address of `getaddrinfo`."""
        family, kind, protocol, *_ = info
        with self.entered():
            return socket.socket(family, kind, protocol)

    async def cut(self) -> None:
        """Cut the node off, where it has a network of its own; what it sends is lost without an error."""

    async def join(self) -> None:
        """Connect the node again; no-op if it is connected."""


class IsolatedNetwork(Network):
    """A network namespace of the node's own, plugged into a bridge."""

    isolated = True
    # In a real pod the host name stands for the address of the pod; here it stands for an address of the machine, which
    # other nodes do not reach. So libraries that would look up the host name are told the interface.
    environment: Mapping[str, str] = {"GLOO_SOCKET_IFNAME": INTERFACE, "NCCL_SOCKET_IFNAME": INTERFACE}

    def __init__(self, network: NodeNetwork, bridge: str, reaper: Reaper) -> None:
        """Raises AgentError if the namespace is not there."""
        super().__init__(PodAddresses(network.pods), network.address)
        self._network = network
        self._bridge = bridge
        self._reaper = reaper
        try:
            self._inside = os.open(f"{_NAMESPACES}/{network.namespace}", os.O_RDONLY | os.O_CLOEXEC)
            self._outside = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as err:
            raise AgentError(f"network namespace {network.namespace}: {err.strerror}; was it removed?") from err

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Sockets and processes that are made inside belong to the node. Do not wait inside: it is for a thread."""
        _enter(self._inside)
        try:
            yield
        finally:
            _enter(self._outside)

    async def cut(self) -> None:
        """Unplug the node at the bridge: the node and the others notice only that nothing answers."""
        await self._plug("down")

    async def join(self) -> None:
        """Plug the node in again."""
        await self._plug("up")

    async def _plug(self, state: str) -> None:
        command = ["ip", "-n", self._bridge, "link", "set", self._network.link, state]
        with tempfile.TemporaryFile() as output:
            try:
                _, ended = self._reaper.start(command, os.environ, "/", output.fileno())
            except OSError as err:
                raise AgentError(f"`ip` cannot be run: {err}") from err
            if await ended != 0:
                output.seek(0)
                words = output.read().decode(errors="replace").strip()
                raise AgentError(f"`{' '.join(command)}` failed: {words}")


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
