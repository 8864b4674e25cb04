"""Requests for a training on several nodes."""

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.running_gangs import ended, running
from tests.support.decisions.snapshots import at, tier
from tests.unit.core.table.gang_cases import BOTH, SHARED, TRAINS, given, two

from holdfast.api.attempt import AttemptState
from holdfast.api.names import ANNOTATION_MOVE
from holdfast.core.attempt.drain import redirect
from holdfast.core.draft import Draft
from holdfast.core.observe.members import fresh_ranks


def move(world: GangWorld, argument: str) -> None:
    """Somebody requests a move, which is decided at once."""
    request(world, f"r1 {argument}")
    world.settle()


def request(world: GangWorld, words: str) -> None:
    """Somebody requests a move: the id of the request, and its argument."""
    changed = world.job.metadata.model_copy(update={"annotations": {ANNOTATION_MOVE: words}})
    world.job = world.job.model_copy(update={"metadata": changed})


@pytest.mark.parametrize("answers", [True, False])
def test_a_move_away_from_one_node_keeps_the_other_pods(answers):
    """Breaks if the node of rank 0 is left, whichever node was meant, or if pods end that are to go on."""
    world = running()
    left = world.node_of(2)
    move(world, f"node={left}")
    assert world.created[4:] == ["vit-2-2"]
    if answers:
        world.leave()
    for _ in range(30):
        world.pass_time(10)
    assert world.deleted == ["vit-1-2"]
    assert world.trains()
    assert world.node_of(2) != left
    assert [kind for kind, *_ in ended(world)] == ["Stopped"]


@pytest.mark.parametrize(("argument", "words"), [("", "name the one to leave"), ("node=n9", "no pod of the training")])
def test_a_move_that_names_no_node_of_several_is_refused(argument, words):
    world = running()
    events = []
    decide, world.decide = world.decide, lambda: events.extend(decide().events)
    move(world, argument)
    assert [one.reason for one in events] == ["MoveRefused"]
    assert words in events[0].message
    assert world.status.current.drain is None


@pytest.mark.parametrize(("state", "words"), [("Starting", "does not run yet"), ("Draining", "leaves already")])
def test_one_of_several_nodes_is_left_only_while_the_program_trains(state, words):
    """Breaks if a request that has no effect says nothing, or says what is not true."""
    world = GangWorld() if state == "Starting" else running()
    if state == "Starting":
        world.decide()
        world.schedule()
    else:
        move(world, f"node={world.node_of(1)}")
    node = next(pod.node for pod in world.pods.values() if pod.node)
    events = []
    decide, world.decide = world.decide, lambda: events.extend(decide().events)
    request(world, f"r2 node={node}")
    world.decide()
    assert world.status.current.state == state
    assert [words in one.message for one in events if one.reason == "MoveRefused"] == [True]


def test_a_successor_that_is_sent_to_another_tier_takes_over_no_pod():
    """Breaks if a training runs on nodes of two tiers after a move, and counts as one on the new tier."""
    leaves = TRAINS.model_copy(update={"state": AttemptState.DRAINING})
    follows = two(2, AttemptState.INTENDED, members=SHARED, retry_at=at(60))
    draft = Draft(given(leaves, *BOTH, successor=follows))
    redirect(draft, tier("dedicated"))
    assert draft.status.successor.tier.name == "dedicated"
    assert fresh_ranks(draft.status.successor) == (0, 1)
