"""Cases for the rows of trainings on several nodes; a job with two nodes, rank 1 is on node n2."""

from dataclasses import replace
from typing import Any

from tests.support.decisions.snapshots import (
    SAME,
    TIERS,
    at,
    attempt,
    container,
    job,
    node,
    nodes,
    pending,
    pod,
    snapshot,
    status,
    stepped,
    tier,
)
from tests.unit.core.table.row_cases import ACQUIRING, INTENDED, RUNNING, SPOT_ITN, STARTING, Case
from tests.unit.core.table.successor_cases import SAVED, departs

from holdfast.api.attempt import Attempt, AttemptState, MemberGroup, PodRecord, World
from holdfast.core.observe.members import LauncherView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.room import Room
from holdfast.core.observe.snapshot import Snapshot

WORLD = World(address="10.0.0.1", port=30001)


def two(number: int, state: AttemptState, **changes: Any) -> Attempt:
    """An attempt with two nodes."""
    return attempt(number, state, nodes=2, **{"raised_at": at(-70), **changes})


def given(current: Attempt, *pods: PodView, successor: Attempt | None = None, **changes: Any) -> Snapshot:
    """A job that needs two nodes; `capacity` and `failure` are of its spec."""
    trainer = {"image": "registry.example/train:1", "command": ["python3", "train.py"], "nodes": 2}
    asked = {name: changes.pop(name) for name in ("capacity", "failure") if name in changes}
    return snapshot(job(status(current, successor=successor), trainer=trainer, **asked), *pods, **changes)


def fixed(found: Attempt) -> Attempt:
    """The attempt on a tier to which nothing brings nodes."""
    return found.model_copy(update={"tier": found.tier.model_copy(update={"observation": "Free"})})


def member(born: int, rank: int, **changes: Any) -> PodView:
    """A running pod of a rank."""
    name = f"vit-{born}-{rank}"
    place = {"outlives": True, "made_from": "", "address": f"10.0.0.{rank + 1}"}
    return pod(born, **{**place, "name": name, "uid": f"u-{name}", "rank": rank, "node": f"n{rank + born}", **changes})


def says(*pods: PodView, ready: bool = True, worked_for: int = 0, heard: float = -1) -> dict[str, LauncherView]:
    """What the launchers of these pods told."""
    return {one.uid: LauncherView(worked_for, ready=ready, received_at=at(heard), port=30001) for one in pods}


BOTH = (member(1, 0), member(1, 1))
START = two(1, STARTING, scheduled_at=at(-60))
OF_JOB = (member(1, 0, made_from=SAME), member(1, 1, made_from=SAME))
ONE_REFUSED = (
    OF_JOB[0],
    member(1, 1, made_from=SAME, trainer=container(waiting="ErrImagePull", message="x: not found")),
)
PULLING = member(1, 0, made_from=SAME, trainer=container(waiting="ContainerCreating"))
LATE = two(1, STARTING, scheduled_at=at(-3000))
REPORT = replace(stepped(), pod_uid="u-vit-1-0", checkpoint=SAVED)
TRAINS = two(1, RUNNING, fenced=True, first_step=500, world=WORLD, pods=(PodRecord(uid="u-vit-1-0", node="n1"),))
LEAVES = TRAINS.model_copy(update={"departure": departs()})
NEW = member(2, 1)
SHARED = (MemberGroup(born=1, ranks="0"), MemberGroup(born=2, ranks="1"))
TAKES_OVER = two(2, ACQUIRING, members=SHARED, predecessor=1)
BESIDE = two(2, STARTING, tier=tier("dedicated"), predecessor=1, scheduled_at=at(-60))
ALL_NEW = (member(2, 0), member(2, 1, node="n4"))
ALONE = two(2, STARTING, members=(MemberGroup(born=1, ranks="0-1"),), inherited_at=at(-60), scheduled_at=at(-60))
PART = (member(1, 0), pending(1, name="vit-1-1", uid="u-vit-1-1", rank=1))
LACKS = pending(1, name="vit-1-0", uid="u-vit-1-0")
HELD = two(1, ACQUIRING, created_at=at(-50), acquire_deadline=at(60))
INTENDS = two(1, INTENDED)
WAITS = INTENDS.model_copy(update={"waits_since": at(-70), "acquire_deadline": at(60)})
# A successor on another tier, of whose two pods one has a node.
REACHES = two(2, ACQUIRING, tier=tier("dedicated"), predecessor=1, created_at=at(-50), acquire_deadline=at(60))
WANTS = two(2, INTENDED, tier=tier("dedicated"))
PART_BESIDE = (member(2, 0, tier="dedicated"), pending(2, name="vit-2-1", uid="u-vit-2-1", rank=1, tier="dedicated"))
RETURNS = {"tiers": [TIERS[1], TIERS[0]], "returnPolicy": "Eager"}
BOTH_GO = nodes(node("n1", taints=(SPOT_ITN,)), node("n2", taints=(SPOT_ITN,)))

CASES = (
    Case("launchers of two nodes are ready", given(START, *BOTH, members=says(*BOTH)), ("met", "started"),
         {"state": RUNNING}),
    Case("the pod of rank 0 has no address yet",
         given(START, replace(BOTH[0], address=""), BOTH[1], members=says(*BOTH)), (), {"state": STARTING}),
    Case("one of two launchers is not ready", given(START, *BOTH, members=says(BOTH[0])), (), {"state": STARTING}),
    Case("one of two launchers was ready, and does not call any more",
         given(START, *BOTH, members=says(BOTH[0]) | says(BOTH[1], heard=-100)), (), {"state": STARTING}),
    Case("one of two launchers is not ready for very long", given(LATE, *BOTH, members=says(BOTH[0])),
         ("not met",), {"state": INTENDED, "attempt": 2}),
    Case("the pod whose launcher is not ready is replaced, and no other one",
         given(LATE, *OF_JOB, members=says(OF_JOB[0])), ("not met",),
         {"state": INTENDED, "attempt": 2, "deleted": [("u-vit-1-1", None)]}),
    Case("the image of one of two is refused",
         given(two(1, STARTING, scheduled_at=at(-120)), *ONE_REFUSED, members=says(BOTH[0])),
         ("bad container",), {"state": INTENDED, "attempt": 2, "retry": at(10), "deleted": [("u-vit-1-1", None)]}),
    Case("the image of one of two is refused while the other one is still pulled",
         given(two(1, STARTING, scheduled_at=at(-120)), PULLING, ONE_REFUSED[1]),
         ("bad container",), {"state": INTENDED, "attempt": 2, "retry": at(10), "deleted": [("u-vit-1-1", None)]}),
    Case("the pod of rank 1 is deleted while both wait for a node",
         given(HELD, LACKS, replace(PART[1], deleted_at=at(30))),
         ("pending pod deleted",), {"state": INTENDED, "attempt": 2, "deleted": [("u-vit-1-0", None)]}),
    Case("no operator took the calls of the launchers for very long",
         given(LATE, *BOTH, members=says(BOTH[0]), listening_since=at(-10)), (), {"state": STARTING}),
    Case("a pod that was taken over is lost before the start",
         given(ALONE, BOTH[0], members=says(BOTH[0], worked_for=1)), ("member lost", "create"),
         {"state": ACQUIRING, "attempt": 2}),
    Case("launchers of a successor are ready",
         given(LEAVES, *BOTH, *ALL_NEW, successor=BESIDE, reports=[REPORT], members=says(*ALL_NEW),
               cluster=nodes(node("n1", taints=(SPOT_ITN,)))),
         ("successor met", "successor started"), {"state": RUNNING}),
    Case("the pod that a successor was to take over has to go too",
         given(LEAVES, *BOTH, NEW, successor=TAKES_OVER, reports=[REPORT], cluster=BOTH_GO),
         ("successor's member lost", "create beside"), {"state": RUNNING}),
    Case("a part where nothing brings more nodes", given(fixed(HELD), *PART), ("part given back",),
         {"state": INTENDED, "attempt": 2, "deleted": [("u-vit-1-0", None), ("u-vit-1-1", None)], "created": [],
          "reason": "BackOff"}),
    Case("a part where an autoscaler may bring more", given(HELD, *PART), (), {"state": ACQUIRING}),
    Case("no room for all", given(fixed(INTENDS), others=Room(nodes(without=("n2", "n3", "n4")))), ("no room",),
         {"state": INTENDED, "attempt": 1, "reason": "WaitingForNodes", "created": []}),
    Case("no room but on a node that it avoids",
         given(fixed(WAITS.model_copy(update={"avoid_nodes": ("n2",)})), capacity={"tiers": [TIERS[0]]},
               cluster=nodes(without=("n3", "n4"))),
         ("avoided for nothing", "create"), {"attempt": 2, "avoid": (), "created": [2, 2]}),
    Case("no room but on a node that it avoids, before the delay is over",
         given(fixed(WAITS.model_copy(update={"avoid_nodes": ("n2",), "retry_at": at(9)})),
               capacity={"tiers": [TIERS[0]]}, cluster=nodes(without=("n3", "n4"))),
         (), {"attempt": 1, "avoid": ("n2",), "created": []}),
    Case("no room but on a node that it avoids, because others are full",
         given(fixed(WAITS.model_copy(update={"avoid_nodes": ("n2",)})), capacity={"tiers": [TIERS[0]]},
               others=Room(nodes(without=("n3", "n4")))),
         ("avoided for nothing", "create"), {"attempt": 2, "avoid": (), "created": [2, 2]}),
    Case("no room, and the node that it avoids is full too",
         given(fixed(WAITS.model_copy(update={"avoid_nodes": ("n2",)})), capacity={"tiers": [TIERS[0]]},
               others=Room(nodes(without=("n2", "n3", "n4")))),
         (), {"attempt": 1, "avoid": ("n2",), "created": []}),
    Case("it waits for room", given(fixed(WAITS), others=Room(nodes(without=("n2", "n3", "n4")))), (),
         {"state": INTENDED, "attempt": 1, "reason": "WaitingForNodes", "created": []}),
    Case("there is room now", given(fixed(WAITS), others=Room(nodes())), ("create",),
         {"state": ACQUIRING, "created": [1, 1]}),
    Case("a part of the only tier in time", given(HELD.model_copy(update={"acquire_deadline": at(-1)}), *PART,
                                                  capacity={"tiers": [TIERS[0]]}),
         ("no node in time",), {"state": INTENDED, "attempt": 2, "tier": "spot", "created": []}),
    Case("a successor holds a part for too long",
         given(TRAINS, *BOTH, *PART_BESIDE, successor=fixed(REACHES), reports=[REPORT],
               members=says(*BOTH, ready=False), capacity=RETURNS),
         ("part of a successor",), {"state": RUNNING, "attempt": 2}),
    Case("a successor that is urgent holds a part for too long",
         given(LEAVES, *BOTH, *PART_BESIDE, successor=fixed(REACHES), reports=[REPORT],
               members=says(*BOTH, ready=False), cluster=BOTH_GO),
         ("part of a successor",), {"state": RUNNING, "attempt": 3, "created": []}),
    Case("no room for a successor",
         given(TRAINS, *BOTH, successor=fixed(WANTS), reports=[REPORT], members=says(*BOTH, ready=False),
               capacity=RETURNS, others=Room(nodes())),
         ("no room for successor",), {"state": RUNNING, "attempt": 2, "created": []}),
)  # fmt: skip
