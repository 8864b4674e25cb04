"""Living pods have different addresses, and an address rests before it is used again."""

from ipaddress import IPv4Network

import pytest

from holdfast_local.agent.addresses import SHARED, PodAddresses, place_in_shared
from holdfast_local.agent.errors import AddressError

SMALL = IPv4Network("198.18.1.0/29")


# Breaks if two living pods get the same address.
def test_no_two_living_pods_share_an_address() -> None:
    pool = PodAddresses(SHARED)
    addresses = [pool.take() for _ in range(1000)]
    assert len(set(addresses)) == 1000
    assert addresses[0] == "127.64.0.1"
    assert not any(address.endswith((".0", ".255")) for address in addresses)


# Breaks if the address of a pod that has just ended goes to the next pod while others have rested longer.
def test_an_address_rests_as_long_as_possible() -> None:
    pool = PodAddresses(SMALL)
    first = pool.take()
    pool.give_back(first)
    rest = [pool.take() for _ in range(6)]
    assert first not in rest
    assert pool.take() == first


# Breaks if a range that is used up gives an address twice, or never recovers.
def test_a_range_that_is_used_up_says_so_until_a_pod_ends() -> None:
    pool = PodAddresses(SMALL)
    addresses = [pool.take() for _ in range(7)]
    with pytest.raises(AddressError, match=r"no address of 198\.18\.1\.0/29 is free: 7 pods live"):
        pool.take()
    pool.give_back(addresses[3])
    assert pool.take() == addresses[3]


# Breaks if two clusters on one machine give their pods the same addresses.
def test_clusters_on_one_machine_use_different_addresses() -> None:
    one, other = (PodAddresses(SHARED, place_in_shared(port)) for port in (65535, 65534))
    first = {one.take() for _ in range(60)}
    assert first.isdisjoint(other.take() for _ in range(60))
