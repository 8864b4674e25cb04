"""What the demo can show: a training on one node, one on several nodes, and one that becomes a package. Pure."""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from holdfast.api import names
from holdfast_local.agent.config import Capacity, NodeSpec
from holdfast_local.config import DEFAULT_NODES


class Blow(Enum):
    """How a node is lost."""

    RECLAIM = "reclaim"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Scene:
    """One interruption: of the node of this rank. `title` and `after` are for people.

    With `slack` the deadline moves too: to `slack` after the time at which the work would be done without more
    interruptions.
    """

    blow: Blow
    tier: str
    title: str
    after: str
    slack: timedelta | None = None
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Story:
    """A demo: the job of the file `example` in examples/, in a cluster with these nodes."""

    title: str
    example: str
    nodes: tuple[NodeSpec, ...]
    scenes: tuple[Scene, ...]


def _spot(number: int) -> NodeSpec:
    return NodeSpec(
        name=f"spot-{number}",
        labels={names.LABEL_TIER: "spot", "karpenter.sh/capacity-type": "spot"},
        capacity=Capacity(accelerators={"nvidia.com/gpu": 1}),
    )


ONE_NODE = Story(
    title="Holdfast: one training, three lost nodes",
    example="language-model.yaml",
    nodes=DEFAULT_NODES,
    scenes=(
        Scene(
            Blow.RECLAIM, "spot", "the cloud reclaims the first spot node", "it saves and moves to the other spot node"
        ),
        Scene(
            Blow.RECLAIM,
            "spot",
            "the deadline is moved up, the other spot node is reclaimed",
            "no time to wait for spot: it moves to dedicated",
            slack=timedelta(minutes=2),
        ),
        Scene(
            Blow.CRASH,
            "dedicated",
            "the dedicated node dies without notice",
            "it resumes on CPU from its last checkpoint",
        ),
    ),
)

GANG = Story(
    title="Holdfast: one training on four nodes, two lost nodes",
    example="several-nodes.yaml",
    nodes=tuple(_spot(number) for number in range(1, 7)),
    scenes=(
        Scene(
            Blow.RECLAIM,
            "spot",
            "the cloud reclaims the node of rank 3",
            "one new pod; all save and go on with it",
            rank=3,
        ),
        Scene(
            Blow.CRASH,
            "spot",
            "the node of rank 2 dies without notice",
            "one new pod; the others wait for it in their pods",
            rank=2,
        ),
    ),
)

PACKAGED = Story(
    title="Holdfast: from a plan to a package; the training loses one node",
    example="vision-transformer.yaml",
    nodes=DEFAULT_NODES,
    scenes=(
        Scene(Blow.RECLAIM, "spot", "the cloud reclaims a spot node", "it saves and moves to the other spot node"),
    ),
)
