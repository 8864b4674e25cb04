"""Pods of several nodes that exist before status has their attempt."""

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.running_gangs import ended, running

from holdfast.api.status import Phase
from holdfast.core.decide import decide
from holdfast.core.decision import CreatePod


@pytest.mark.parametrize("fenced", [True, False])
def test_the_new_pod_of_a_lost_node_need_not_wait_for_status_behind_a_fence(fenced):
    world = GangWorld(fenced=fenced)
    world.settle()
    world.train()
    world.remove(world.node_of(2))
    made = [action for action in decide(world.snapshot()).actions if isinstance(action, CreatePod)]
    assert [(action.rank, action.promised) for action in made] == [(2, fenced)]


def test_the_first_pods_of_all_nodes_wait_for_status():
    made = [action for action in decide(GangWorld().snapshot()).actions if isinstance(action, CreatePod)]
    assert [action.promised for action in made] == [False] * 4


@pytest.mark.parametrize("suspend", [False, True])
def test_a_new_pod_whose_attempt_never_came_into_status_is_deleted(suspend):
    """Breaks if the pod holds its node for ever after its operator has died, or if the interruption counts twice."""
    world = running()
    world.remove(world.node_of(2))
    world.promise()
    if suspend:
        world.job = world.job.model_copy(update={"spec": world.job.spec.model_copy(update={"suspend": True})})
    world.settle()
    world.pass_time(120)
    assert "vit-2-2" in world.deleted
    assert ended(world)[0] == ("Interruption", "NodeGone", 2)
    assert world.status.restarts.interruptions == 1
    if suspend:
        assert world.status.phase is Phase.SUSPENDED
        assert not [pod for pod in world.pods.values() if not pod.ended and pod.node in world.nodes]
    else:
        world.train()
        assert world.created[4:] == ["vit-2-2", "vit-3-2"]
