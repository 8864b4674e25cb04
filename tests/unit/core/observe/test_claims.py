"""What a training on several nodes claims, as others see it."""

from dataclasses import replace

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import NOW, TIERS, node, nodes

from holdfast.core.observe.claims import Claim, claims_of, has_claims

ONLY = {"capacity": {"tiers": [TIERS[0]]}}


def acquiring(free: int) -> GangWorld:
    """Three nodes are wanted, some are free."""
    world = GangWorld(size=3, spec=ONLY)
    world.free[:] = [f"n{number}" for number in range(1, free + 1)]
    world.settle()
    return world


def claim(world: GangWorld) -> Claim:
    """The only claim."""
    (found,) = claims_of(world.job, world.pods.values())
    return found


def test_a_new_job_claims_nothing_until_it_has_an_attempt():
    world = GangWorld(size=3, spec=ONLY)
    assert not has_claims(world.job)
    assert not has_claims(None)
    world.decide()
    found = claim(world)
    assert (found.held, found.short, found.in_line) == (0, False, False)
    assert not found.matters, "the scheduler has not said anything yet"


@pytest.mark.parametrize(("free", "held", "part"), [(0, 0, False), (1, 1, True), (2, 2, True)])
def test_what_is_held_and_what_is_lacking(free, held, part):
    found = claim(acquiring(free))
    assert (found.held, found.short, found.holds_part, found.blocks(found)) == (held, True, part, part)
    assert found.until is not None
    assert found.counts(NOW)
    assert not found.counts(found.until)


def test_all_nodes_are_no_claim():
    assert claims_of((world := acquiring(3)).job, world.pods.values()) == ()


def test_one_node_is_no_claim():
    world = GangWorld(size=1, spec=ONLY)
    world.free[:] = []
    world.settle()
    assert claims_of(world.job, world.pods.values()) == ()


def test_pods_of_an_earlier_job_with_this_name_do_not_count():
    world = acquiring(2)
    others = [replace(pod, job_uid="u-earlier") for pod in world.pods.values()]
    (found,) = claims_of(world.job, others)
    assert found.held == 0


def test_a_refused_pod_is_lacking():
    world = GangWorld(size=3, spec=ONLY)
    world.refuse_after = 2
    world.settle()
    found = claim(world)
    assert (found.held, found.short, found.refused, found.matters) == (2, False, True, True)


def test_one_that_lost_a_node_comes_before_one_that_has_not_started():
    world = acquiring(3)
    world.train()
    world.remove(world.node_of(1))
    world.settle()
    other = GangWorld(size=3, spec=ONLY, name="llm")
    other.decide()
    assert claim(world).order < claim(other).order
    assert claim(world).order[0] == 0


def test_who_competes():
    spot = claim(acquiring(2))
    zone = replace(spot, selector=frozenset({("zone", "a")}))
    assert spot.competes(replace(spot, job="other"), nodes())
    assert not spot.competes(zone, nodes())
    assert spot.competes(zone, nodes(node("n9", labels={"tier": "spot", "zone": "a"})))
    assert zone.competes(spot, nodes(node("n9", labels={"tier": "spot", "zone": "a"})))
