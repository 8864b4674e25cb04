"""Whether the node of a slow rank is left, and what a training on several nodes pays for it."""

from dataclasses import replace

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.histories import record
from tests.support.decisions.running_gangs import ended, running
from tests.support.decisions.snapshots import TIERS, at, attempt, job, nodes, pod, snapshot, status, stepped

from holdfast.api.status import Phase
from holdfast.core.draft import Draft
from holdfast.core.observe.report import SlowRank
from holdfast.core.successor.slow_node import make_plan
from holdfast.core.turn import take_turn

SLOW = SlowRank(rank=3, pod=0, own=0.9, others=0.5, step=1.0)
TRAINS = attempt(fenced=True, first_step=500, progress_at=at(-400), last_step=700, last_step_at=at(-1))
REPLACE = {"slowRanks": {"action": "Replace"}}
SPOT_ONLY = {"tiers": [TIERS[0]]}


def words(slow: SlowRank = SLOW, *, history=(), cluster=None, **spec) -> str:
    """What is planned for the slow rank of a training on node n1."""
    given = job(status(TRAINS, history=history), **{"failure": REPLACE, **spec})
    turn = take_turn(Draft(snapshot(given, pod(), reports=[stepped()], cluster=cluster or nodes())))
    assert turn is not None
    plan = make_plan(turn, slow)
    assert (plan.node is not None) == plan.words.startswith("node n1 is left")
    return plan.words


def test_another_node_is_worth_it_in_a_training_that_goes_on_for_hours():
    assert words() == "node n1 is left once another one is ready"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"failure": {}}, "failure.slowRanks.action is Tell"),
        ({"capacity": {**SPOT_ONLY, "maxOverlap": "0s"}}, "no other attempt"),
        ({"cluster": nodes(without=("n2", "n3", "n4"))}, "no other node"),
        ({"goal": {"steps": 710}}, "not expected to save time"),
        ({"slow": SlowRank(3, 0, own=0.501, others=0.5, step=1.0)}, "not expected to save time"),
        ({"history": (record(node="n9", reason="SlowRank", ended_at=at(-60)),)}, "slow on another node too"),
    ],
    ids=["not wanted", "alone", "no node", "nearly done", "costs little", "again"],
)
def test_a_node_stays_if(what, said):
    """Breaks if a training moves for nothing, or from node to node because one rank has more to do."""
    assert said in words(**what)


def test_a_rank_that_was_slow_on_another_node_yesterday_may_be_on_a_bad_node_today():
    before = record(node="n9", reason="SlowRank", ended_at=at(-25 * 3600))
    assert words(history=(before,)).startswith("node n1 is left")


def slow_on(world: GangWorld, rank: int, **changes: float) -> None:
    """Rank 0 reports that the rank of this pod is slow."""
    lead = world.uid(0)
    told = SlowRank(rank, rank, **{"own": 0.9, "others": 0.5, "step": 1.0, **changes})
    world.reports[lead] = replace(world.reports[lead], slow_ranks=(told,), received_at=world.now)
    world.settle()


def test_the_pod_of_a_slow_rank_is_replaced_while_the_others_train():
    """Breaks if the training stands still until the new node is there, or if more than one pod is new."""
    world = running(failure=REPLACE)
    bad = world.node_of(2)
    lead = world.uid(0)
    world.reports[lead] = replace(world.reports[lead], slow_ranks=(replace(SLOW, rank=2, pod=2),))
    world.decide()
    assert world.trains()
    assert world.status.phase is Phase.RUNNING
    assert world.created[-1] == "vit-2-2"
    condition = next(one for one in world.status.conditions if one.type == "SlowRank")
    assert condition.message.startswith(f"rank 2 on node {bad} works 1.80 times as long in each step as the others")
    world.settle()
    assert world.trains()
    assert world.told, "the other node is ready: the attempt is ordered to save and leave"
    world.leave()
    world.pass_time(10)
    world.train()
    assert ended(world) == [("Stopped", "SlowRank", 2)]
    assert world.status.history[0].node == bad
    assert world.node_of(2) != bad
    assert len(world.created) == 5
    assert world.status.restarts.interruptions == 0
    assert [one.status for one in world.status.conditions if one.type == "SlowRank"] == ["False"]


def test_a_rank_that_is_slow_on_the_new_node_too_stays_there():
    world = running(failure=REPLACE)
    slow_on(world, 2)
    world.pass_time(5)
    world.leave()
    world.pass_time(10)
    world.train()
    slow_on(world, 2)
    world.pass_time(60)
    assert len(world.created) == 5
    condition = next(one for one in world.status.conditions if one.type == "SlowRank")
    assert "its work is the reason" in condition.message


def test_a_node_is_lost_while_another_one_replaces_the_slow_one():
    """Breaks if the two ways in which a training gets new pods are in each other's way."""
    world = running(failure=REPLACE)
    world.free.clear()
    slow_on(world, 2)
    assert world.trains()
    lost = world.node_of(1)
    world.remove(lost)
    world.heal()
    world.pass_time(120)
    for _ in range(20):
        if world.trains():
            break
        world.pass_time(10)
    world.train()
    assert world.status.phase is Phase.RUNNING
    assert world.status.restarts.interruptions == 1
