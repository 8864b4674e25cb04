"""Trainings on several nodes, from the cheapest answer to a fault to the most expensive one."""

from datetime import timedelta
from typing import Any

from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import TIERS, node

from holdfast.api.status import Phase

SPOT, DEDICATED = ({**tier, "acquireTimeout": "60s"} for tier in TIERS[:2])


def trains(size: int = 3, tiers: tuple[dict[str, Any], ...] = (SPOT, DEDICATED), **spec: Any) -> GangWorld:
    """A training on nodes n1 to n3 of tier spot; a dedicated tier has as many nodes."""
    world = GangWorld(size=size, spec={"capacity": {"tiers": list(tiers), "returnPolicy": "Eager"}, **spec})
    world.free[:] = [f"n{number}" for number in range(1, size + 1)]
    world.settle()
    world.train()
    for number in range(size):
        world.nodes[f"d{number}"] = node(f"d{number}", labels={"tier": "dedicated"})
        world.free.append(f"d{number}")
    return world


def tier_of(world: GangWorld) -> str:
    """The tier of the current attempt."""
    assert world.status.current is not None
    return world.status.current.tier.name


def test_without_a_node_for_the_new_pod_all_go_to_the_next_tier():
    world = trains()
    world.remove(world.node_of(1))
    world.settle()
    world.pass_time(59)
    assert tier_of(world) == "spot"
    assert not {"vit-1-0", "vit-1-2"} & set(world.deleted), "two pods wait with their memory"
    world.pass_time(2)
    world.pass_time(10)
    world.pass_time(30)
    assert tier_of(world) == "dedicated"
    assert world.trains()
    assert world.status.restarts.interruptions == 1
    current = world.status.current
    assert current.members == (), "all pods are new"


def test_a_successor_goes_to_the_next_tier_with_all_pods_while_the_current_one_trains():
    world = trains(checkpoint={"storage": {"s3": {"bucket": "runs", "prefix": "x"}}, "gracePeriod": "600s"})
    world.notice(world.node_of(2))
    world.settle()
    assert world.created[3:] == ["vit-2-2"]
    assert world.status.successor.tier.name == "spot"
    world.pass_time(30)
    world.train()
    world.pass_time(31)
    successor = world.status.successor
    if successor is not None:
        assert successor.tier.name == "dedicated"
    world.leave()
    world.pass_time(10)
    world.leave()
    assert tier_of(world) == "dedicated"
    assert world.trains()
    assert world.status.ledger.steps_lost == 0


def test_a_better_tier_that_is_back_gets_a_second_set_of_pods_and_then_the_training():
    world = trains()
    world.remove(world.node_of(1))
    for _ in range(4):
        world.pass_time(40)
    assert tier_of(world) == "dedicated"
    world.train()
    for number in range(4, 7):
        world.nodes[f"n{number}"] = node(f"n{number}")
        world.free.append(f"n{number}")
    for _ in range(40):
        world.now += timedelta(seconds=30)
        world.train()
        world.leave()
        if tier_of(world) == "spot":
            break
    assert tier_of(world) == "spot"
    world.pass_time(5)
    assert world.trains()
    assert world.status.ledger.steps_lost == 0
    spot = [name for name in world.created if name.startswith(f"vit-{world.status.current.number}-")]
    assert len(spot) == 3, "a pod for every rank, beside those that trained"


def test_attempts_without_a_step_end_the_job_with_the_evidence():
    world = trains(tiers=(SPOT,), failure={"maxFailures": 100, "maxFruitless": 5})
    for number in range(7):
        world.free.append(f"n1{number}")
        world.nodes[f"n1{number}"] = node(f"n1{number}")
    members = []
    for _ in range(6):
        world.fail(1, "ValueError: bad batch")
        world.settle()
        world.pass_time(400)
        if world.status.phase is Phase.FAILED:
            break
        members.append([(group.born, group.ranks) for group in world.status.current.members])
    assert world.status.phase is Phase.FAILED
    said = world.status.decision.message
    assert "5 x UserException" in said
    assert "rank 1" in said
    assert "bad batch" in said
