"""Several nodes, of which one is silent or has ended: when that is an interruption, and what it hides of the others."""

from datetime import timedelta

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.running_gangs import ended, running
from tests.support.decisions.snapshots import verdict

from holdfast.api.attempt import AttemptState
from holdfast.api.status import Phase

FOLDER = {"storage": {"s3": {"bucket": "runs", "prefix": "p"}}, "folder": "/outputs"}
CLAIM = {"name": "shared", "mountPath": "/outputs", "persistentVolumeClaim": {"claimName": "runs"}}
TRAINER = {"image": "registry.example/train:1", "command": ["python3", "train.py"], "nodes": 4, "volumes": [CLAIM]}
SPECS = {"a folder": {"checkpoint": FOLDER}, "a folder on a claim": {"checkpoint": FOLDER, "trainer": TRAINER}}


def test_a_silent_node_is_an_interruption_only_when_nothing_shows_that_it_trains():
    world = running()
    quiet = world.node_of(1)
    world.silence(quiet)
    world.pass_time(20)
    world.step += 1
    world.train(saved=False)  # its step shows that all ranks live
    assert world.status.history == ()
    world.silence(quiet, ready=True)
    world.pass_time(20)
    assert world.status.history == ()
    assert world.worlds.keys() == {1}, "nothing was started again"


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("steps", [True, False])
def test_a_kubelet_that_is_silent_alone_costs_nothing(rank, steps):
    """Breaks if a training is restarted because one kubelet is cut off, while all launchers are heard."""
    world = running()
    world.silence(world.node_of(rank), alone=True)
    for _ in range(40):
        world.pass_time(5)
        if steps:
            world.train()
    assert world.status.history == ()
    assert world.worlds.keys() == {1}
    world.silence(world.node_of(rank))  # and then its machine dies
    for _ in range(9):
        world.pass_time(5)
    assert ended(world) == [("Interruption", "NodeSilent", rank)]


def test_a_kubelet_that_is_silent_alone_does_not_hide_a_node_that_died():
    """Breaks if only the first silent node is looked at."""
    world = running()
    world.silence(world.node_of(1), alone=True)
    world.silence(world.node_of(3))
    for _ in range(9):
        world.pass_time(5)
    assert ended(world)[0] == ("Interruption", "NodeSilent", 3)


def test_a_dead_node_is_lost_as_soon_as_its_launcher_did_not_answer():
    """Breaks if the open call of a launcher on a dead node delays the interruption."""
    world = running()
    world.now += timedelta(seconds=45)
    world.silence(world.node_of(1))
    world.decide()
    assert world.last.asked == (world.uid(1),)
    assert world.status.history == ()
    world.pass_time(5)
    assert ended(world) == [("Interruption", "NodeSilent", 1)]


def test_a_silent_node_whose_peers_fail_is_the_interruption():
    world = running()
    world.silence(world.node_of(1))
    for rank in (0, 2, 3):
        world.fail(rank, "Connection reset by peer")
    world.pass_time(1)
    assert world.status.history == (), "it was heard a moment ago"
    world.pass_time(34)
    world.pass_time(5)
    assert ended(world) == [("Interruption", "NodeSilent", 1)]
    assert world.created[4:] == ["vit-2-1"]
    world.train()
    assert world.status.restarts.interruptions == 1


@pytest.mark.parametrize(
    ("program", "goes_on"), [("a Run", True), ("a folder", True), ("a folder on a claim", False), ("neither", False)]
)
def test_one_dead_node_is_one_interruption_although_its_silence_is_seen_late(program, goes_on):
    """Breaks if the node counts once as a lost connection, and once more when it is seen to be silent.

    Also if the training waits for the end of a pod that can commit nothing, or runs beside one that can do harm.
    """
    world = GangWorld(fenced=program == "a Run", spec=SPECS.get(program, {}))
    world.settle()
    world.train()
    dead = world.node_of(1)
    world.silence(dead)
    world.silence(dead, ready=True)  # the node controller has not seen it yet
    world.dead.add(dead)
    for rank in (0, 2, 3):
        world.fail(rank, "Connection reset by peer")
    world.pass_time(76)
    assert ended(world) == [("Interruption", "ConnectionLost", 0)]
    assert world.status.current.world is None
    world.silence(dead)
    for _ in range(12):
        world.pass_time(5)
    assert len(ended(world)) == 1
    assert world.trains() is goes_on
    world.remove(dead)
    world.pass_time(50)
    world.pass_time(5)
    assert world.trains()
    assert world.status.restarts.interruptions == 1


def test_suspend_frees_the_other_nodes_while_a_silent_one_without_a_fence_is_waited_for():
    """Breaks if nodes are paid for, perhaps for days, because nobody confirms that one pod of the job has ended."""
    world = GangWorld(fenced=False)
    world.settle()
    world.train()
    silent = world.node_of(2)
    world.silence(silent)
    for _ in range(9):
        world.pass_time(5)
    assert world.status.current.drain.reason == "NodeSilent"
    assert world.deleted == ["vit-1-2"]
    world.job = world.job.model_copy(update={"spec": world.job.spec.model_copy(update={"suspend": True})})
    world.settle()
    assert sorted(world.deleted) == [f"vit-1-{rank}" for rank in range(4)]
    assert world.status.phase is not Phase.SUSPENDED, "the program on the silent node may still run"
    world.remove(silent)
    world.pass_time(50)
    assert world.status.phase is Phase.SUSPENDED


def ends(world: GangWorld) -> None:
    """Rank 1 lost a peer, which has not told anything yet."""
    world.fail(1, "Connection reset by peer")


def completes(world: GangWorld) -> None:
    """Rank 1 is complete."""
    world.end_pod(world.uid(1), 0, verdict("completed", "Completed"))


def is_cut_off(world: GangWorld) -> None:
    """The kubelet of rank 1 is silent."""
    world.silence(world.node_of(1), alone=True)


FIRST = pytest.mark.parametrize("happens", [ends, completes, is_cut_off])


@FIRST
def test_one_member_that_ended_or_is_silent_hides_no_suspension(happens):
    """Breaks if nodes are paid for while the job waits for what one of them says."""
    world = running()
    happens(world)
    world.settle()
    assert world.status.current.state is AttemptState.RUNNING
    world.job = world.job.model_copy(update={"spec": world.job.spec.model_copy(update={"suspend": True})})
    world.settle()
    assert world.told == {world.uid(0): "drain"}
    assert world.status.current.drain.reason == "Suspended"


@FIRST
def test_one_member_that_ended_or_is_silent_hides_no_notice(happens):
    """Breaks if nobody saves although the node of another member is about to go."""
    world = running()
    happens(world)
    world.settle()
    world.notice(world.node_of(3))
    world.settle()
    current = world.status.current
    assert (current.departure or current.drain).reason == "SpotInterruption"


def test_a_member_that_is_complete_hides_no_node_that_died():
    """Breaks if the job waits for ever for the word of a dead node."""
    world = running()
    completes(world)
    world.silence(world.node_of(2))
    for _ in range(9):
        world.pass_time(5)
    assert ended(world) == [("Interruption", "NodeSilent", 2)]


def test_a_kubelet_that_is_silent_hides_no_failure():
    """Breaks if a failed program waits until the kubelet of another node answers again."""
    world = running()
    is_cut_off(world)
    world.pass_time(5)
    world.fail(2, "ValueError: bad batch", explained=False)
    for _ in range(3):
        world.pass_time(5)
    assert ended(world) == [("Failure", "UserException", 2)]


def test_a_node_that_may_be_dead_comes_before_failures_that_no_rank_explains():
    """Breaks if a dead node counts as a failure of the programs that lost it."""
    world = running()
    world.silence(world.node_of(1))
    for rank in (0, 2, 3):
        world.fail(rank, "ChildFailedError", explained=False)
    for _ in range(9):
        world.pass_time(5)
    assert ended(world) == [("Interruption", "NodeSilent", 1)]
