"""How many nodes are ready, as `kubectl get` shows it."""

from datetime import timedelta

from tests.support.decisions.gang_world import GangWorld

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
    for _ in range(4):
        world.pass_time(20)
        assert "exceeded quota" in world.status.decision.message
    assert world.status.ready_nodes == "2/4"
