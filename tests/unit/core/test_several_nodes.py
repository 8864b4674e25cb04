"""Trainings on several nodes: what one lost node, one failed program or one notice costs the others."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.running_gangs import ended, running
from tests.support.decisions.snapshots import TIERS, verdict

from holdfast.api.attempt import AttemptState, MemberGroup
from holdfast.api.knowledge import Seen
from holdfast.api.status import Phase


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
    assert ended(world) == [("Interruption", "ConnectionLost", 0)]
    assert world.status.restarts.failures == 0
    assert "between" not in world.status.history[0].message, "a server of data may be what was lost"
    world.train()


def test_a_lost_node_is_replaced_alone():
    world = running()
    lost = world.node_of(2)
    world.remove(lost)
    for rank in (0, 1, 3):
        world.fail(rank, "Connection reset by peer")
    world.settle()
    assert ended(world) == [("Interruption", "NodeGone", 2)]
    assert world.status.history[0].node == lost
    assert world.created[4:] == ["vit-2-2"], "one new pod, the others wait with their memory"
    world.train()
    current = world.status.current
    assert [(group.born, group.ranks) for group in current.members] == [(1, "0-1,3"), (2, "2")]


def test_a_node_lost_before_any_step_is_used_again_where_the_training_needs_all_nodes():
    """Breaks if the good pods are given back after acquireTimeout beside a node that is back and empty."""
    world = GangWorld(size=2)
    world.free = world.free[:2]
    world.nodes = {name: world.nodes[name] for name in world.free}
    world.settle()
    gone, stays = world.pods[world.uid(1)].node, world.uid(0)
    world.end_pod(world.uid(1), 255, "")
    world.settle()
    assert [record.node for record in world.status.history] == [gone]
    assert world.status.current.avoid_nodes == ()
    world.pass_time(60)
    assert world.trains()
    assert (world.uid(0), world.pods[world.uid(1)].node) == (stays, gone)


def test_two_nodes_lost_together_are_one_interruption():
    world = running()
    world.free = []  # no node yet
    world.remove(world.node_of(1))
    world.settle()
    world.remove(world.node_of(3))
    world.settle()
    assert world.status.restarts.interruptions == 1
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
    assert ended(world) == [("Interruption", "SpotInterruption", 2)]
    assert world.status.current.number == 2
    assert world.status.phase is Phase.RUNNING
    assert world.deleted == ["vit-1-2"]
    world.train()
    assert world.status.ledger.steps_lost == 0


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
    assert world.status.restarts.interruptions == 1
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
    assert [kind for kind, *_ in ended(world)] == ["Interruption"]


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
    assert "exceeded quota" in world.status.decision.message
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


def check_goes_on(events):
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


@settings(max_examples=50)
@given(st.lists(EVENTS, max_size=12))
def test_whatever_happens_the_training_goes_on_once_the_faults_are_over(events):
    check_goes_on(events)


@pytest.mark.thorough
@settings(max_examples=150)
@given(st.lists(EVENTS, max_size=12))
def test_in_many_courses_the_training_goes_on_once_the_faults_are_over(events):
    check_goes_on(events)


def test_a_tier_that_gave_some_of_the_nodes_is_not_out_for_others():
    """Breaks if a training on many nodes keeps trainings on one node away from a tier that has room for them."""
    world = GangWorld(spec={"capacity": {"tiers": [{**TIERS[0], "acquireTimeout": "60s"}, TIERS[1]]}})
    world.free = ["n1", "n2", "n3"]
    world.settle()
    world.pass_time(61)
    (known,) = [one for one in world.status.tiers if one.tier == "spot"]
    assert known.state is Seen.UNFIT
