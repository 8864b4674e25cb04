"""Names and ranges of an isolated network."""

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from holdfast_local.errors import StartError
from holdfast_local.network.plan import MOST_NODES, MOST_PODS, RANGE, make_plan

ROOT = Path("/tmp/c")


# Breaks if two nodes, or a node and the machine, get the same address, or ranges of pods overlap.
def test_no_address_is_given_twice() -> None:
    plan = make_plan(ROOT, [f"n-{number}" for number in range(MOST_NODES)], ())
    nodes = list(plan.nodes.values())
    own = [plan.address, *(node.address for node in nodes)]
    assert len(set(own)) == MOST_NODES + 1
    pods = [node.pods for node in nodes]
    assert not any(one.overlaps(other) for one in pods for other in pods if one is not other)
    assert not any(IPv4Network(address).subnet_of(network) for address in own for network in pods)
    assert all(network.subnet_of(plan.subnet) and network.num_addresses > MOST_PODS for network in pods)
    assert plan.subnet.subnet_of(RANGE)


# Breaks if names are too long for the kernel, or two clusters have the same ones.
def test_names_follow_from_the_root() -> None:
    one, other = (make_plan(Path(root), ["spot-1"], ()) for root in ("/tmp/c", "/tmp/d"))
    assert one == make_plan(ROOT, ["spot-1"], ())
    assert len(one.link) <= 15
    assert {one.link, *one.namespaces}.isdisjoint({other.link, *other.namespaces})
    assert one.namespaces == [one.bridge, f"{one.bridge}-spot-1"]


# Breaks if a second cluster, or another network of the machine, gets a range that is in use.
def test_a_range_that_is_in_use_is_not_chosen() -> None:
    used = [IPv4Network("192.0.2.0/24")]
    for _ in range(16):
        plan = make_plan(ROOT, ["n"], used)
        assert not any(plan.subnet.overlaps(other) for other in used)
        used.append(plan.subnet)
    with pytest.raises(StartError, match=r"every range of 198\.18\.0\.0/15 is in use"):
        make_plan(ROOT, ["n"], used)
