"""Trainings beside nodes that cannot take their pods: these nodes promise nothing, and nothing waits for them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import NOW, TIERS, node

LARGE = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
SMALL = {**LARGE, "nvidia.com/gpu": "1"}
TRAINER = {"image": "x", "command": ["t"], "acceleratorsPerNode": 8, "resources": {"memory": "1Gi", "cpu": "1"}}


def world_of(size: int, tiers: list[dict[str, Any]], offers: dict[str, str] = LARGE, **spec: Any) -> GangWorld:
    """A training with 8 accelerators on each of its nodes; spot has nodes enough that offer this."""
    capacity = {**spec.pop("capacity", {}), "tiers": tiers}
    world = GangWorld(size=size, spec={"trainer": {**TRAINER, "nodes": size}, "capacity": capacity, **spec})
    for name in world.nodes:
        world.nodes[name] = replace(world.nodes[name], allocatable=offers)
    return world


def with_dedicated(world: GangWorld, offers: dict[str, str]) -> None:
    """Dedicated nodes that offer this; the scheduler gives them only if they are large."""
    for number in range(world.size):
        world.nodes[f"d{number}"] = node(f"d{number}", labels={"tier": "dedicated"}, allocatable=offers)
        if offers == LARGE:
            world.free.append(f"d{number}")


# Breaks if the deadline is promised with nodes that are too small for the pods, and the job leaves a good Spot node for
# them, and waits.
@pytest.mark.parametrize("observation", [{"observation": "Free"}, {}], ids=["Free", "not known"])
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(("offers", "promised"), [(SMALL, False), (LARGE, True)], ids=["too small", "large enough"])
def test_a_deadline_is_promised_only_with_nodes_that_fit(size, observation, offers, promised):
    deadline = (NOW + timedelta(hours=3.9)).isoformat().replace("+00:00", "Z")
    tiers = [{**one, "pace": "10s", "acquireTimeout": "5m", **observation} for one in TIERS[:2]]
    limits = {"policy": "Deadline", "deadline": deadline}
    world = world_of(size, tiers, goal={"steps": 1000}, capacity=limits)
    with_dedicated(world, offers)
    world.settle()
    for _ in range(15 if promised else 40):
        world.pass_time(120)
        if world.trains():
            world.train(12)
        world.leave()
        (risk,) = [one for one in world.status.conditions if one.type == "DeadlineAtRisk"]
        assert (risk.status == "False") is promised, risk.message
        assert world.status.current.tier.name == "spot"


# Breaks if a policy that looks for the lowest price plans with cheap nodes that are too small.
@pytest.mark.parametrize("size", [1, 4])
def test_a_cheap_tier_with_small_nodes_is_not_up(size):
    world = world_of(size, list(TIERS[:2]), SMALL, goal={"steps": 100_000}, capacity={"policy": "Cheapest"})
    world.free.clear()
    with_dedicated(world, LARGE)
    world.settle()
    for _ in range(60):
        world.pass_time(60)
        if world.trains():
            world.train(6)
        world.leave()
        assert world.status.current.tier.name == "dedicated"
        assert "no cheaper tier is up now" in world.status.decision.message


# Breaks if a training on several nodes waits for another node than the only one that is free, and pays for the rest.
def test_a_lost_rank_gets_its_node_again_if_the_others_are_full():
    world = world_of(2, [TIERS[0]])
    del world.nodes["n4"]
    world.free.remove("n4")
    other = GangWorld(size=1, name="other", beside=world, spec={"trainer": TRAINER, "capacity": {"tiers": [TIERS[0]]}})
    other.settle()
    world.settle()
    assert world.trains()
    assert [pod.node for pod in other.pods.values()] == ["n1"]
    lost = world.node_of(1)

    world.end_pod(world.uid(1), 137)
    for _ in range(30):
        world.pass_time(1)
    assert world.status.current.avoid_nodes == ()
    assert world.trains(), world.status.decision.message
    assert world.node_of(1) == lost
