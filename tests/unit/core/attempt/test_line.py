"""Two trainings on several nodes that want the same nodes: one gets all of its nodes, the other waits for its turn."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.liveness import check_alive
from tests.support.decisions.snapshots import NOW, TIERS, node, settled

from holdfast.api.attempt import AttemptState
from holdfast.api.status import Phase
from holdfast.core.observe.claims import Claim, claims_of

SHORT = {**TIERS[0], "acquireTimeout": "60s"}
ONLY = {"capacity": {"tiers": [SHORT]}}
TWO = {"capacity": {"tiers": [SHORT, {**TIERS[1], "acquireTimeout": "60s"}]}}


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
    """How many nodes the pods of the training's attempt have."""
    return sum(claim.held for claim in claims_of(world.job, world.pods.values()))


def share(*spec: dict, size: int = 3, nodes: int = 4, namespaces: tuple[str, str] = ("vision", "vision")):
    """Two trainings that each have a part of the nodes; the first one was first."""
    first = GangWorld(size=size, spec=spec[0] if spec else ONLY, namespace=namespaces[0])
    first.free[:] = [f"n{number}" for number in range(1, nodes + 1)]
    first.nodes.update({name: node(name) for name in first.free})
    second = GangWorld(size=size, spec=spec[-1] if spec else ONLY, name="llm", namespace=namespaces[1], beside=first)
    first.decide()
    first.now += timedelta(seconds=1)
    second.decide()
    first.schedule(2)
    second.schedule(2)
    first.schedule()
    second.schedule()
    return first, second


def test_the_later_one_gives_its_part_back():
    first, second = share()
    assert (holds(first), holds(second)) == (2, 2)
    second.decide()
    assert second.status.current.state is AttemptState.INTENDED
    assert sorted(second.deleted) == ["llm-1-0", "llm-1-1", "llm-1-2"]
    assert second.status.reason == "WaitingForTurn"
    assert second.status.decision.message == "waits for its turn on tier spot: job vision/vit takes nodes there now"
    act(first, second)
    assert first.status.phase is Phase.RUNNING
    assert second.status.history == (), "nothing has ended"


def test_nodes_that_are_given_back_are_paid_for():
    """Breaks if a training that gives way again and again looks free."""
    _first, second = share()
    second.now += timedelta(seconds=45)
    second.decide()
    assert second.status.current.state is AttemptState.INTENDED
    assert second.status.current.held_for == timedelta(seconds=90)
    assert float(second.status.ledger.spent) == pytest.approx(90 / 3600 * 1.02, abs=1e-4)


def test_the_first_one_keeps_its_part():
    first, second = share()
    first.decide()
    assert (holds(first), holds(second)) == (2, 2)
    assert first.deleted == []


def test_it_goes_on_when_the_other_one_has_all_and_there_is_room():
    first, second = share(nodes=4)
    act(first, second)
    for name in ("n5", "n6"):
        first.nodes[name] = node(name)
        first.free.append(name)
    first.now += timedelta(seconds=15)
    act(first, second)
    assert second.status.phase is Phase.RUNNING
    assert second.status.restarts.interruptions == 0


def test_a_quota_of_one_namespace_stops_no_training_of_another_one():
    """Breaks if a tenant whose quota allows one pod keeps free nodes from all others, for its acquireTimeout."""
    first = GangWorld(size=4, spec=ONLY, namespace="small")
    first.free[:] = [f"n{number}" for number in range(1, 5)]
    first.refuse_after = 1
    first.settle()
    assert holds(first) == 1
    first.now += timedelta(seconds=1)
    second = GangWorld(size=3, spec=ONLY, name="llm", beside=first)
    act(first, second)
    assert second.status.phase is Phase.RUNNING


# Breaks if the name of a tenant's job is shown to another tenant.
def test_a_job_of_another_namespace_is_not_named():
    _, second = share(namespaces=("secret", "vision"))
    second.decide()
    said = second.status.decision.message
    assert said == "waits for its turn on tier spot: a job of another namespace takes nodes there now"
    assert "secret" not in second.status.model_dump_json()
    assert all("secret" not in event.message and "vit" not in event.message for event in second.last.events)


def test_a_third_one_waits_behind_both_before_it_has_pods():
    first, second = share()
    second.decide()
    third = GangWorld(size=2, spec=ONLY, name="bert", beside=first)
    first.now += timedelta(seconds=1)
    third.decide()
    assert third.created == []
    assert third.status.reason == "WaitingForTurn"
    act(second, third, first)
    assert first.status.phase is Phase.RUNNING
    first.complete()
    act(third, second, first)
    first.now += timedelta(seconds=15)
    act(third, second, first)
    assert second.status.phase is Phase.RUNNING, "it was there before the third one"


def test_with_room_for_all_nobody_waits():
    first, second = share(nodes=6)
    act(first, second)
    assert first.created == [f"vit-1-{rank}" for rank in range(3)]
    assert second.created == [f"llm-1-{rank}" for rank in range(3)]
    assert second.status.phase is Phase.RUNNING


def test_a_deleted_job_gives_its_turn_on():
    first, second = share()
    second.decide()
    first.neighbours.remove(first)
    for uid in list(first.pods):
        del first.pods[uid]
    act(second)
    assert second.status.phase is Phase.RUNNING


def test_a_job_that_is_being_deleted_holds_no_turn():
    first, second = share()
    meta = first.job.metadata.model_copy(update={"deletion_timestamp": first.now})
    first.job = first.job.model_copy(update={"metadata": meta})
    second.decide()
    assert second.status.current.state is AttemptState.ACQUIRING


def test_a_training_on_other_nodes_is_no_rival():
    other = {"capacity": {"tiers": [{**SHORT, "nodeSelector": {"tier": "spot", "zone": "b"}}]}}
    first, second = share(ONLY, other)
    second.decide()
    assert second.status.current.state is AttemptState.ACQUIRING
    first.nodes["n4"] = node("n4", labels={"tier": "spot", "zone": "b"})
    second.decide()
    assert second.status.current.state is AttemptState.INTENDED, "a node that both can use"


def test_a_training_on_one_node_never_waits():
    first, _ = share()
    single = GangWorld(size=1, spec=ONLY, name="bert", beside=first)
    single.decide()
    assert single.created == ["bert-1-0"]
    assert single.status.current is None
    assert single.last.trace == ("first pod",)


def test_a_lost_node_is_replaced_before_others_start():
    first = GangWorld(size=3, spec=ONLY)
    first.settle()
    first.train()
    second = GangWorld(size=3, spec=ONLY, name="llm", beside=first)
    act(first, second)
    assert holds(second) == 2, "n4 and n5"
    first.remove(first.node_of(1))
    first.decide()
    first.decide()
    second.decide()
    assert holds(second) == 2, "nothing shows yet that the other one gets no node"
    first.schedule()
    second.decide()
    assert second.status.reason == "WaitingForTurn"
    act(first, second)
    assert first.status.phase is Phase.RUNNING


# --- the deadline -----------------------------------------------------------------------------------------------------


def test_a_part_is_given_back_after_a_while_also_on_the_only_tier():
    world = GangWorld(size=4, spec=ONLY)
    world.free[:] = ["n1", "n2", "n3"]
    world.settle()
    world.pass_time(61)
    assert sorted(world.deleted) == [f"vit-1-{rank}" for rank in range(4)]
    current = world.status.current
    assert current.state is AttemptState.INTENDED
    assert timedelta(seconds=5) <= current.retry_at - world.now <= timedelta(seconds=10)
    assert world.status.history[-1].reason == "AcquireTimeout"
    assert world.status.decision.message.startswith("spot gave 3 of 4 nodes in time; all are given back, and spot is")
    world.pass_time(10)
    assert len(world.created) == 8
    world.pass_time(61)
    assert world.status.current.retry_at - world.now >= timedelta(seconds=10), "longer each time"


def test_the_pause_is_not_the_same_for_two_trainings_and_always_the_same_for_one():
    found = []
    for name in ("vit", "llm", "vit"):
        world = GangWorld(size=4, spec=ONLY, name=name)
        world.free[:] = ["n1"]
        world.settle()
        world.pass_time(61)
        found.append(world.status.current.retry_at - world.now)
    assert found[0] != found[1]
    assert found[0] == found[2]


def test_pods_without_any_node_wait_on_the_only_tier():
    world = GangWorld(size=4, spec=ONLY)
    world.free[:] = []
    world.settle()
    world.pass_time(600)
    assert world.deleted == []
    assert world.status.current.state is AttemptState.ACQUIRING


def test_one_that_can_never_get_all_its_nodes_lets_the_next_one_go():
    first, second = share(size=3, nodes=4)
    first.free[:] = ["n1", "n2"]  # too few for either
    act(first, second)
    assert second.status.reason == "WaitingForTurn"
    for _ in range(3):
        first.now += timedelta(seconds=30)
        act(first, second)
    assert holds(second) == 2, "the first one has given back, and is behind"
    assert holds(first) == 0
    assert first.status.reason in ("WaitingForTurn", "BackOff")


def test_waiting_for_a_turn_counts_as_waiting_for_the_tier():
    first, second = share({"capacity": {"tiers": [TIERS[0]]}}, TWO)
    first.free[:] = ["n1", "n2"]
    act(first, second)
    first.now += timedelta(seconds=59)
    act(second)
    assert second.status.current.tier.name == "spot"
    first.now += timedelta(seconds=2)
    second.decide()
    assert second.status.current.tier.name == "dedicated"


def test_survivors_are_kept_on_the_only_tier_unless_others_wait():
    world = GangWorld(size=3, spec=ONLY)
    world.free[:] = ["n1", "n2", "n3"]
    world.settle()
    world.train()
    world.remove(world.node_of(2))
    world.settle()
    world.pass_time(200)
    assert not {"vit-1-0", "vit-1-1"} & set(world.deleted), "two pods wait with their memory for the third"
    other = GangWorld(size=4, spec=ONLY, name="llm", beside=world)
    act(other)
    world.now += timedelta(seconds=1)
    act(world)
    assert {"vit-1-0", "vit-1-1", "vit-2-2"} <= set(world.deleted)


@pytest.mark.parametrize("policy", ["Ordered", "Cheapest"])
def test_a_part_of_a_better_tier_is_not_paid_for_without_end(policy):
    """A successor that gets some nodes of a better tier, and never the rest, gives them back."""
    tiers = [{**SHORT, "nodeSelector": {"tier": "spot"}}, {**TIERS[1], "acquireTimeout": "60s"}]
    world = GangWorld(size=3, spec={"capacity": {"tiers": tiers, "policy": policy, "returnPolicy": "Eager"}})
    world.free[:] = ["d1", "d2", "d3"]
    for name in world.free:
        world.nodes[name] = node(name, labels={"tier": "dedicated"})
    world.settle()
    world.pass_time(61)
    assert world.status.current.tier.name == "dedicated"
    world.train()
    world.free[:] = [*world.free, "n1", "n2"]
    for _ in range(30):
        world.pass_time(30)
        world.train()
        if world.status.successor and holds(world) == 2:
            break
    else:
        pytest.fail("no successor came up")
    world.pass_time(70)
    world.train()
    assert holds(world) == 0
    assert world.status.current.number == 2
    assert world.status.phase is Phase.RUNNING


# --- which claims make a training wait --------------------------------------------------------------------------------

EARLIER, LATER = NOW - timedelta(seconds=60), NOW + timedelta(seconds=60)
HOLDS = Claim("vision", "bert", (1, EARLIER, "u-bert"), frozenset({("tier", "spot")}), 3, 1, True, False, False, None,
              LATER)  # fmt: skip
NO_PODS = replace(HOLDS, held=0, short=False, in_line=True)


@pytest.mark.parametrize(
    ("waits", "rival"),
    [
        (True, HOLDS),
        (False, replace(HOLDS, until=EARLIER)),
        (False, replace(HOLDS, until=None)),
        (True, replace(HOLDS, until=EARLIER, nominated=True)),
        (False, replace(HOLDS, short=False)),
        (False, replace(HOLDS, held=0)),
        (True, replace(HOLDS, held=0, in_line=True)),
        (False, replace(HOLDS, order=(1, LATER, "u-bert"))),
        (True, replace(HOLDS, order=(0, LATER, "u-bert"))),
        (False, replace(HOLDS, order=(2, EARLIER, "u-bert"))),
        (False, replace(HOLDS, selector=frozenset({("tier", "cpu")}))),
        (True, NO_PODS),
        (True, replace(NO_PODS, not_before=EARLIER)),
        (False, replace(NO_PODS, not_before=LATER)),
        (False, replace(NO_PODS, until=EARLIER)),
        (True, replace(HOLDS, short=False, refused=True)),
        (False, replace(HOLDS, short=False, refused=True, namespace="other")),
        (False, replace(HOLDS, short=False, refused=True, namespace="other", held=0, in_line=True, not_before=LATER)),
        (True, replace(HOLDS, refused=True, namespace="other")),
    ],
)
def test_who_goes_first(waits, rival):
    world = GangWorld(size=3, spec=ONLY)
    decision = settled(replace(world.snapshot(), rivals=(rival,)))
    assert decision.status.current.state is (AttemptState.INTENDED if waits else AttemptState.ACQUIRING)
    assert (decision.status.reason == "WaitingForTurn") is waits


def test_both_with_survivors_keep_them_until_their_deadline():
    """Breaks if a training that lost a node gives warm pods away although its node may come."""
    world = GangWorld(size=3, spec=ONLY)
    world.free[:] = ["n1", "n2", "n3"]
    world.settle()
    world.train()
    world.remove(world.node_of(2))
    world.settle()
    other = replace(HOLDS, order=(0, EARLIER, "u-bert"))
    decision = settled(replace(world.snapshot(), rivals=(other,)))
    assert decision.trace == ()
