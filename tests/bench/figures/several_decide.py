"""One decision about a training on 1,024 nodes that has just lost one of them."""

from time import thread_time

from tests.bench.goals import Measured
from tests.bench.stats import Sample
from tests.support.decisions.gang_world import GangWorld

from holdfast.core.decide import decide
from holdfast.core.decision import CreatePod
from holdfast.core.observe.snapshot import Snapshot

NODES = 1024
ROUNDS = 50


async def measure(quick: bool) -> list[Measured]:
    """Processor time: what else the machine does is no part of a decision."""
    trainer = {"image": "registry.example/team/train:1.0", "command": ["python3", "train.py"], "nodes": NODES}
    world = GangWorld(size=NODES, spec={"trainer": trainer})
    world.settle()
    world.train()
    rounds = 10 if quick else ROUNDS
    calm = Sample.of([_seconds(world.snapshot()) for _ in range(rounds)])
    world.remove(world.node_of(5))
    lost = Sample.of([_seconds(world.snapshot()) for _ in range(rounds)])
    made = [action for action in decide(world.snapshot()).actions if isinstance(action, CreatePod)]
    assert len(made) == 1, f"one new pod for the lost one, not {len(made)}"
    return [Measured("several-decide", 1000 * lost.p50, note=f"{lost}; while nothing happens: {calm}")]


def _seconds(snapshot: Snapshot) -> float:
    started = thread_time()
    decide(snapshot)
    return thread_time() - started
