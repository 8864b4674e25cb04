"""A training on very many nodes at the moments that cost the operator most; for tests and for benchmarks."""

from collections.abc import Callable, Mapping
from time import process_time

from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import TIERS

from holdfast.core.decide import decide
from holdfast.core.observe.snapshot import Snapshot


def moments(size: int = 1024) -> Mapping[str, Snapshot]:
    """Snapshots of a training on `size` nodes that trains, has lost one node, is suspended, and leaves."""
    world = GangWorld(size=size, spec={"capacity": {"tiers": [TIERS[0]]}})
    world.settle()
    world.train()
    found = {"trains": world.snapshot()}
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
