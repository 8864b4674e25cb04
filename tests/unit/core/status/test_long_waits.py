"""Waits that only the outside world can end: each says what ends it, and the job is looked at again."""

from dataclasses import replace

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.liveness import check_alive
from tests.support.decisions.snapshots import (
    at,
    attempt,
    drain,
    job,
    node,
    nodes,
    pod,
    settled,
    silent,
    snapshot,
    status,
    stored,
)

from holdfast.api.attempt import AttemptState
from holdfast.core.observe.nodes import ClusterView

HALF = nodes(silent("n1", 5000), silent("n2", 5000))


def leaving(*, fenced=False, **order):
    fields = {"at": at(-9000), "deadline": at(-8900), "deleted_at": at(-8900), "kill_at": at(-8800), **order}
    return attempt(state=AttemptState.DRAINING, fenced=fenced, drain=drain(**fields))


def test_a_plain_program_that_does_not_end_after_a_drain_says_so_once_and_is_looked_at_again():
    given = snapshot(job(status(leaving())), pod(deleted_at=at(-8800)))
    decision = settled(given)
    assert decision.trace == ()
    assert decision.status.reason == "NeverEnded"
    assert "pod vit-1-0 did not end within its grace" in decision.status.decision.message
    assert "the kubelet of node n1" in decision.status.decision.message
    assert [event.reason for event in decision.events] == ["NeverEnded"]
    check_alive(given, decision)
    later = stored(given.job, decision.status)
    again = settled(replace(given, job=later))
    assert (again.status, again.events, again.requeue_at) == (later.status, (), at(3600))
    assert "delete the pod by force" in str(later.status.next)


def test_a_drain_within_its_grace_is_not_called_stuck():
    within = {"deadline": at(98), "deleted_at": at(-1), "kill_at": at(98), "at": at(-6)}
    given = snapshot(job(status(leaving(**within))), pod(deleted_at=at(98)))
    decision = settled(given)
    assert decision.status.reason == "SpotInterruption"
    assert decision.requeue_at == at(98)
    assert str(decision.status.next).startswith("The attempt must leave by 2026-11-21T09:01:38Z")
    later = settled(replace(given, job=stored(given.job, decision.status), now=at(98)))
    assert later.requeue_at == at(128)
    assert str(later.status.next).startswith("The time to leave is over"), "nothing else has changed"


@pytest.mark.parametrize("state", [AttemptState.STARTING, AttemptState.RUNNING])
def test_an_outage_of_half_the_nodes_keeps_a_plain_program_and_says_what_ends_the_wait(state):
    given = snapshot(job(status(attempt(state=state))), pod(), cluster=HALF)
    decision = settled(given)
    assert decision.actions == ()
    assert decision.status.reason == "NodeSilent"
    for words in ("fell silent together", "the node answers again", "node.kubernetes.io/out-of-service"):
        assert words in decision.status.decision.message
    check_alive(given, decision)


def test_an_outage_while_a_plain_program_leaves_is_explained_too():
    given = snapshot(job(status(leaving(deleted_at=None, kill_at=None))), pod(), cluster=HALF)
    decision = settled(given)
    assert "its pod is kept" in decision.status.decision.message
    check_alive(given, decision)
    back = settled(replace(given, job=stored(given.job, decision.status), cluster=ClusterView([node()])))
    assert back.status.decision.message != decision.status.decision.message


def test_behind_the_fence_an_outage_ends_after_a_while():
    given = snapshot(job(status(attempt(fenced=True))), pod(), cluster=nodes(silent("n1"), silent("n2")))
    assert "is kept for 10m" in settled(given).status.decision.message


def test_the_silent_one_of_several_nodes_is_named():
    """Breaks if people are sent to the node of rank 0, or are told that a silent node answers again."""
    world = GangWorld()
    world.settle()
    world.train()
    quiet = world.node_of(2)
    world.silence(quiet, alone=True)
    world.decide()
    assert world.status.reason == "NodeSilent"
    assert f"node {quiet} (rank 2) is silent" in world.status.next
    world.silence(world.node_of(3), alone=True)
    world.silence(quiet, ready=True)
    world.decide()
    assert "(rank 3) is silent" in world.status.next
    world.silence(world.node_of(3), ready=True)
    world.decide()
    assert world.status.decision.message == "all nodes answer again"


@pytest.mark.parametrize("suspend", [True, False])
def test_every_job_that_is_not_over_is_looked_at_again_within_an_hour(suspend):
    given_status = status(suspended_at=at(-9000)) if suspend else status(attempt())
    decision = settled(snapshot(job(given_status, suspend=suspend), *([] if suspend else [pod()])))
    assert decision.requeue_at == at(3600)
