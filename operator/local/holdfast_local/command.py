"""`holdfast local`: a real Kubernetes control plane and simulated GPU nodes on this machine."""

import shlex
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from holdfast.api.errors import HoldfastError
from holdfast.api.scalars import format_duration
from holdfast_cli.terminal.console import console, error_console
from holdfast_cli.terminal.output import Output, write
from holdfast_cli.terminal.parsing import duration
from holdfast_local.agent.config import Timings
from holdfast_local.cluster import Cluster, up
from holdfast_local.config import DEFAULT_NODES, DEFAULT_TARGETS, ClusterConfig, describe, load_nodes
from holdfast_local.errors import ConfigError, NotUpError
from holdfast_local.installed import objects
from holdfast_local.installed.ensure import ensure
from holdfast_local.layout import default_root
from holdfast_local.monitoring import DASHBOARDS
from holdfast_local.progress_bar import ConsoleReport
from holdfast_local.status import ClusterStatus
from holdfast_local.toolchain import TOOLS, ToolName, build_all

app = typer.Typer(
    name="local",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run a local Kubernetes cluster with S3 and simulated GPU nodes, without containers.",
)


class Extra(StrEnum):
    """Parts that a local cluster has on request."""

    PROMETHEUS = "prometheus"


_COLOURS = {"running": "green", "paused": "yellow", "crashed": "red"}

Root = Annotated[
    Path | None,
    typer.Option(
        "--root", help="Folder of the cluster's state.", envvar="HOLDFAST_LOCAL_ROOT", show_default=str(default_root())
    ),
]


Nodes = Annotated[
    Path | None,
    typer.Option(
        help="YAML file with a list of nodes instead of the default ones; see above.", exists=True, dir_okay=False
    ),
]
Network = Annotated[
    Literal["shared", "isolated"],
    typer.Option(
        help="shared: pods use the network of this machine. isolated: each node has its own network and can be cut "
        "off (`holdfast local partition`); needs root and the program ip."
    ),
]
Extras = Annotated[
    list[Extra] | None,
    typer.Option(
        "--with",
        metavar="|".join(Extra),
        help="prometheus: also run Prometheus with the alert rules of the chart; it scrapes the operator. "
        f"Its first build takes {TOOLS['prometheus'].estimate.removeprefix('about ')} more.",
    ),
]
Scrape = Annotated[
    list[str] | None,
    typer.Option(
        help="Where one more operator serves its metrics by HTTP (--metrics-auth off).",
        metavar="HOST:PORT",
        show_default=f"{', '.join(DEFAULT_TARGETS)} with --without-holdfast, otherwise none",
    ),
]
WithoutHoldfast = Annotated[
    bool,
    typer.Option(
        "--without-holdfast",
        help="Only the cluster: no API of Holdfast, no operator, no CapacityProfile, no Secret. To run an operator of "
        "your own, or to install the chart.",
    ),
]


def _node_names(context: typer.Context) -> list[str]:
    """Names for shell completion."""
    try:
        root = context.params.get("root") or default_root()
        return [node.name for node in Cluster.load(root).config.nodes]
    except HoldfastError:
        return [node.name for node in DEFAULT_NODES]


Node = Annotated[str, typer.Argument(help="Name of a node, for example spot-1.", autocompletion=_node_names)]


def _cluster(root: Path | None) -> Cluster:
    return Cluster.load(_absolute(root))


def _absolute(root: Path | None) -> Path:
    return (root or default_root()).expanduser().absolute()


@app.command("build")
def build_command(
    tools: Annotated[
        list[ToolName] | None, typer.Argument(metavar="TOOL", help="Names of tools.", show_default="all")
    ] = None,
) -> None:
    """Build the tools of a cluster in advance: kubernetes, versitygw (S3), prometheus.

    The first build takes minutes. A tool that is already in the cache is not built again. While the first tool of the
    list is built, the others are built beside it.
    """
    for binary in build_all([TOOLS[name] for name in tools or TOOLS], ConsoleReport(error_console())):
        _say(str(binary))


@app.command("up")
def up_command(
    *,
    root: Root = None,
    nodes: Nodes = None,
    audit: Annotated[bool, typer.Option("--audit", help="Write every API request to ROOT/audit/audit.log.")] = False,
    node_grace: Annotated[str, typer.Option(help="Silence that makes a node NotReady.", metavar="DURATION")] = "6s",
    lease: Annotated[str, typer.Option(help="How often a node renews its Lease.", metavar="DURATION")] = "2s",
    api_port: Annotated[int | None, typer.Option(help="Port of the API server.", show_default="any free one")] = None,
    network: Network = "shared",
    extras: Extras = None,
    scrape: Scrape = None,
    without_holdfast: WithoutHoldfast = False,
) -> None:
    """Start the cluster with Holdfast in it. The first start builds its tools, in about 5 minutes on two free cores;
    later ones take seconds.

    The operator is one of its processes. Jobs may use the CapacityProfile `default`, and in the namespace default the
    Secret `holdfast-storage` with the keys of the S3 server. If the cluster is up already, it stays as it is; an
    operator that has ended is started again.

    The default nodes are spot-1, spot-2 and dedicated-1 with one simulated GPU each, and cpu-1.

    \b
    A file for --nodes is a YAML list. Each node needs a name; everything else has a default:
      - name: spot-1
        labels: {holdfast.dev/tier: spot, topology.kubernetes.io/zone: zone-a}
        taints: [{key: example.com/reserved, value: training, effect: NoSchedule}]
        capacity: {cpu: 32, memory: 256Gi, pods: 110, accelerators: {nvidia.com/gpu: 8}}
        standby: true    # absent until `holdfast local restore spot-1`
    An example with 8 nodes is examples/nodes/eight-nodes.yaml in the repository.
    """
    with_prometheus = Extra.PROMETHEUS in (extras or ())
    if scrape and not with_prometheus:
        raise ConfigError("--scrape: only Prometheus scrapes: add --with prometheus")
    try:
        config = ClusterConfig(
            root=_absolute(root),
            nodes=load_nodes(nodes) if nodes else DEFAULT_NODES,
            audit=audit,
            timings=Timings(
                node_grace=duration("--node-grace", node_grace).total_seconds(),
                lease=duration("--lease", lease).total_seconds(),
            ),
            ports={"kube-apiserver": api_port} if api_port else {},
            network=network,
            prometheus=with_prometheus,
            scrape=tuple(scrape or (DEFAULT_TARGETS if without_holdfast else ())),
        )
    except ValidationError as error:
        raise ConfigError(describe(error, "configuration")) from error
    report = ConsoleReport(error_console())
    if without_holdfast:
        _greet(up(config, report))
    else:
        _greet(ensure(config, report), f", with Holdfast and the CapacityProfile `{objects.PROFILE}`")


def _greet(cluster: Cluster, has: str = "") -> None:
    """Print what to do with a cluster that is up. `has`: what is in it, as the end of a sentence."""
    suffix = "" if cluster.root == default_root() else f" --root {shlex.quote(str(cluster.root))}"
    _say(f"The local cluster is up{has}: {cluster.server}")
    _say(f'  eval "$(holdfast local env{suffix})"   sets KUBECONFIG, the S3 settings and PATH')
    _say(f"  holdfast local status{suffix}          shows what runs")
    if cluster.config.prometheus:
        targets = ", ".join((*(["the operator"] if has else []), *cluster.config.scrape))
        _say(f"Prometheus is up: {cluster.prometheus} (its API; it scrapes {targets})")
    _say(f"  holdfast local down{suffix}            stops it and removes its data")


@app.command()
def down(root: Root = None) -> None:
    """Stop every process of the cluster and remove its data, also the checkpoints in its S3 server."""
    try:
        cluster = _cluster(root)
    except NotUpError:
        _say(f"No local cluster is up in {_absolute(root)}: nothing to do.")
        return
    cluster.down(ConsoleReport(error_console()))


@app.command()
def status(root: Root = None, output: Output = None) -> None:
    """Show the state of every part. The exit code is 1 if a part has crashed or no cluster is up."""
    found = _cluster(root).status()
    if not write(output, found.model_dump(mode="json", exclude={"s3": {"secret_key"}})):
        _show(found)
    if not found.healthy:
        raise typer.Exit(1)


@app.command()
def env(root: Root = None) -> None:
    """Print shell lines for eval "$(holdfast local env)": KUBECONFIG, the S3 settings, PATH (kubectl), the address.

    $HOLDFAST_LOCAL_ADDRESS is the address of this machine that pods reach, for servers that they use.
    """
    cluster = _cluster(root)
    for name, value in cluster.environment().items():
        typer.echo(f"export {name}={shlex.quote(value)}")
    typer.echo(f'export PATH={shlex.quote(str(cluster.bin))}:"$PATH"')


@app.command()
def reclaim(
    node: Node,
    root: Root = None,
    notice: Annotated[str, typer.Option(help="Time between the notice and SIGTERM.", metavar="DURATION")] = "30s",
) -> None:
    """Take a node away as a cloud does: notice taint, SIGTERM, SIGKILL, then the Node object is deleted."""
    delay = duration("--notice", notice)
    _cluster(root).reclaim(node, delay)
    _say(f"{node}: reclaimed; its processes get SIGTERM in {notice}")


@app.command()
def crash(node: Node, root: Root = None) -> None:
    """Kill everything on a node without notice; the node goes silent. Its Node object stays."""
    _cluster(root).crash(node)
    _say(f"{node}: crashed")


@app.command()
def partition(node: Node, root: Root = None) -> None:
    """Cut a node off from the API server, the operator, S3 and its peers; its processes run on until `heal`.

    The cluster must be started with `holdfast local up --network isolated`.
    """
    _cluster(root).partition(node)
    _say(f"{node}: cut off; its processes run on")


@app.command()
def heal(node: Node, root: Root = None) -> None:
    """Connect a node again that was cut off. It reports what happened, and ends pods that were deleted meanwhile."""
    _cluster(root).heal(node)
    _say(f"{node}: connected again")


@app.command()
def restore(node: Node, root: Root = None) -> None:
    """Bring a node back, empty, that was reclaimed, has crashed or is cut off."""
    _cluster(root).restore(node)
    _say(f"{node}: restored")


def _say(text: str, style: str = "") -> None:
    """Print a line without markup and without wrapping, so that people can copy it."""
    console().print(text, style=style or None, markup=False, soft_wrap=True)


def _show(found: ClusterStatus) -> None:
    console().print(_parts_table(found))
    for part in found.parts:
        if part.state == "crashed":
            _say(f"\n{part.name} crashed; the end of {part.log_file}:", "red")
            for line in part.log:
                _say(f"  {line}")
    if found.nodes:
        _say("")
        console().print(_nodes_table(found))
    _say(f"\nAPI server  {found.server}")
    if found.s3:
        _say(f"S3          {found.s3.endpoint}, bucket {found.s3.bucket}")
    if found.prometheus:
        _say(f"Prometheus  {found.prometheus} (its API; for Grafana, the dashboards are in {DASHBOARDS})")
    if found.network != "shared":
        _say(f"Network     {found.network}")
    _say(f"State       {found.root}")
    if found.phase != "ready":
        _say("The cluster is not complete (`up` was interrupted): run `holdfast local down`.", "red")
    if found.api_error:
        _say(found.api_error, "red")


def _parts_table(found: ClusterStatus) -> Table:
    table = Table("PART", "STATE", "PID", "PORT", "UP", "MEMORY", box=None, pad_edge=False)
    for part in found.parts:
        state = Text(part.state, style=_COLOURS.get(part.state, ""))
        up_for = format_duration(timedelta(seconds=int(part.uptime))) if part.uptime is not None else "-"
        memory = f"{part.memory / 2**20:.0f} MiB" if part.memory is not None else "-"
        table.add_row(part.name, state, str(part.pid), str(part.port or "-"), up_for, memory)
    return table


def _nodes_table(found: ClusterStatus) -> Table:
    table = Table("NODE", "STATE", "ACCELERATORS", box=None, pad_edge=False)
    table.add_column("TAINTS", overflow="fold")
    for node in found.nodes:
        devices = ", ".join(f"{key}: {value}" for key, value in sorted(node.capacity.items()) if "/" in key)
        state = Text("Ready", style="green") if node.ready else Text("NotReady", style="red")
        table.add_row(node.name, state, devices or "-", "\n".join(node.taints) or "-")
    return table
