"""How many nodes are ready, as `kubectl get` shows it."""

from datetime import timedelta

from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import TIERS, node

from holdfast.api.status import Phase


def test_the_count_follows_the_nodes_that_were_found():
    world = GangWorld()
    world.free = ["n1", "n2", "n3"]
    world.settle()
    assert world.status.phase is Phase.ACQUIRING
    assert world.status.ready_nodes == "0/4", "a count alone is not written while all comes up quickly"
    world.pass_time(20)
    assert world.status.ready_nodes == "3/4"
    world.free.append("n4")
    world.settle()
    assert world.status.ready_nodes == "4/4"
    world.train()
    world.complete()
    assert world.status.ready_nodes is None


def test_a_thousand_nodes_that_come_one_by_one_cost_few_writes():
    """Breaks if each node that comes is a write of the status."""
    world = GangWorld(size=60)
    nodes, world.free = world.free, world.free[:1]
    world.settle()
    written = 0
    for name in nodes[1:50]:
        world.free.append(name)
        world.now += timedelta(seconds=1)
        world.schedule()
        before = world.status
        world.decide()
        written += world.status != before
    assert 4 <= written <= 8
    world.now += timedelta(seconds=5)
    world.decide()
    assert world.status.ready_nodes == "50/60", "the last count is not lost"
    shown = world.status
    world.now += timedelta(seconds=5)
    world.decide()
    assert world.status == shown


def test_one_node_shows_no_count():
    world = GangWorld(size=1)
    world.decide()
    assert world.status.ready_nodes is None


def test_nodes_are_counted_while_a_quota_refuses_the_other_pods():
    """Breaks if a training that pays for two nodes says that it has none."""
    world = GangWorld()
    world.refuse_after = 2
    world.settle()
    world.pass_time(10)
    assert world.status.ready_nodes == "2/4"
    assert "exceeded quota" in world.status.decision.message
    world.pass_time(20)
    assert world.status.ready_nodes == "0/4", "they are given back"
    assert "exceeded quota" in world.status.decision.message


def test_nodes_of_a_successor_are_paid_for_while_it_waits_for_the_others():
    """Breaks if the rate of money follows the count that is shown, which is of the attempt that trains."""
    tiers = [{**TIERS[0], "observation": "Billed"}, {**TIERS[1], "acquireTimeout": "60s"}]
    world = GangWorld(size=3, spec={"capacity": {"tiers": tiers, "returnPolicy": "Eager"}})
    world.free[:] = ["d1", "d2", "d3"]
    world.nodes.clear()
    world.nodes.update({name: node(name, labels={"tier": "dedicated"}) for name in world.free})
    for _ in range(10):
        world.pass_time(100)
    world.train()
    world.nodes |= {"n1": node("n1"), "n2": node("n2")}
    world.free += ["n1", "n2"]
    held = False
    for _ in range(60):
        world.pass_time(20)
        world.train()
        after = world.status.successor
        if after is not None and after.scheduled_at is None:
            there = sum((pod.node or "").startswith("n") for pod in world.pods.values())
            held = held or there > 0
            assert after.holds == there
    assert held
