"""A training on very many nodes at the moments that cost the operator most; for tests and for benchmarks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from time import process_time

from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import TIERS

from holdfast.core.decide import decide
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.snapshot import Snapshot


def moments(size: int = 1024) -> Mapping[str, Snapshot]:
    """Snapshots of a training on `size` nodes that trains, has lost one node, is suspended, and leaves.

    And of one whose nodes are all silent, one after the other.
    """
    world = GangWorld(size=size, spec={"capacity": {"tiers": [TIERS[0]]}})
    world.settle()
    world.train()
    found = {"trains": world.snapshot()}
    nodes = world.nodes.values()
    since = [world.now - timedelta(seconds=50, milliseconds=20 * number) for number in range(len(nodes))]
    silent = [replace(node, ready=False, ready_changed_at=at) for node, at in zip(nodes, since, strict=True)]
    found["all nodes silent"] = replace(found["trains"], cluster=ClusterView(silent))
    world.remove(world.node_of(size // 2))
    found["one node lost"] = world.snapshot()
    world.decide()
    found["one pod created"] = world.snapshot()
    world.settle()
    world.train()
    world.job = world.job.model_copy(update={"spec": world.job.spec.model_copy(update={"suspend": True})})
    found["suspended"] = world.snapshot()
    world.decide()
    found["leaves"] = world.snapshot()
    return found


def decision_seconds(given: Snapshot, *, times: int = 10, clock: Callable[[], float] = process_time) -> float:
    """Seconds of CPU that the quickest of so many decisions takes."""
    found = []
    for _ in range(times):
        began = clock()
        decide(given)
        found.append(clock() - began)
    return min(found)
