"""Addresses for pods out of one range: no two living pods have the same one."""

from ipaddress import IPv4Network

from holdfast_local.agent.errors import AddressError

SHARED = IPv4Network("127.64.0.0/10")
"""Where all nodes share the machine's network: loopback addresses that neither a machine nor its resolver uses."""

_EACH = 64


def place_in_shared(port: int) -> int:
    """Where the agent with this kubelet port starts in SHARED: clusters on one machine use different addresses."""
    return port * _EACH


class PodAddresses:
    """Hands out addresses in a circle, so that an address rests as long as possible before another pod gets it.

    A client of a pod that has ended would otherwise reach a pod that it does not know.
    """

    def __init__(self, network: IPv4Network, start: int = 0) -> None:
        self._network = network
        self._next = start % network.num_addresses
        self._taken: set[str] = set()

    def take(self) -> str:
        """An address that no living pod has. Raises AddressError if all are taken."""
        for _ in range(self._network.num_addresses):
            address = self._network[self._next]
            self._next = (self._next + 1) % self._network.num_addresses
            # Some programs take an address that ends so for that of a network or a broadcast.
            if address.packed[-1] not in (0, 255) and str(address) not in self._taken:
                self._taken.add(str(address))
                return str(address)
        raise AddressError(f"no address of {self._network} is free: {len(self._taken)} pods live")

    def give_back(self, address: str) -> None:
        """The pod with this address has ended."""
        self._taken.discard(address)
