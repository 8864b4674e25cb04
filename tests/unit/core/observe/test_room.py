"""Which nodes are free for trainings on several nodes, and which training may take them."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import NOW, TIERS, job, node

from holdfast.api.profile import ProfileTier
from holdfast.core.observe.nodes import ClusterView, NodeView, Taint
from holdfast.core.observe.room import Ask, Held, Room, Shape, large_enough

TRAINER = job().spec.trainer
SPOT = Shape.of(TRAINER, ProfileTier(**TIERS[0]))
SOON = NOW + timedelta(seconds=20)
OFFERS = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "8"}
WHOLE = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "8"}


def cluster(*names: str, **changes: object) -> ClusterView:
    return ClusterView([replace(node(name), **changes) for name in names])


def holding(name: str, *pods: dict[str, str]) -> Held:
    """A node with pods that ask for this."""
    held = Held()
    for requests in pods:
        held.add(name, requests)
    return held


def ask(name: str, lacks: int, **changes: object) -> Ask:
    """What a job of a namespace with the same name lacks."""
    return Ask(
        **{"namespace": name, "job": name, "uid": f"u-{name}", "since": NOW, "shape": SPOT, "lacks": lacks, **changes}
    )


@pytest.mark.parametrize(
    ("change", "is_free"),
    [
        ({}, True),
        ({"labels": {"tier": "cpu"}}, False),
        ({"unschedulable": True}, False),
        ({"ready": False}, False),
        ({"taints": (Taint("team", "a", "NoSchedule"),)}, False),
        ({"taints": (Taint("team", "a", "PreferNoSchedule"),)}, True),
        ({"allocatable": {**OFFERS, "memory": "1Mi"}}, False),
        ({"allocatable": OFFERS}, True),
    ],
)
def test_a_node_is_free_if_a_pod_may_use_it(change, is_free):
    assert ("n1" in Room(cluster("n1", **change)).free(SPOT)) is is_free


@pytest.mark.parametrize(
    ("offered", "held", "is_free"),
    [
        (OFFERS, {}, True),
        (OFFERS, WHOLE, False),
        (OFFERS, {"cpu": "500m", "memory": "1Gi"}, True),
        ({}, {"cpu": "500m"}, False),
        ({}, {}, True),
    ],
)
def test_what_the_operators_pods_hold_is_not_free(offered, held, is_free):
    shape = Shape(SPOT.labels, (), frozenset({"cpu": "2", "nvidia.com/gpu": "1"}.items()))
    room = Room(cluster("n1", allocatable=offered), holding("n1", held) if held else None)
    assert ("n1" in room.free(shape)) is is_free


PODS = st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.sampled_from([{"cpu": "4"}, {"cpu": "2", "memory": "20Gi"}]))
CHANGES = st.lists(st.one_of(PODS, st.none()), max_size=12)
SHAPES = [Shape(SPOT.labels, (), frozenset({"cpu": cpu}.items())) for cpu in ("2", "5", "9")]


# Breaks if what is kept of a node does not follow its pods, or if nodes are counted otherwise than they are named.
@given(CHANGES, st.sets(st.sampled_from(["n1", "n2", "n3", "n9"])))
def test_what_is_known_of_nodes_follows_their_pods(changes, own):
    nodes = ClusterView(
        [node(name, allocatable={**OFFERS, "cpu": cpu}) for name, cpu in (("n1", "8"), ("n2", "8"), ("n3", "4"))]
    )
    kept, there = Held(), list[tuple[str, dict[str, str]]]()
    for change in changes:
        if change is not None:
            kept.add(*change)
            there.append(change)
        elif there:
            kept.add(*there.pop(0), sign=-1)
        afresh = Held()
        for name, requests in there:
            afresh.add(name, requests)
        for shape in SHAPES:
            room = Room(nodes, kept)
            assert room.free(shape) == Room(nodes, afresh).free(shape)
            usable = room.free(shape) | (own & large_enough(nodes, shape))
            for count in (1, 2, 3):
                assert (room.free_since(shape, count, own) is not None) == (len(usable) >= count)


def granted(room: Room, now=NOW) -> list[str]:
    return [one.ask.job for one in room.granted(now)]


def test_an_ask_that_cannot_be_met_is_passed_over():
    room = Room(cluster("n1", "n2"), asks=[ask("large", 3), ask("small", 2, since=NOW + timedelta(seconds=1))])
    assert granted(room) == ["small"]


def test_the_namespace_goes_first_that_has_waited_longer_for_a_turn():
    asks = [ask("a", 2), ask("b", 2, since=NOW + timedelta(seconds=5))]
    assert granted(Room(cluster("n1", "n2"), asks=asks)) == ["a"]
    assert granted(Room(cluster("n1", "n2"), asks=asks, turns={"a": NOW})) == ["b"]


def test_one_that_pauses_keeps_no_node_from_others():
    asks = [ask("a", 2, not_before=SOON), ask("b", 2, since=NOW + timedelta(seconds=5))]
    room = Room(cluster("n1", "n2"), asks=asks)
    assert granted(room) == ["b"]
    assert granted(room, SOON) == ["a"], "the answer is not kept for longer than it holds"


def test_one_that_has_begun_has_its_nodes_left_to_it_for_a_while():
    asks = [ask("a", 2, begun=True, until=SOON, since=NOW + timedelta(hours=1)), ask("b", 1)]
    room = Room(cluster("n1", "n2"), asks=asks)
    assert room.left_for(asks[1], NOW) == 0
    assert granted(room, SOON) == ["b"]


def test_nodes_that_the_other_one_cannot_use_are_free():
    asks = [ask("a", 2, begun=True, until=SOON, closed=frozenset({"n2", "n3"})), ask("b", 2)]
    room = Room(cluster("n1", "n2", "n3"), asks=asks)
    assert room.left_for(asks[1], NOW) == 2


@pytest.mark.parametrize(("closed", "wanted"), [((), True), (("n1",), False)])
def test_who_holds_a_part_learns_that_others_wait_for_it(closed, wanted):
    room = Room(cluster("n1"), holding("n1", WHOLE), [ask("a", 1, closed=frozenset(closed))])
    assert room.is_wanted(["n1"], "u-b", NOW) is wanted
    assert room.is_wanted(["n1"], "u-a", NOW) is False, "its own job"


# Breaks if trainings on several nodes leave nodes to a pod that waits at the scheduler, and may never take them, or
# give a part back that it could not use.
def test_a_pod_that_waits_at_the_scheduler_is_left_no_node_but_parts_are_given_back_for_it():
    waits = ask("single", 1, begun=True, closed=frozenset(["n2"]))
    room = Room(cluster("n1", "n2", "n3"), holding("n1", WHOLE), [waits, ask("gang", 2)])
    assert granted(room) == ["gang"]
    assert not Room(cluster("n1"), asks=[waits]).others_suffice(ask("late", 3), NOW)
    assert [room.is_wanted([name], "u-gang", NOW) for name in ("n1", "n2")] == [True, False]


NAMES = [f"n{number}" for number in range(6)]


@given(st.data())
def test_all_that_may_begin_have_room_together_however_the_scheduler_chooses(data):
    """Whatever the order and the choices: no training that may begin gets only a part."""
    subset = st.frozensets(st.sampled_from(NAMES))
    asks = []
    for number in range(data.draw(st.integers(1, 5))):
        begun = data.draw(st.booleans())
        closed = data.draw(subset)
        lacks = data.draw(st.integers(1, max(len(NAMES) - len(closed), 1) if begun else len(NAMES)))
        asks.append(ask(f"a{number}", lacks, closed=closed, begun=begun, until=SOON if begun else None))
    room = Room(ClusterView([node(name) for name in NAMES]), asks=asks)
    free = set(NAMES)
    found = room.granted(NOW)
    # Those that have begun may be short, since others filled nodes meanwhile: they take what they get first.
    for one in found:
        usable = sorted(one.nodes & free)
        taken = data.draw(st.permutations(usable))[: one.ask.lacks]
        if not one.ask.begun:
            assert len(taken) == one.ask.lacks
        free -= set(taken)


def with_gpus(count: int) -> Shape:
    return Shape(SPOT.labels, (), frozenset({("nvidia.com/gpu", str(count))}))


def test_trainings_share_nodes_that_have_room_for_both():
    """A node with eight accelerators takes a pod with six and one with two; the third one waits."""
    asks = [
        ask(name, 2, shape=with_gpus(gpus), since=NOW + timedelta(seconds=order))
        for order, (name, gpus) in enumerate([("a", 6), ("b", 2), ("c", 1)])
    ]
    room = Room(cluster("n1", "n2", allocatable=OFFERS), asks=asks)
    assert granted(room) == ["a", "b"]
    assert [room.left_for(one, NOW) for one in asks] == [2, 2, -2]


@given(st.data())
def test_all_that_may_begin_have_room_on_shared_nodes_however_the_scheduler_chooses(data):
    nodes = {name: data.draw(st.integers(0, 8)) for name in NAMES}
    asks = [
        ask(f"a{number}", data.draw(st.integers(1, 4)), shape=with_gpus(data.draw(st.integers(1, 8))),
            closed=data.draw(st.frozensets(st.sampled_from(NAMES), max_size=2)))
        for number in range(data.draw(st.integers(1, 5)))
    ]  # fmt: skip
    offering = [replace(node(name), allocatable={"nvidia.com/gpu": f"{has}"}) for name, has in nodes.items()]
    for one in Room(ClusterView(offering), asks=asks).granted(NOW):
        [(_, gpus)] = one.ask.shape.wanted
        usable = sorted(name for name in one.nodes if nodes[name] >= int(gpus))
        taken = data.draw(st.permutations(usable))[: one.ask.lacks]
        assert len(taken) == one.ask.lacks
        for name in taken:
            nodes[name] -= int(gpus)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=6), st.integers(0, 6))
def test_free_nodes_are_not_left_idle_while_a_training_could_use_them(jobs, count):
    asks = [ask(f"a{number}", lacks, namespace=f"ns{team}") for number, (lacks, team) in enumerate(jobs)]
    nodes: list[NodeView] = [node(name) for name in NAMES[:count]]
    room = Room(ClusterView(nodes), asks=asks)
    found = room.granted(NOW)
    left = count - sum(one.ask.lacks for one in found)
    begins = {one.ask.uid for one in found}
    assert all(one.lacks > left for one in asks if one.uid not in begins)
