"""The configuration of the agent process: ROOT/agent.json, written by the local cluster, read by the agent."""

import os
from decimal import Decimal
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from holdfast.api.scalars import Quantity, quantity_value
from holdfast.api.strings import LabelKey, LabelValue, ResourceName, Text

CONFIG_NAME = "agent.json"
SOCKET_NAME = "agent.sock"

# Not longer, because each node has a label with its name.
_NodeName = Annotated[
    str, Text("the name of a node: lower-case letters, digits, '-' and '.'", 63, r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
]


def _is_positive(quantity: str) -> str:
    if quantity_value(quantity) == 0:
        raise ValueError("must be more than 0")
    return quantity


_Room = Annotated[Quantity, AfterValidator(_is_positive)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TaintSpec(_Model):
    """A taint that a node has from its first moment."""

    key: LabelKey
    value: LabelValue = ""
    effect: str = Field(default="NoSchedule", pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$")


class Capacity(_Model):
    """What a simulated node claims to have. Nothing of it is taken from the machine below.

    cpu and memory are Kubernetes quantities; accelerators maps an extended resource to a count of devices.
    """

    cpu: _Room = "8"
    memory: _Room = "32Gi"
    pods: int = Field(default=110, ge=1, le=10_000)
    accelerators: dict[ResourceName, Annotated[int, Field(ge=0, le=10_000)]] = Field(default_factory=dict)

    def resources(self) -> dict[str, str]:
        """The node's `status.capacity`, with pods and every accelerator."""
        fixed = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), "ephemeral-storage": "100Gi"}
        return fixed | {name: str(count) for name, count in self.accelerators.items()}


class NodeSpec(_Model):
    """One simulated node. A standby node appears when it is restored, like a machine that is rented later."""

    name: _NodeName
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    taints: tuple[TaintSpec, ...] = ()
    capacity: Capacity = Capacity()
    standby: bool = False


INTERFACE = "eth0"
"""The network interface of a node in its namespace."""


class NodeNetwork(_Model):
    """The network namespace of one node.

    `namespace` is its name for `ip netns`, `link` the node's interface at the bridge. `address` is the node's own, with
    a prefix of `prefix` bits; `pods` is the range of its pods.
    """

    namespace: str
    link: str
    address: str
    prefix: int
    pods: IPv4Network


class ImageSpec(_Model):
    """What stands for a container image: folders put first on PATH, environment variables, and the entry point.

    As with a real image, a container's `command` replaces the entry point, and its `args` follow either of them.
    """

    path: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)


class Timings(_Model):
    """Every period of the local cluster that a test may want shorter, in seconds."""

    lease: float = Field(default=2.0, gt=0, description="renewal of each node's Lease by the agent")
    status: float = Field(default=10.0, gt=0, description="renewal of each node's status conditions by the agent")
    node_grace: float = Field(default=6.0, gt=0, description="silence after which the controller manager says NotReady")
    node_monitor_period: float = Field(default=1.0, gt=0, description="how often the controller manager looks at nodes")
    not_ready_toleration: int = Field(default=300, ge=0, description="default toleration of not-ready and unreachable")
    final_phase: float = Field(
        default=1.0, ge=0, description="from the end of the containers of a pod to its final phase, as on real nodes"
    )
    restart_backoff: float = Field(
        default=1.0, gt=0, description="first wait before a container is started again; doubles"
    )
    restart_backoff_max: float = Field(
        default=30.0, gt=0, description="longest wait before a container is started again"
    )
    image_backoff: float = Field(
        default=2.0, gt=0, description="how long ErrImagePull shows before it is ImagePullBackOff"
    )
    memory_poll: float = Field(
        default=0.25, gt=0, description="how often memory of containers with a limit is measured"
    )


class AgentConfig(_Model):
    """ROOT/agent.json.

    The agent authenticates with a client certificate that must be allowed to do everything (group system:masters):
    it stands for all kubelets, and the token requests it makes are for pods of any node.
    """

    root: Path
    server: str = Field(description="URL of the API server")
    ca_cert: Path = Field(description="CA of the API server, and of the clients that may use the kubelet port")
    client_cert: Path
    client_key: Path
    kubelet_cert: Path = Field(description="certificate of the kubelet port, valid for the addresses of all nodes")
    kubelet_key: Path
    kubelet_port: int = Field(default=0, ge=0, le=65535, description="0: any free port; nodes publish the real one")
    nodes: tuple[NodeSpec, ...]
    images: dict[str, ImageSpec] = Field(default_factory=dict)
    timings: Timings = Timings()
    bridge: str = Field(default="", description="namespace of the bridge; empty where nodes share one network")
    networks: dict[str, NodeNetwork] = Field(default_factory=dict, description="of each node, where there is a bridge")
    kill_after: Decimal = Field(default=Decimal("2"), ge=0, description="seconds from SIGTERM to SIGKILL in a reclaim")

    @model_validator(mode="after")
    def _names_are_unique(self) -> "AgentConfig":
        names = [node.name for node in self.nodes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"nodes: {', '.join(twice)} appears more than once; every node needs its own name")
        return self

    @property
    def socket(self) -> Path:
        """The control socket."""
        return self.root / SOCKET_NAME

    @property
    def data(self) -> Path:
        """The folder with one folder for each node."""
        return self.root / "nodes"

    def save(self) -> Path:
        """Write ROOT/agent.json, readable by its owner only, and return its path."""
        path = self.root / CONFIG_NAME
        fresh = path.with_suffix(".new")
        fresh.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        fresh.chmod(0o600)
        fresh.replace(path)
        return path

    @classmethod
    def load(cls, root: Path) -> "AgentConfig":
        """Read ROOT/agent.json. Raises FileNotFoundError, or pydantic.ValidationError that names the wrong field."""
        return cls.model_validate_json((root / CONFIG_NAME).read_text(encoding="utf-8"))


def socket_path_fits(root: Path) -> bool:
    """Whether ROOT/agent.sock is short enough for a unix socket address (107 bytes)."""
    return len(os.fsencode(root / SOCKET_NAME)) <= 107
