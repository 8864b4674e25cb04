"""What a training on several nodes costs, from the first node that comes."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.running_gangs import running
from tests.support.decisions.snapshots import TIERS, verdict

from holdfast.api.status import Phase
from holdfast.core.books.ledger import as_of, by_tier
from holdfast.serve.collectors import spend_by_kind


def test_nodes_that_wait_for_the_last_one_are_paid_for():
    """Breaks if a training that waits long for its last node, and gives the others back, looks free."""
    tiers = [{**TIERS[0], "acquireTimeout": "10m"}, {**TIERS[1], "acquireTimeout": "10m"}]
    world = GangWorld(spec={"capacity": {"tiers": tiers}})
    world.free = ["n1", "n2"]
    world.settle()
    world.now += timedelta(minutes=5)
    world.free.append("n3")
    world.settle()
    world.pass_time(301)
    assert world.status.current.tier.name == "dedicated"
    assert float(world.status.history[0].node_hours) == pytest.approx(25 / 60, abs=0.01)
    assert float(world.status.ledger.spent) == pytest.approx(25 / 60 * 1.02, abs=0.01)


def test_nodes_that_came_before_the_last_one_are_paid_for():
    world = GangWorld(spec={"capacity": {"tiers": [{**TIERS[0], "acquireTimeout": "9h"}]}})
    world.free = ["n1", "n2", "n3"]
    world.settle()
    world.now += timedelta(minutes=10)
    world.free.append("n4")
    world.settle()
    world.train()
    world.now += timedelta(hours=1)
    world.fail(2)
    world.settle()
    assert float(world.status.history[0].node_hours) == pytest.approx(0.5 + 4)
    assert float(world.status.ledger.spent) == pytest.approx(4.5 * 1.02)


def test_every_node_is_paid_for():
    world = running()
    world.now += timedelta(hours=1)
    world.fail(2)
    world.settle()
    world.now += timedelta(hours=1)
    world.train()
    assert float(world.status.ledger.spent) == pytest.approx(4 * 2 * 1.02)
    assert float(world.status.history[0].node_hours) == pytest.approx(4)


def test_nodes_that_wait_for_the_last_one_use_up_the_budget():
    """Breaks if a training that never gets its last node spends more than its budget on the others."""
    tier = {**TIERS[0], "acquireTimeout": "24h"}
    world = GangWorld(spec={"capacity": {"tiers": [tier], "budget": "2"}})
    world.free = ["n1", "n2"]
    world.settle()
    for _ in range(400):  # every 20 s while it holds a part
        assert world.status.phase is Phase.ACQUIRING
        world.now = world.last.requeue_at
        world.settle()
        if world.status.phase is not Phase.ACQUIRING:
            break
    assert world.status.phase is Phase.SUSPENDED
    assert world.status.reason == "BudgetExceeded"
    assert not world.pods
    assert 1 < world.status.ledger.spent <= 2


# --- one answer to "which nodes does it pay for now" ------------------------------------------------------------------


def living(world: GangWorld) -> int:
    """How many nodes the training's pods are on."""
    return len({pod.node for pod in world.pods.values() if pod.node and not pod.ended})


def check_money(world: GangWorld) -> None:
    """The rate is that of the nodes that pods are on, and Prometheus has the same money as status."""
    assert sum(spend_by_kind(world.status).values()) == pytest.approx(1.02 * living(world))
    assert spent(world) == pytest.approx(float(as_of(world.status, world.snapshot().grid, world.now).spent), abs=1e-4)


def spent(world: GangWorld) -> float:
    """The money as Prometheus gets it."""
    return sum(float(one.spent) for one in by_tier(world.status, world.now))


def test_while_one_of_several_is_replaced_five_nodes_are_paid_for():
    world = running()
    world.notice(world.node_of(2))
    for _ in range(12):
        world.decide()
        if world.status.successor and world.status.successor.scheduled_at:
            break
        world.schedule()
    assert living(world) == 5
    check_money(world)


@pytest.mark.parametrize("held", [1, 2, 3])
def test_nodes_that_wait_for_the_rest_are_paid_for_everywhere(held):
    world = GangWorld()
    world.free = ["n1", "n2", "n3"][:held]
    world.settle()
    world.pass_time(20)  # a count alone is not written while an attempt comes up quickly
    check_money(world)
    world.pass_time(220)
    assert living(world) == held
    assert spent(world) == pytest.approx(held * 240 / 3600 * 1.02, abs=1e-3)
    check_money(world)


def test_nodes_that_come_one_by_one_are_paid_for_from_their_time_on():
    world = GangWorld()
    world.free = []
    world.settle()
    for number in range(1, 5):
        world.free.append(f"n{number}")
        world.pass_time(60)
        check_money(world)
    assert spent(world) == pytest.approx((1 + 2 + 3) * 60 / 3600 * 1.02, abs=1e-3)


# --- pods that come and go while others wait --------------------------------------------------------------------------


def delete(world: GangWorld, rank: int) -> None:
    """Somebody deletes the pod of this rank."""
    uid = next(uid for uid, pod in world.pods.items() if pod.rank == rank and not pod.deleted_at)
    world.pods[uid] = replace(world.pods[uid], deleted_at=world.now + timedelta(seconds=30), deletion_grace=30)


def test_pods_without_a_node_cost_nothing_when_one_of_them_is_deleted():
    """Breaks if a job with a budget is suspended for nodes that it never had."""
    world = GangWorld(spec={"capacity": {"tiers": [TIERS[0]]}})
    world.free = []
    world.settle()
    delete(world, 1)
    world.pass_time(3600)
    assert world.status.ledger.spent == 0
    check_money(world)


def test_a_node_is_paid_for_once_when_another_pod_is_deleted_before_it_has_one():
    world = running(capacity={"tiers": [TIERS[0]]})
    world.remove(world.node_of(2))
    world.remove(world.node_of(3))
    world.free = [pod.node for pod in world.pods.values()][:2]
    world.settle()
    before = spent(world)
    world.pass_time(600)
    delete(world, 3)
    world.pass_time(600)
    assert spent(world) - before == pytest.approx(2 * 1200 / 3600 * 1.02, abs=1e-3)
    check_money(world)


def test_a_pod_that_was_taken_over_is_paid_for_until_it_is_lost():
    """Breaks if the time of a pod that is lost while its training waits for another one is in no sum."""
    world = running(capacity={"tiers": [TIERS[0]]})
    world.remove(world.node_of(3))
    world.free = [pod.node for pod in world.pods.values()][:3]
    world.settle()
    world.pass_time(600)
    before = spent(world)
    world.remove(next(pod.node for pod in world.pods.values() if pod.rank == 2 and pod.node in world.nodes))
    world.settle()
    assert spent(world) == pytest.approx(before)
    world.pass_time(60)
    assert spent(world) - before == pytest.approx(2 * 60 / 3600 * 1.02, abs=1e-3)


def test_a_price_that_changes_while_others_wait_is_charged_once():
    world = GangWorld(spec={"capacity": {"tiers": [TIERS[0]]}})
    world.free = ["n1", "n2"]
    world.settle()
    world.pass_time(120)
    world.edit(capacity={"tiers": [{**TIERS[0], "pricePerNodeHour": "2.04"}]})
    world.settle()
    world.pass_time(120)
    world.free += ["n3", "n4"]
    world.settle()
    assert world.status.current.scheduled_at == world.now
    assert spent(world) == pytest.approx(2 * (120 * 1.02 + 120 * 2.04) / 3600, abs=1e-3)


def test_nodes_are_paid_for_until_the_last_pod_has_ended():
    world = running()
    world.edit(suspend=True)
    world.decide()
    world.end_pod(world.uid(0), 0, verdict("drained", "SavedAndLeft", step=10))
    world.now += timedelta(seconds=40)
    for rank in (1, 2, 3):
        world.end_pod(world.uid(rank), 0, verdict("drained", "SavedAndLeft", step=10))
    world.settle()
    assert world.status.phase is Phase.SUSPENDED
    assert spent(world) == pytest.approx(4 * 40 / 3600 * 1.02, abs=1e-3)


def test_nodes_are_paid_for_while_the_cause_of_an_end_is_found():
    """Breaks if the time in which the other nodes wait for the one that failed is in no sum."""
    world = running()
    world.now += timedelta(seconds=600)
    world.fail(2, explained=False)
    world.pass_time(60)
    world.pass_time(600)
    assert [record.number for record in world.status.history] == [1]
    assert spent(world) == pytest.approx(4 * 1260 / 3600 * 1.02, abs=1e-3)
