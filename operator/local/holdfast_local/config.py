"""The configuration of a local cluster, and the file that lists its nodes."""

import os
import re
import sys
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from holdfast.api import names
from holdfast_local.agent.config import Capacity, ImageSpec, NodeSpec, Timings, socket_path_fits
from holdfast_local.errors import ConfigError
from holdfast_local.layout import default_root
from holdfast_local.network.plan import MOST_NODES, MOST_PODS

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
COMPONENTS = (*CONTROL_PLANE, "s3", "agent")
OPERATOR = "operator"  # the part that holdfast_local.installed adds
PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "s3",
    "kubelet",
    "prometheus",
)

DEFAULT_TARGETS = ("127.0.0.1:9443",)  # of an operator in docs/how-to/local-cluster.md that a person starts
_TARGET = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}|\[[0-9a-fA-F:.]{2,45}\]:[0-9]{1,5}")

_GPU = "nvidia.com/gpu"


def _spot(name: str) -> NodeSpec:
    labels = {names.LABEL_TIER: "spot", "karpenter.sh/capacity-type": "spot"}
    return NodeSpec(name=name, labels=labels, capacity=Capacity(accelerators={_GPU: 1}))


DEFAULT_NODES = (
    _spot("spot-1"),
    _spot("spot-2"),
    NodeSpec(
        name="dedicated-1",
        labels={names.LABEL_TIER: "dedicated", "karpenter.sh/capacity-type": "on-demand"},
        capacity=Capacity(accelerators={_GPU: 1}),
    ),
    NodeSpec(name="cpu-1", labels={names.LABEL_TIER: "cpu"}),
)

# The programs of the environment that runs us, found as a container finds the programs of its image.
_OURS = ImageSpec(path=(str(Path(sys.executable).parent),))

DEFAULT_IMAGES = {
    "holdfast.dev/trainer:local": _OURS,
    "holdfast.dev/init:local": _OURS,
    "holdfast.dev/plain:local": ImageSpec(path=("/usr/bin",)),
}


class ClusterConfig(BaseModel):
    """The configuration of a local cluster.

    Attributes:
        root: the folder with all of its state; made by `up`, removed by `down`.
        nodes: the simulated nodes.
        images: what stands for each image reference. Images that are not here cannot be pulled.
        timings: periods, in seconds.
        audit: write one JSON line an API request to `root`/audit/audit.log. Writes carry their request object.
        agent: run the node agent. Without it the cluster has no nodes.
        s3: run the S3 server.
        prometheus: run Prometheus with the alert rules of the chart.
        scrape: where operators serve their metrics by HTTP, as host:port, besides the one that is a part of the
            cluster; `Cluster.scrape` changes it later.
        pod_security: the level that namespaces enforce unless their labels say otherwise.
        ports: ports to use instead of free ones, by name (kube-apiserver, s3, kubelet, ...).
        extra_args: further arguments of a control-plane part, after the default ones, so that they win.
        ready_timeout: seconds that each part gets to become ready.
        network: `shared`: all nodes are in the network of the machine. `isolated`: each node has a network namespace,
            which needs root and iproute2, and can be cut off.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    root: Path = Field(default_factory=default_root)
    nodes: tuple[NodeSpec, ...] = DEFAULT_NODES
    images: dict[str, ImageSpec] = Field(default_factory=lambda: dict(DEFAULT_IMAGES))
    timings: Timings = Timings()
    audit: bool = False
    agent: bool = True
    s3: bool = True
    prometheus: bool = False
    scrape: tuple[str, ...] = ()
    pod_security: Literal["privileged", "baseline", "restricted"] = "baseline"
    ports: dict[str, int] = Field(default_factory=dict)
    extra_args: dict[str, list[str]] = Field(default_factory=dict)
    ready_timeout: float = Field(default=60.0, gt=0)
    network: Literal["shared", "isolated"] = "shared"

    @field_validator("root")
    @classmethod
    def _root_is_usable(cls, root: Path) -> Path:
        root = Path(os.path.abspath(root.expanduser()))  # noqa: PTH100 - resolve() would follow links
        if not socket_path_fits(root):
            raise ValueError(f"{root} is too long: a unix socket in it could not be opened; choose a shorter path")
        return root

    @field_validator("ports")
    @classmethod
    def _ports_are_known(cls, ports: dict[str, int]) -> dict[str, int]:
        _known(ports, PORTS)
        for name, port in ports.items():
            if not 1 <= port <= 65535:
                raise ValueError(f"{name}: {port} is not a port: use 1 to 65535")
        return ports

    @field_validator("scrape")
    @classmethod
    def _targets_are_addresses(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        for target in targets:
            if not _TARGET.fullmatch(target) or not 1 <= int(target.rpartition(":")[2]) <= 65535:
                raise ValueError(f"{target!r} is not an address to scrape: write host:port, such as 127.0.0.1:9443")
        return targets

    @field_validator("extra_args")
    @classmethod
    def _args_are_known(cls, args: dict[str, list[str]]) -> dict[str, list[str]]:
        _known(args, (*CONTROL_PLANE, "s3", "prometheus"))
        return args

    @model_validator(mode="after")
    def _timings_fit(self) -> "ClusterConfig":
        if self.timings.lease >= self.timings.node_grace:
            raise ValueError(
                f"timings: lease ({self.timings.lease:g} s) must be shorter than node_grace "
                f"({self.timings.node_grace:g} s): healthy nodes would be called NotReady"
            )
        _check_unique(self.nodes)
        if self.network == "isolated":
            self._check_isolated()
        return self

    def _check_isolated(self) -> None:
        if len(self.nodes) > MOST_NODES:
            raise ValueError(f"nodes: {len(self.nodes)} are too many: an isolated network has {MOST_NODES} at most")
        for node in self.nodes:
            if node.capacity.pods > MOST_PODS:
                raise ValueError(
                    f"nodes: {node.name}: capacity.pods is {node.capacity.pods}, but a node of an isolated network has "
                    f"addresses for {MOST_PODS} pods"
                )


def _known(given: dict[str, Any], allowed: tuple[str, ...]) -> None:
    if unknown := sorted(set(given) - set(allowed)):
        raise ValueError(f"{', '.join(unknown)} is not known: use {', '.join(allowed)}")


def _check_unique(nodes: tuple[NodeSpec, ...]) -> None:
    names_seen = [node.name for node in nodes]
    if twice := sorted({name for name in names_seen if names_seen.count(name) > 1}):
        raise ValueError(f"nodes: {', '.join(twice)} appears more than once; every node needs its own name")


def load_nodes(path: Path) -> tuple[NodeSpec, ...]:
    """Read a YAML file with a list of nodes (name, labels, taints, capacity, standby), such as examples/nodes.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or a field is wrong; the message names the field.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from error
    if not isinstance(data, list) or not data:
        raise ConfigError(f"{path}: must be a list of nodes, each with a name, for example `- name: spot-1`")
    try:
        nodes = TypeAdapter(tuple[NodeSpec, ...]).validate_python(data)
        _check_unique(nodes)
    except ValidationError as error:
        raise ConfigError(describe(error, str(path))) from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return nodes


def describe(error: ValidationError, where: str) -> str:
    """One line a wrong field: where it is, what is wrong with it, what was given."""
    lines = []
    for problem in error.errors(include_url=False):
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
        given = "" if problem["type"] == "missing" or not field else f" (given: {problem['input']!r})"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "is not a known field"
        lines.append(f"{where}: {field}: {message}{given}" if field else f"{where}: {message}")
    return "\n".join(lines)
