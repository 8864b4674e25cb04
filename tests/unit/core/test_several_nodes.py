"""Trainings on several nodes: what one lost node, one failed program or one notice costs the others."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import TIERS, verdict

from holdfast.api.attempt import AttemptState, MemberGroup
from holdfast.api.knowledge import Seen
from holdfast.api.names import ANNOTATION_MOVE
from holdfast.api.status import Phase


def running(**spec) -> GangWorld:
    """Four nodes that train, with a checkpoint."""
    world = GangWorld(spec=spec)
    world.settle()
    world.train()
    return world


def ended(world: GangWorld) -> list[tuple[str, str, int | None]]:
    """How attempts ended: kind, reason, rank."""
    return [(record.kind.value, record.reason, record.rank) for record in world.status.history]


def test_all_pods_meet_at_one_address_before_any_program_starts():
    world = GangWorld()
    world.decide()
    assert sorted(pod.rank for pod in world.pods.values()) == [0, 1, 2, 3]
    world.schedule()
    world.kubelets()
    last = next(uid for uid, pod in world.pods.items() if pod.rank == 3)
    late = world.launchers.pop(last)
    world.decide()
    world.launch()
    assert not any(one.running for one in world.launchers.values()), "rank 3 is not ready"
    world.launchers[last] = late
    world.settle()
    assert world.status.phase is Phase.RUNNING
    assert world.worlds == {1: {"10.0.0.0:30000"}}


def test_a_failed_program_restarts_all_in_their_pods():
    world = running()
    pods = set(world.pods)
    world.fail(2)
    world.settle()
    assert ended(world) == [("Failure", "UserException", 2)]
    assert set(world.pods) == pods
    assert world.status.restarts.failures == 1
    world.train()
    assert world.worlds[2] == {"10.0.0.0:30001"}, "a port of its own"
    assert world.created == [f"vit-1-{rank}" for rank in range(4)]


def test_a_program_that_ends_soon_after_each_start_starts_less_and_less_often():
    """Breaks if nothing slows down a program that trains one step and is killed, again and again."""
    world = running(failure={"maxFailures": 100})
    waits = []
    for _ in range(6):
        world.fail(1)
        world.settle()
        failed = world.now
        while not world.trains():
            world.pass_time(1)
        waits.append((world.now - failed).total_seconds())
        world.train()
    assert waits == [0, 1, 2, 4, 8, 16]
    world.now += timedelta(seconds=11)
    world.fail(1)
    world.settle()
    assert world.trains(), "an attempt that lasted starts again at once"


def test_errors_of_peers_are_not_the_cause_while_another_rank_has_one():
    world = running()
    peer = "DistBackendError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
    world.fail(0, peer)
    world.fail(3, peer)
    world.settle()
    assert world.status.history == (), "the one that failed first has not told it yet"
    world.fail(1, "ValueError: bad batch")
    world.settle()
    assert ended(world) == [("Failure", "UserException", 1)]
    assert "bad batch" in world.status.history[0].message


def test_if_all_blame_their_peers_the_connection_was_lost():
    world = running()
    for rank in range(4):
        world.fail(rank, "Connection reset by peer")
    world.settle()
    assert world.status.history == ()
    world.pass_time(2)
    assert ended(world) == [("Loss", "ConnectionLost", 0)]
    assert world.status.restarts.failures == 0
    world.train()


def test_a_lost_node_is_replaced_alone():
    world = running()
    lost = world.node_of(2)
    world.remove(lost)
    for rank in (0, 1, 3):
        world.fail(rank, "Connection reset by peer")
    world.settle()
    assert ended(world) == [("Loss", "NodeGone", 2)]
    assert world.status.history[0].node == lost
    assert world.created[4:] == ["vit-2-2"], "one new pod, the others wait with their memory"
    world.train()
    current = world.status.current
    assert [(group.born, group.ranks) for group in current.members] == [(1, "0-1,3"), (2, "2")]


def test_a_silent_node_is_a_loss_only_when_nothing_shows_that_it_trains():
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
    assert ended(world) == [("Loss", "NodeSilent", rank)]


def test_a_kubelet_that_is_silent_alone_does_not_hide_a_node_that_died():
    """Breaks if only the first silent node is looked at."""
    world = running()
    world.silence(world.node_of(1), alone=True)
    world.silence(world.node_of(3))
    for _ in range(9):
        world.pass_time(5)
    assert ended(world)[0] == ("Loss", "NodeSilent", 3)


def test_a_dead_node_is_lost_as_soon_as_its_launcher_did_not_answer():
    """Breaks if the open call of a launcher on a dead node delays the loss."""
    world = running()
    world.now += timedelta(seconds=45)
    world.silence(world.node_of(1))
    world.decide()
    assert world.last.asked == (world.uid(1),)
    assert world.status.history == ()
    world.pass_time(5)
    assert ended(world) == [("Loss", "NodeSilent", 1)]


def test_a_silent_node_whose_peers_fail_is_the_loss():
    world = running()
    world.silence(world.node_of(1))
    for rank in (0, 2, 3):
        world.fail(rank, "Connection reset by peer")
    world.pass_time(1)
    assert world.status.history == (), "it was heard a moment ago"
    world.pass_time(34)
    world.pass_time(5)
    assert ended(world) == [("Loss", "NodeSilent", 1)]
    assert world.created[4:] == ["vit-2-1"]
    world.train()
    assert world.status.restarts.losses == 1


@pytest.mark.parametrize("fenced", [True, False])
def test_one_dead_node_is_one_loss_although_its_silence_is_seen_late(fenced):
    """Breaks if the node counts once as a lost connection, and once more when it is seen to be silent."""
    world = GangWorld(fenced=fenced)
    world.settle()
    world.train()
    dead = world.node_of(1)
    world.silence(dead)
    world.silence(dead, ready=True)  # the node controller has not seen it yet
    world.dead.add(dead)
    for rank in (0, 2, 3):
        world.fail(rank, "Connection reset by peer")
    world.pass_time(76)
    assert ended(world) == [("Loss", "ConnectionLost", 0)]
    assert world.status.current.world is None
    world.silence(dead)
    for _ in range(12):
        world.pass_time(5)
    assert len(ended(world)) == 1
    assert not world.trains() or fenced
    world.remove(dead)
    world.pass_time(50)
    world.pass_time(5)
    assert world.trains()
    assert world.status.restarts.losses == 1


def test_two_nodes_lost_together_are_one_loss():
    world = running()
    world.free = []  # no node yet
    world.remove(world.node_of(1))
    world.settle()
    world.remove(world.node_of(3))
    world.settle()
    assert world.status.restarts.losses == 1
    world.free = ["n5", "n6"]
    world.settle()
    assert sorted(world.created[4:]) == ["vit-2-1", "vit-2-3"]
    world.train()


def test_a_notice_brings_up_one_pod_and_then_moves():
    world = running()
    going = world.node_of(2)
    world.notice(going)
    world.settle()
    assert world.created[4:] == ["vit-2-2"], "one extra node, not four"
    assert world.told == {world.uid(0): "drain"}, "the new pod is ready at once in this world"
    assert world.status.current.number == 1
    assert sum(one.running for one in world.launchers.values()) == 4, "all train until then"
    world.leave()
    assert ended(world) == [("Loss", "SpotInterruption", 2)]
    assert world.status.current.number == 2
    assert world.status.phase is Phase.RUNNING
    assert world.deleted == ["vit-1-2"]
    world.train()
    assert world.status.ledger.steps_lost == 0


def move(world: GangWorld, argument: str) -> None:
    """Somebody requests a move."""
    changed = world.job.metadata.model_copy(update={"annotations": {ANNOTATION_MOVE: f"r1 {argument}"}})
    world.job = world.job.model_copy(update={"metadata": changed})
    world.settle()


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


def test_a_second_notice_while_the_first_is_handled():
    world = running()
    world.free.clear()  # no node for the new pod
    world.notice(world.node_of(2))
    world.settle()
    world.free = ["n5", "n6"]
    world.notice(world.node_of(3))
    world.settle()
    assert sorted(world.created[4:]) == ["vit-2-2", "vit-2-3"]
    world.leave()
    assert world.status.restarts.losses == 1
    world.train()


def test_another_successor_replaces_the_node_that_goes_and_no_healthy_one():
    """Breaks if the node of rank 0 is left because a successor for another node was lost."""
    world = running()
    world.notice(world.node_of(2))
    world.decide()
    world.decide()
    world.schedule()
    lost = next(pod for pod in world.pods.values() if pod.name == "vit-2-2")
    world.decide()
    world.remove(lost.node)
    world.decide()
    assert world.status.successor.members == (MemberGroup(born=1, ranks="0-1,3"), MemberGroup(born=3, ranks="2"))
    world.pass_time(10)
    assert [name for name in world.created[4:] if not name.endswith("-2")] == []
    world.leave()
    world.train()


def test_the_new_pod_is_lost_itself():
    world = running()
    world.notice(world.node_of(2))
    world.decide()
    world.decide()
    world.schedule()
    new = next(pod for pod in world.pods.values() if pod.name == "vit-2-2")
    world.decide()
    world.remove(new.node)
    world.decide()
    assert world.status.successor is None or world.status.successor.number > 2
    assert world.status.current.number == 1, "all train on"


def test_suspend_ends_all_pods():
    world = running()
    world.job = world.job.model_copy(update={"spec": world.job.spec.model_copy(update={"suspend": True})})
    world.settle()
    world.leave()
    world.pass_time(1)
    assert world.status.phase is Phase.SUSPENDED
    assert all(pod.ended or pod.deleted_at for pod in world.pods.values())
    assert ended(world) == [("Stopped", "Suspended", 0)]


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
    assert ended(world) == [("Loss", "NodeSilent", 2)]


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
    assert ended(world) == [("Loss", "NodeSilent", 1)]


def test_the_job_is_complete_when_all_are():
    world = running()
    world.end_pod(world.uid(1), 0, '{"v":1,"outcome":"completed","reason":"Completed"}')
    world.settle()
    assert world.status.phase is Phase.RUNNING, "rank 0 may still write a model"
    world.complete()
    assert world.status.phase is Phase.COMPLETED


@pytest.mark.parametrize("overlap", ["10m", "0s"])
def test_programs_that_hang_after_a_pod_left_without_saving_start_again(overlap):
    """Breaks if the order to leave waits for ever for programs that wait in a collective for the pod that has gone."""
    world = running(capacity={"tiers": list(TIERS), "maxOverlap": overlap})
    world.notice(world.node_of(2))
    world.decide()
    leaves = world.uid(2)
    world.now += timedelta(seconds=60)
    world.end_pod(leaves, 143, verdict("drained", "LeftWithoutSaving"))
    for _ in range(10):
        world.pass_time(30)
    assert world.trains(), "the other three pods go on with a new one"
    assert [kind for kind, *_ in ended(world)] == ["Loss"]


def test_the_newest_pod_of_each_rank_stays_for_its_logs():
    """Breaks if pods that outlived an attempt, or more than two of the pods, are deleted when the job is complete."""
    world = running()
    world.remove(world.node_of(2))
    for rank in (0, 1, 3):
        world.fail(rank, "Connection reset by peer")
    world.settle()
    world.train()
    world.complete()
    world.settle()
    assert world.status.phase is Phase.COMPLETED
    newest = {(pod.rank, pod.attempt) for pod in world.pods.values() if pod.phase == "Succeeded" and not pod.deleted_at}
    assert newest == {(0, 1), (1, 1), (2, 2), (3, 1)}


def test_a_refused_pod_is_tried_again_alone():
    world = GangWorld()
    world.refuse_after = 3
    world.settle()
    assert len(world.pods) == 3
    assert "exceeded quota" in world.status.decision.reason
    world.refuse_after = None
    world.pass_time(5)
    assert world.status.phase is Phase.RUNNING
    assert world.created == ["vit-1-0", "vit-1-1", "vit-1-2", "vit-1-3"]


def test_no_node_for_one_pod_gives_all_back():
    tiers = [{**TIERS[0], "acquireTimeout": "60s"}, {**TIERS[1], "acquireTimeout": "60s"}]
    world = GangWorld(spec={"capacity": {"tiers": tiers}})
    world.free = ["n1", "n2", "n3"]
    world.settle()
    assert world.status.current.state is AttemptState.ACQUIRING
    world.pass_time(61)
    assert world.status.current.tier.name == "dedicated"
    assert sorted(world.deleted) == [f"vit-1-{rank}" for rank in range(4)]


def test_two_restarts_without_a_step_replace_the_suspect_and_three_start_anew():
    world = running(failure={"maxFailures": 20})
    for _ in range(2):
        world.fail(1)
        world.settle()
        world.pass_time(400)
    suspect = world.node_of(1)
    world.fail(1)
    world.settle()
    world.pass_time(400)
    assert world.node_of(1) != suspect
    assert world.status.current.members != ()
    world.fail(1)
    world.pass_time(400)
    assert world.status.current.members == (), "all pods are new"


def test_a_program_without_a_fence_never_runs_in_two_worlds_however_often_it_was_restarted():
    """Breaks if pods count as gone because the attempt that created them is not in history any more."""
    world = GangWorld(spec={"failure": {"maxFailures": 100, "window": "60s"}}, fenced=False)
    world.settle()
    for _ in range(25):
        world.train()
        world.fail(1)
        world.settle()
        world.pass_time(400)
    old = set(world.pods)
    assert world.status.ledger.folded_through > 1
    assert {world.pods[uid].attempt for uid in old} == {1}, "all pods are those of the first attempt"
    for _ in range(4):  # without a step: the pod of rank 1 is replaced, and then all pods are
        made = len(world.created)
        world.fail(1)
        for seconds in (0, 400, 0):
            world.now += timedelta(seconds=seconds)
            world.decide()
            given_up = [uid for uid in world.pods if uid not in world.orders and not world.pods[uid].ended]
            assert not given_up or len(world.created) == made, "a new pod beside one that was given up and lives"
        world.settle()
    assert world.status.current.members == ()
    assert world.trains()


def test_nodes_that_wait_for_the_last_one_are_paid_for():
    """Breaks if a training that waits long for its last node, and gives the others back, looks free."""
    tiers = [{**TIERS[0], "acquireTimeout": "1h"}, {**TIERS[1], "acquireTimeout": "1h"}]
    world = GangWorld(spec={"capacity": {"tiers": tiers}})
    world.free = ["n1", "n2"]
    world.settle()
    world.now += timedelta(minutes=30)
    world.free.append("n3")
    world.settle()
    world.pass_time(1801)
    assert world.status.current.tier.name == "dedicated"
    assert float(world.status.history[0].node_hours) == pytest.approx(2.5, abs=0.01)
    assert float(world.status.ledger.spent) == pytest.approx(2.5 * 1.02, abs=0.01)


def test_nodes_that_came_before_the_last_one_are_paid_for():
    world = GangWorld(spec={"capacity": {"tiers": [{**TIERS[0], "acquireTimeout": "9h"}]}})
    world.free = ["n1", "n2", "n3"]
    world.settle()
    world.now += timedelta(hours=1)
    world.free.append("n4")
    world.settle()
    world.train()
    world.now += timedelta(hours=1)
    world.fail(2)
    world.settle()
    assert float(world.status.history[0].node_hours) == pytest.approx(3 + 4)
    assert float(world.status.ledger.spent) == pytest.approx(7 * 1.02)


def test_every_node_is_paid_for():
    world = running()
    world.now += timedelta(hours=1)
    world.fail(2)
    world.settle()
    world.now += timedelta(hours=1)
    world.train()
    assert float(world.status.ledger.spent) == pytest.approx(4 * 2 * 1.02)
    assert float(world.status.history[0].node_hours) == pytest.approx(4)


EVENTS = st.one_of(
    st.tuples(st.just("fail"), st.integers(0, 2)),
    st.tuples(st.just("end pod"), st.integers(0, 2)),
    st.tuples(st.just("peer"), st.integers(0, 2)),
    st.tuples(st.just("remove"), st.integers(0, 2)),
    st.tuples(st.just("silence"), st.integers(0, 2)),
    st.tuples(st.just("answer"), st.integers(0, 2)),
    st.tuples(st.just("notice"), st.integers(0, 2)),
    st.tuples(st.just("leave"), st.just(0)),
    st.tuples(st.just("train"), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from((1, 5, 40, 400))),
    st.tuples(st.just("decide"), st.just(0)),
)


def happen(world: GangWorld, event: tuple[str, int]) -> None:
    """Something happens, if it can."""
    what, rank = event
    uid = next((uid for uid, pod in world.pods.items() if pod.rank == rank and world.has_member(uid)), None)
    if what == "wait":
        world.pass_time(rank)
    elif what == "decide":
        world.decide()
    elif what == "leave":
        world.leave()
    elif what == "train" and world.trains():
        world.train()
    elif uid is None or (name := world.pods[uid].node) is None or name not in world.nodes:
        return
    elif what in ("fail", "peer") and uid in world.launchers and world.launchers[uid].running:
        world.fail(rank, "Connection reset by peer" if what == "peer" else "RuntimeError: boom")
    elif what == "end pod" and uid in world.launchers:
        world.fail(rank, pod_ends=True)
    elif what == "remove":
        world.remove(name)
    elif what in ("silence", "answer"):
        world.silence(name, ready=what == "answer")
    elif what == "notice":
        world.notice(name)


@settings(max_examples=150)
@given(st.lists(EVENTS, max_size=12))
def test_whatever_happens_the_training_goes_on_once_the_faults_are_over(events):
    """Breaks if an attempt starts at two addresses, if its programs differ, or if the job waits for ever."""
    tiers = [TIERS[0]]
    world = GangWorld(size=3, spec={"capacity": {"tiers": tiers}, "failure": {"maxFailures": 100}})
    world.settle()
    for event in events:
        happen(world, event)
    world.heal()
    for _ in range(12):
        world.pass_time(300)
        world.leave()
        if world.trains():
            break
    assert world.trains(), (world.status.current, world.last.trace)
    world.train()
    assert all(len(addresses) == 1 for addresses in world.worlds.values())
    world.complete()
    assert world.status.phase is Phase.COMPLETED
    assert len({record.number for record in world.status.history}) == len(world.status.history)


def test_a_tier_that_gave_some_of_the_nodes_is_not_out_for_others():
    """Breaks if a training on many nodes keeps trainings on one node away from a tier that has room for them."""
    world = GangWorld(spec={"capacity": {"tiers": [{**TIERS[0], "acquireTimeout": "60s"}, TIERS[1]]}})
    world.free = ["n1", "n2", "n3"]
    world.settle()
    world.pass_time(61)
    (known,) = [one for one in world.status.tiers if one.tier == "spot"]
    assert known.state is Seen.UNFIT
