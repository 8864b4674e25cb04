"""A training on several nodes has all of its nodes, or none: it begins when they are free, and never keeps a part."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.liveness import check_alive
from tests.support.decisions.snapshots import TIERS, node

from holdfast.api.attempt import AttemptState
from holdfast.api.status import Phase
from holdfast.core.observe.nodes import Taint

SHORT = {**TIERS[0], "acquireTimeout": "60s"}
FIXED = {**SHORT, "observation": "Free"}  # all nodes that there are
GROWING = {**SHORT, "observation": "Billed"}  # an autoscaler may bring more
ONLY = {"capacity": {"tiers": [FIXED]}}
TWO = {"capacity": {"tiers": [FIXED, {**TIERS[1], "acquireTimeout": "60s", "observation": "Free"}]}}


def act(*worlds: GangWorld) -> None:
    """The operator decides for each training, and everybody acts, until nothing changes."""
    for _ in range(60):
        before = [(one.job.status, dict(one.pods)) for one in worlds]
        for one in worlds:
            given = one.snapshot()
            check_alive(given, one.decide())
            one.schedule()
            one.kubelets()
            one.launch()
        if before == [(one.job.status, dict(one.pods)) for one in worlds]:
            return
    raise AssertionError([one.last.trace for one in worlds if one.last])


def holds(world: GangWorld) -> int:
    """How many nodes the pods of the training have."""
    return sum(pod.node is not None and not pod.ended for pod in world.pods.values())


def cluster(nodes: int, size: int = 3, spec: dict = ONLY, **more: object) -> GangWorld:
    """A training in a cluster with so many nodes."""
    world = GangWorld(size=size, spec=spec, **more)
    world.free[:] = [f"n{number}" for number in range(1, nodes + 1)]
    world.nodes.clear()
    world.nodes.update({name: node(name) for name in world.free})
    return world


def use(world: GangWorld, name: str, by: GangWorld | None = None) -> None:
    """Somebody else's pods fill a node of which the operator knows nothing."""
    (by or world).free.remove(name)


# --- room for all -----------------------------------------------------------------------------------------------------


def test_no_pod_is_made_before_all_nodes_are_free():
    world = cluster(2)
    world.settle()
    assert world.created == []
    assert world.status.reason == "WaitingForNodes"
    assert world.status.decision.message == "waits until 3 nodes of tier spot are free: 2 are"
    world.nodes["n3"] = node("n3")
    world.free.append("n3")
    world.settle()
    assert world.status.phase is Phase.RUNNING


def test_with_room_for_one_the_other_one_begins_when_that_one_is_complete():
    first = cluster(4)
    second = GangWorld(size=3, spec=ONLY, name="llm", beside=first)
    act(first, second)
    assert first.status.phase is Phase.RUNNING
    assert second.created == []
    first.complete()
    act(first, second)
    assert second.status.phase is Phase.RUNNING
    assert second.status.history == (), "nothing was tried in vain"


def test_with_room_for_all_nobody_waits():
    first = cluster(6)
    second = GangWorld(size=3, spec=ONLY, name="llm", beside=first)
    act(first, second)
    assert first.created == [f"vit-1-{rank}" for rank in range(3)]
    assert second.created == [f"llm-1-{rank}" for rank in range(3)]
    assert second.status.phase is Phase.RUNNING


def test_nobody_waits_for_a_training_that_cannot_have_all_its_nodes():
    """Breaks if one wrong selector, or one tenant, keeps free nodes from all others."""
    large = cluster(4, size=9, namespace="other")
    small = GangWorld(size=3, spec=ONLY, name="llm", beside=large)
    act(large, small)
    assert small.status.phase is Phase.RUNNING
    assert holds(large) == 0
    assert large.created == []


def test_nodes_that_another_training_is_about_to_get_are_left_to_it():
    first = cluster(4)
    second = GangWorld(size=3, spec=ONLY, name="llm", namespace="other", beside=first)
    first.decide()
    second.decide()
    assert len(first.created) == 3
    assert second.created == []
    # The name of a tenant's job is not shown to another tenant.
    assert second.status.decision.message == (
        "waits until 3 nodes of tier spot are free: 1 are; others go first on nodes that are free"
    )
    assert all("vit" not in event.message for event in second.last.events)


def test_of_two_namespaces_the_one_goes_first_that_has_waited_longer_for_a_turn():
    """Breaks if a tenant with many trainings keeps one of another tenant from its nodes."""
    first = cluster(3, namespace="many")
    others = [GangWorld(size=3, spec=ONLY, name=f"a{number}", namespace="many", beside=first) for number in range(3)]
    late = GangWorld(size=3, spec=ONLY, name="late", namespace="few", beside=first)
    act(first, *others)
    first.now += timedelta(seconds=5)
    act(late)
    first.complete()
    act(first, *others, late)
    assert late.status.phase is Phase.RUNNING


def test_a_training_on_one_node_never_waits():
    first = cluster(2)
    first.settle()
    single = GangWorld(size=1, spec=ONLY, name="bert", beside=first)
    single.decide()
    assert single.created == ["bert-1-0"]
    assert single.last.trace == ("first pod",)


def test_waiting_for_room_counts_as_waiting_for_the_tier():
    world = cluster(2, spec=TWO)
    world.nodes |= {f"d{number}": node(f"d{number}", labels={"tier": "dedicated"}) for number in range(3)}
    world.free += ["d0", "d1", "d2"]
    world.settle()
    assert world.status.current.tier.name == "spot"
    world.pass_time(61)
    assert world.status.current.tier.name == "dedicated"
    assert world.status.phase is Phase.RUNNING
    assert world.created == [f"vit-2-{rank}" for rank in range(3)]


def test_where_an_autoscaler_may_bring_nodes_pods_are_made_at_once():
    """Breaks if an autoscaler never sees a pod that waits, and so brings no node."""
    world = cluster(0, spec={"capacity": {"tiers": [GROWING]}})
    world.settle()
    assert len(world.created) == 3
    world.pass_time(600)
    assert world.deleted == [], "no part is held, so nothing is to give back"


# --- a part that does not become whole --------------------------------------------------------------------------------


def test_a_node_that_others_fill_costs_seconds():
    """The operator does not know what others run. It gives back what it got long before the acquireTimeout."""
    world = cluster(3, spec={"capacity": {"tiers": [{**FIXED, "acquireTimeout": "7d"}]}})
    use(world, "n3")
    world.settle()
    assert holds(world) == 2
    world.pass_time(21)
    assert holds(world) == 0
    current = world.status.current
    assert current.state is AttemptState.INTENDED
    assert timedelta(seconds=5) <= current.retry_at - world.now <= timedelta(seconds=10)
    assert world.status.decision.message == "tier spot gave 2 of 3 nodes, and not the rest: all are given back"
    assert world.status.history == (), "nothing has ended"
    first = current.retry_at - world.now
    world.pass_time(10)
    assert holds(world) == 2
    world.pass_time(21)
    assert world.status.current.retry_at - world.now > first, "longer each time"


def test_nodes_that_are_given_back_are_paid_for():
    """Breaks if a training that gives back again and again looks free."""
    world = cluster(3)
    use(world, "n3")
    world.settle()
    world.now += timedelta(seconds=45)
    world.decide()
    assert world.status.current.held_for == timedelta(seconds=90)
    assert float(world.status.ledger.spent) == pytest.approx(90 / 3600 * 1.02, abs=1e-4)


def test_the_pause_is_not_the_same_for_two_trainings_and_always_the_same_for_one():
    found = []
    for name in ("vit", "llm", "vit"):
        world = cluster(3, name=name)
        use(world, "n3")
        world.settle()
        world.pass_time(21)
        found.append(world.status.current.retry_at - world.now)
    assert found[0] != found[1]
    assert found[0] == found[2]


def test_a_part_that_an_autoscaler_does_not_complete_is_given_back():
    world = cluster(2, spec={"capacity": {"tiers": [GROWING]}})
    world.settle()
    world.pass_time(30)
    assert holds(world) == 2, "a node takes minutes to come"
    world.pass_time(31)
    assert holds(world) == 0


def in_a_long_pause(tier: dict) -> GangWorld:
    """A training on 3 nodes that has given 2 of them back so often that it pauses for 20 minutes or more."""
    world = cluster(2, spec={"capacity": {"tiers": [tier]}})
    for _ in range(400):
        world.pass_time(30)
        current = world.status.current
        if current.retry_at and current.retry_at > world.now + timedelta(minutes=20):
            return world
    raise AssertionError(current)


# Breaks if a training waits for most of an hour beside nodes that a person has added for it.
@pytest.mark.parametrize("tier", [SHORT, GROWING])
def test_a_long_pause_ends_once_there_are_nodes_for_all(tier):
    world = in_a_long_pause(tier)
    given_back = world.now
    world.free.append("n3")
    world.nodes["n3"] = node("n3")
    assert not world.room().granted(world.now), "for as long as another training would pause"
    world.pass_time(200)
    assert holds(world) == 0
    world.now = given_back + timedelta(minutes=5)
    assert [one.ask.job for one in world.room().granted(world.now)] == ["vit"], "the operator wakes it"
    world.settle()
    assert world.status.phase is Phase.RUNNING


def test_a_long_pause_goes_on_while_nodes_are_missing():
    world = in_a_long_pause(SHORT)
    world.nodes["n3"] = replace(node("n3"), unschedulable=True)
    world.pass_time(20 * 60)
    assert holds(world) == 0


def test_no_tenant_keeps_a_part_for_longer_than_the_operator_allows():
    """Breaks if `acquireTimeout: 7d` keeps nodes for a week."""
    world = cluster(2, spec={"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d"}]}})
    world.settle()
    world.pass_time(15 * 60 + 1)
    assert holds(world) == 0


def beside(world: GangWorld, size: int, name: str, **tier: object) -> GangWorld:
    """A training of another namespace in the same cluster, on a tier that may grow."""
    spec = {"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d", **tier}]}}
    return GangWorld(size=size, spec=spec, name=name, namespace="other", beside=world)


def test_a_part_is_not_held_in_hope_of_nodes_while_it_suffices_for_another_training():
    """Breaks if a tier that never grows lets a training that can never be complete stop all others for minutes."""
    first = cluster(2, spec={"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d"}]}})
    first.settle()
    second = beside(first, 2, "llm")
    act(first, second)
    assert second.created == [], "the part is given back soon"
    assert second.status.reason == "WaitingForNodes"
    first.now += timedelta(seconds=21)
    act(first, second)
    assert second.status.phase is Phase.RUNNING
    assert holds(first) == 0
    first.now += timedelta(seconds=20)
    act(first, second)
    assert len([pod for pod in first.pods.values() if not pod.ended]) == 3, "an autoscaler sees its pods again"


def test_parts_of_several_trainings_are_given_back_together():
    first = cluster(2, spec={"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d"}]}})
    first.free[:] = ["n1"]
    first.settle()
    other = beside(first, 9, "evil")
    other.decide()
    first.free[:] = ["n1", "n2"]
    other.schedule(1)
    assert (holds(first), holds(other)) == (1, 1)
    victim = beside(first, 2, "llm")
    act(first, other, victim)
    first.now += timedelta(seconds=22)
    act(first, other, victim)
    assert victim.status.phase is Phase.RUNNING


def test_new_trainings_that_cannot_be_whole_take_no_nodes_from_one_that_waits_for_them():
    """Breaks if a tenant who creates one large training after the other keeps free nodes from all others."""
    first = cluster(2, spec={"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d"}]}})
    first.settle()
    victim = beside(first, 2, "llm")
    victim.decide()
    assert victim.status.reason == "WaitingForNodes"
    other = GangWorld(size=9, spec=first.spec, name="evil", namespace="evil", beside=first)
    other.decide()
    assert other.created == []
    first.now += timedelta(seconds=21)
    act(first, other, victim)
    act(first, other, victim)
    assert victim.status.phase is Phase.RUNNING
    other.now += timedelta(seconds=40)
    act(other)
    assert len(other.created) == 9, "an autoscaler sees its pods now"


@pytest.mark.parametrize("seconds", [5, 100])
def test_a_part_is_held_while_an_autoscaler_brings_nodes(seconds):
    first = cluster(2, size=4, spec={"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d"}]}})
    first.settle()
    first.now += timedelta(seconds=5)
    first.nodes["n3"] = node("n3", created_at=first.now)
    first.free.append("n3")
    first.settle()
    second = beside(first, 2, "llm")
    first.now += timedelta(seconds=seconds)
    act(first, second)
    assert holds(first) == 3
    assert len(second.created) == 2, "an autoscaler sees its pods at once"


def test_a_part_is_held_while_the_other_training_pauses():
    first = cluster(2, spec={"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d"}]}})
    first.settle()
    second = beside(first, 2, "llm")
    second.decide()
    paused = second.status.current.model_copy(update={"retry_at": first.now + timedelta(minutes=5)})
    second.job = second.job.model_copy(update={"status": second.status.model_copy(update={"current": paused})})
    first.now += timedelta(seconds=30)
    act(first, second)
    assert holds(first) == 2


def test_a_quota_that_allows_some_pods_keeps_no_node():
    world = cluster(4, size=4)
    world.refuse_after = 1
    world.settle()
    assert holds(world) == 1
    world.pass_time(21)
    assert holds(world) == 0


@pytest.mark.parametrize("tier", [FIXED, GROWING])
def test_a_part_is_given_back_however_often_the_rest_is_refused(tier):
    """Breaks if each try to create the rest begins the time of the part anew, up to the tenant's acquireTimeout."""
    world = cluster(4, size=4, spec={"capacity": {"tiers": [{**tier, "acquireTimeout": "7d"}]}})
    world.refuse_after = 1
    world.settle()
    held = []
    for _ in range(720):
        world.pass_time(5)
        held.append(holds(world))
    assert 0 < sum(held) / len(held) < 0.2, "seconds of each pause"
    assert sum(held[-120:]) / 120 < 0.1
    assert "exceeded quota" in world.status.decision.message


def test_a_part_whose_rest_is_refused_is_paid_for():
    world = cluster(4, size=4, spec={"capacity": {"tiers": [GROWING]}})
    world.refuse_after = 1
    world.settle()
    world.pass_time(10)
    assert world.status.current.state is AttemptState.INTENDED
    assert float(world.status.ledger.spent) == pytest.approx(10 / 3600 * 1.02, abs=1e-4)
    world.pass_time(15)
    assert holds(world) == 0
    assert float(world.status.ledger.spent) == pytest.approx(25 / 3600 * 1.02, abs=1e-4)


def test_a_pod_that_somebody_deletes_again_and_again_keeps_no_part():
    """Breaks if the time of a part begins anew with each new number."""
    world = cluster(2, spec={"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d"}]}})
    world.settle()
    other = GangWorld(size=2, spec=ONLY, name="llm", beside=world)
    for _ in range(30):
        for uid, pod in list(world.pods.items()):
            if pod.node is None:
                world.pods[uid] = replace(pod, deleted_at=world.now, deletion_grace=0)
        world.now += timedelta(seconds=60)
        act(world, other)
    assert other.status.phase is Phase.RUNNING


def test_pods_without_any_node_wait_on_the_only_tier():
    world = cluster(0, spec={"capacity": {"tiers": [GROWING]}})
    world.settle()
    world.pass_time(600)
    assert world.deleted == []
    assert world.status.current.state is AttemptState.ACQUIRING


def test_both_of_two_that_hold_a_part_let_go_and_one_gets_all():
    """Breaks if each of two waits for the other one's part for as long as an autoscaler may take."""
    spec = {"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d"}]}}
    first = cluster(0, spec=spec)
    second = GangWorld(size=3, spec=spec, name="llm", beside=first)
    act(first, second)
    first.free[:] = [f"n{number}" for number in range(1, 5)]  # what the autoscaler brings, and no more
    first.nodes.update({name: node(name) for name in first.free})
    first.schedule(2)
    second.schedule(2)
    assert (holds(first), holds(second)) == (2, 2)
    for _ in range(6):
        first.now += timedelta(seconds=10)
        act(first, second)
        running = [one for one in (first, second) if one.status.phase is Phase.RUNNING]
        if running:
            break
    assert len(running) == 1


def test_where_enough_nodes_are_free_a_training_waits_for_those_that_take_them_now():
    spec = {"capacity": {"tiers": [GROWING]}}
    first = cluster(4, spec=spec)
    second = GangWorld(size=3, spec=spec, name="llm", beside=first)
    first.decide()
    second.decide()
    assert second.created == []
    act(first, second)
    second.now += timedelta(seconds=41)
    act(first, second)
    assert first.status.phase is Phase.RUNNING
    assert len(second.created) == 3, "an autoscaler sees its pods now"


# --- one that lost a node ---------------------------------------------------------------------------------------------


def lost_one(tier: dict = FIXED, *, for_good: bool = False) -> GangWorld:
    """A training that lost one of its nodes; the others wait with their memory.

    The only other node is full of somebody else's pods; lost for good, there is no other one.
    """
    world = cluster(3, spec={"capacity": {"tiers": [tier]}})
    world.settle()
    if not for_good:
        world.nodes["full"] = node("full")
    world.train()
    world.remove(world.node_of(2))
    world.settle()
    return world


def test_a_lost_node_is_replaced_before_others_start():
    world = lost_one()
    other = GangWorld(size=1 + 1, spec=ONLY, name="llm", beside=world)
    world.nodes["n8"] = node("n8")  # "full" looks free too
    world.free += ["n8", "full"]
    other.decide()
    assert other.created == [], "one of the two is left to the training that lost a node"
    act(world, other)
    assert world.status.phase is Phase.RUNNING
    assert world.status.current.number == 2


def test_survivors_are_kept_on_the_only_tier_unless_others_wait():
    world = lost_one()
    world.pass_time(200)
    assert not {"vit-1-0", "vit-1-1"} & set(world.deleted), "two pods wait with their memory for the third"
    assert world.status.next == (
        "The job waits for all 3 nodes of tier spot. It keeps the nodes that it has while no other training waits for "
        "them."
    )
    other = GangWorld(size=2, spec=ONLY, name="llm", beside=world)
    act(other)
    world.now += timedelta(seconds=1)
    act(world)
    assert {"vit-1-0", "vit-1-1", "vit-2-2"} <= set(world.deleted)
    act(other)
    assert other.status.phase is Phase.RUNNING


def test_survivors_are_not_given_back_for_a_training_that_they_do_not_suffice_for():
    """Breaks if a tenant takes others' nodes with a training that can never run."""
    world = lost_one()
    other = GangWorld(size=500, spec=ONLY, name="llm", namespace="other", beside=world)
    for _ in range(20):
        world.now += timedelta(seconds=60)
        act(world, other)
    assert not {"vit-1-0", "vit-1-1"} & set(world.deleted)


# Breaks if two trainings that each lost a node for good wait for each other without end, and both are paid for.
@pytest.mark.parametrize("tier", [FIXED, SHORT, GROWING])
def test_of_two_that_lost_a_node_for_good_one_gives_the_others_back(tier):
    first = cluster(6, spec={"capacity": {"tiers": [tier]}})
    second = GangWorld(size=3, spec=first.spec, name="llm", namespace="other", beside=first)
    act(first, second)
    for one in (first, second):
        one.train()
        one.remove(one.node_of(2))
        act(first, second)
    first.now += timedelta(seconds=45)  # then the pods of these nodes are gone
    act(first, second)
    assert (holds(first), holds(second)) == (2, 2)
    for _ in range(6):
        first.now += timedelta(seconds=20)
        act(first, second)
    assert [one.status.phase for one in (first, second)].count(Phase.RUNNING) == 1
    kept, gave = (first, second) if holds(first) == 3 else (second, first)
    assert not {f"{kept.name}-1-0", f"{kept.name}-1-1"} & set(kept.deleted), "its programs start warm"
    assert holds(gave) < 2


# Breaks if a training that lost a node for good is paid for without end, and no other job gets the nodes that it holds.
@pytest.mark.parametrize("timeout", ["60s", "5m"])
def test_survivors_are_given_back_on_a_tier_that_cannot_hold_the_training_any_more(timeout):
    world = lost_one({**FIXED, "acquireTimeout": timeout}, for_good=True)
    for seconds in range(0, int(timeout.rstrip("sm")) * (60 if timeout.endswith("m") else 1), 10):
        found = next(one for one in world.status.conditions if one.type == "NeverFits")
        assert (found.status, found.reason) == ("True", "TooFewNodes"), seconds
        assert holds(world) >= 2, seconds
        assert world.status.next.endswith("If no other node comes in time, it gives those back that it has.")
        world.pass_time(10)
    assert not {"vit-1-0", "vit-1-1", "vit-2-2"} - set(world.deleted)
    assert world.status.reason in ("WaitingForNodes", "BackOff")
    world.pass_time(600)
    assert holds(world) == 0, "it takes no part of its nodes again"
    world.nodes["n9"] = node("n9")
    world.free.append("n9")
    world.pass_time(1)
    assert world.status.phase is Phase.RUNNING


# Breaks if a node on which a pod goes on, and that takes no new ones, is missing in the count.
def test_survivors_on_a_node_that_takes_no_new_pods_are_kept():
    world = lost_one()
    kept = world.node_of(0)
    world.nodes[kept] = replace(world.nodes[kept], taints=(Taint("team", "a", "NoSchedule"),))
    world.pass_time(200)
    assert not {"vit-1-0", "vit-1-1"} & set(world.deleted)


# Breaks if a training on several nodes that may never be whole keeps its nodes from all trainings on one node.
@pytest.mark.parametrize(
    ("waits", "given"),
    [
        ({}, True),
        ({"unscheduled_message": "0/3 nodes are available: 3 node(s) had volume node affinity conflict."}, False),
        ({"unscheduled_reason": "", "unscheduled_message": ""}, False),
    ],
    ids=["nodes are full", "its volume is elsewhere", "the scheduler has not looked"],
)
def test_survivors_are_given_back_to_a_training_on_one_node_that_has_no_room(waits, given):
    world = lost_one()
    world.pass_time(200)
    assert holds(world) == 2
    single = GangWorld(size=1, spec=ONLY, name="bert", namespace="other", beside=world)
    act(single)
    single.pods = {uid: replace(pod, **waits) for uid, pod in single.pods.items()}
    assert world.last.requeue_at - world.now <= timedelta(seconds=20), "nothing else wakes it"
    world.now = world.last.requeue_at
    world.decide()
    assert bool({"vit-1-0", "vit-1-1"} & set(world.deleted)) is given
    if given:
        act(world, single)
        assert single.status.phase is Phase.RUNNING


# Breaks if the cost stands still while a training holds nodes and waits for the others, and then jumps.
@pytest.mark.parametrize("begins", [True, False], ids=["a first start", "a lost node"])
def test_nodes_that_are_held_are_paid_for_minute_by_minute(begins):
    tier = {**GROWING, "acquireTimeout": "7d"}
    world = cluster(2, spec={"capacity": {"tiers": [tier]}}) if begins else lost_one(tier)
    world.settle()
    begun, spent = world.now, world.status.ledger.spent
    for _ in range(5):
        world.now = max(world.last.requeue_at, world.now)
        world.settle()
        passed = (world.now - begun) / timedelta(hours=1)
        assert passed <= 0.2
        assert float(world.status.ledger.spent - spent) == pytest.approx(2 * 1.02 * passed, abs=0.036)
    assert world.status.ledger.spent > spent


@pytest.mark.parametrize("waits", [True, False])
def test_survivors_whose_rest_is_refused_are_given_back(waits):
    """Breaks if nodes are paid for as long as a quota refuses the pod that is to replace a lost one."""
    world = cluster(3, spec={"capacity": {"tiers": [{**GROWING, "acquireTimeout": "7d"}]}})
    world.settle()
    world.train()
    world.refuse_after = 0
    world.remove(world.node_of(2))
    world.settle()
    other = [GangWorld(size=2, spec=ONLY, name="llm", beside=world)] if waits else []
    world.now += timedelta(minutes=14)
    act(world, *other)
    assert holds(world) == 2, "a quota counts the lost pod for a while"
    for _ in range(3):
        world.now += timedelta(minutes=5)
        act(world, *other)
    assert holds(world) == 0
    assert [one.status.phase for one in other] == [Phase.RUNNING] * waits


# --- a successor ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["Ordered", "Cheapest"])
@pytest.mark.parametrize("observation", ["Free", "Billed"])
def test_a_part_of_a_better_tier_is_not_paid_for_without_end(policy, observation):
    """A training does not hold some nodes of a better tier that never has the rest."""
    tiers = [{**SHORT, "observation": observation}, {**TIERS[1], "acquireTimeout": "60s"}]
    world = GangWorld(size=3, spec={"capacity": {"tiers": tiers, "policy": policy, "returnPolicy": "Eager"}})
    world.free[:] = ["d1", "d2", "d3"]
    world.nodes.clear()
    for name in world.free:
        world.nodes[name] = node(name, labels={"tier": "dedicated"})
    world.settle()
    world.pass_time(61)
    assert world.status.current.tier.name == "dedicated"
    world.train()
    world.nodes |= {"n1": node("n1"), "n2": node("n2")}
    world.free += ["n1", "n2"]
    held = []
    for _ in range(120):
        world.pass_time(30)
        world.train()
        held.append(sum((pod.node or "").startswith("n") for pod in world.pods.values()))
    assert world.status.phase is Phase.RUNNING
    assert world.status.current.tier.name == "dedicated"
    if observation == "Free":
        assert not any(held), "two of three nodes are of no use"
    else:
        assert sum(map(bool, held)) <= 12, "an autoscaler may bring the third, and is asked less and less often"


# --- a training that is too large -------------------------------------------------------------------------------------


def test_a_training_larger_than_its_tiers_costs_nothing_and_says_so():
    world = cluster(4, size=9)
    for _ in range(20):
        world.pass_time(60)
    assert world.created == []
    found = next(one for one in world.status.conditions if one.type == "NeverFits")
    assert (found.status, found.reason) == ("True", "TooFewNodes")
    assert found.message.startswith(
        "spec.trainer.nodes is 9, and no tier has so many nodes that its pods can use: spot has 4."
    )
    for number in range(5, 10):
        world.nodes[f"n{number}"] = node(f"n{number}")
        world.free.append(f"n{number}")
    world.settle()
    assert world.status.phase is Phase.RUNNING
    found = next(one for one in world.status.conditions if one.type == "NeverFits")
    assert found.status == "False"


def test_a_tier_that_an_autoscaler_grows_may_fit():
    world = cluster(4, size=9, spec={"capacity": {"tiers": [GROWING]}})
    world.settle()
    assert not any(one.type == "NeverFits" for one in world.status.conditions)


# Breaks if a training that is too large for a tier of which nothing is known holds its nodes most of the time, or waits
# without a word.
def test_a_tier_of_which_nothing_is_known_is_hoped_for_less_and_less():
    world = cluster(4, size=9, spec={"capacity": {"tiers": [SHORT]}})
    world.settle()
    assert not any(one.type == "NeverFits" for one in world.status.conditions), "an autoscaler may bring the others"
    held = []
    for _ in range(720):
        world.pass_time(5)
        held.append(holds(world) > 0)
    (found,) = [one for one in world.status.conditions if one.type == "NeverFits"]
    assert (found.status, found.reason) == ("Unknown", "TooFewNodes")
    assert found.message.endswith("Whether something brings such nodes of tier spot is not known")
    assert sum(held) / len(held) < 0.2
    assert sum(held[:60]) / 60 < 0.7


# Breaks if a slow autoscaler finds no pod that waits, and removes the nodes that it has brought.
@pytest.mark.parametrize(("tier", "again"), [(SHORT, 0), (GROWING, 4)], ids=["not known", "an autoscaler is known"])
def test_a_slow_autoscaler_finds_pods_that_wait_again_within_seconds(tier, again):
    world = cluster(4, size=9, spec={"capacity": {"tiers": [tier]}})
    world.settle()
    world.pass_time(61)
    assert holds(world) == 0
    world.pass_time(11)
    assert holds(world) == 4, "the first pause is short in any case"
    world.pass_time(61)
    assert holds(world) == 0
    world.pass_time(21)
    assert holds(world) == again


def test_a_deadline_is_not_promised_on_a_tier_that_cannot_hold_the_training():
    tiers = [{**FIXED, "pricePerNodeHour": "1"},
             {**TIERS[1], "observation": "Free", "pricePerNodeHour": "3"}]  # fmt: skip
    spec = {
        "capacity": {"tiers": tiers, "policy": "Deadline", "deadline": "2026-12-01T00:00:00Z"},
        "goal": {"steps": 1000},
    }
    world = cluster(4, size=4, spec=spec)
    world.nodes["d1"] = node("d1", labels={"tier": "dedicated"})
    world.free.append("d1")
    world.settle()
    world.train(200)
    world.pass_time(120)
    world.train(200)
    found = {one.type: one for one in world.status.conditions}
    assert "even without Spot" not in (found["DeadlineAtRisk"].message if "DeadlineAtRisk" in found else "")
    assert world.status.current.tier.name == "spot"


@pytest.mark.parametrize("change", [{"unschedulable": True}, {"ready": False}])
def test_a_node_that_takes_no_pods_now_is_not_free(change):
    world = cluster(3)
    world.nodes["n3"] = replace(world.nodes["n3"], **change)
    world.settle()
    assert world.created == []
    world.nodes["n3"] = node("n3")
    world.settle()
    assert len(world.created) == 3
