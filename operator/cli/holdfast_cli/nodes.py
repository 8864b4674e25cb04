"""`holdfast nodes`: the nodes that new pods avoid, and why."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from holdfast.api.names import ANNOTATION_FORGIVEN
from holdfast.api.objects import CapacityProfile
from holdfast.api.scalars import format_time
from holdfast.core.capacity import bad_nodes
from holdfast.core.observe.nodes import NodeView
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.errors import CliError
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.console import console, error_console
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_cli.terminal.output import ListOutput, write

COLUMNS = (
    Column("NODE"),
    Column("PROFILE", rank=2),
    Column("STATE"),
    Column("FAULTS", rank=1, right=True),
    Column("NEWEST", loose=True),
    Column("AGE", rank=1, right=True),
)
STYLES = {"broken": "red", "avoided": "red", "last choice": "yellow"}
FORBIDDEN = 403  # HTTP status


def nodes(
    *,
    forgive: Annotated[
        str | None, typer.Option(metavar="NODE", help="Forget the faults of NODE until now, in all profiles.")
    ] = None,
    namespace: Namespace = None,
    output: ListOutput = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show nodes that new pods avoid, and why; forgive one.

    broken: a condition says so, and no pod uses the node. avoided: two attempts ended for a reason that the node may
    have caused; pods do not use it if enough others are there. last choice: one attempt ended so. The faults of one
    namespace count only there until another namespace sees one too; a state of - says that none counts in this
    namespace. Faults are forgotten after 24 hours.

    \b
    Examples:
      holdfast nodes
      holdfast nodes --forgive gpu-node-17
    """
    target = Target(kubeconfig, namespace)

    async def run() -> None:
        async with connect(target) as client:
            now = datetime.now(UTC)
            profiles = [bad_nodes.as_of(profile, now) for profile in await job_api.list_profiles(client)]
            if forgive:
                typer.echo(await _forgive(client, profiles, forgive))
                return
            broken = await _broken(client)
            found = list_nodes(profiles, broken or (), target.resolved_namespace())
        if broken is None:
            error_console().print("note:  broken nodes are not shown: you may not list nodes (403)")
        names = [f"node/{name}" for name in dict.fromkeys(one.node for one in found)]
        if write(output, {"nodes": [one.to_object() for one in found]}, names):
            return
        if found:
            console(wide=output == "wide").print(Fitting(COLUMNS, [one.cells(now) for one in found]))
        else:
            typer.echo("no node is avoided")

    asyncio.run(run())


@dataclass(frozen=True, slots=True)
class Avoided:
    """A node that is broken, or that a profile tells faults of. `newest` is when the newest fault was."""

    node: str
    state: str
    why: str
    profile: str | None = None
    faults: int | None = None
    newest: datetime | None = None

    def cells(self, now: datetime) -> list[Text]:
        """The cells of COLUMNS."""
        faults = "" if self.faults is None else str(self.faults)
        age = "" if self.newest is None else formats.span(now - self.newest)
        state = Text(self.state, style=STYLES.get(self.state, ""))
        return [Text(self.node), Text(self.profile or ""), state, Text(faults), Text(self.why), Text(age)]

    def to_object(self) -> dict[str, Any]:
        """What -o json prints; null where a value is not known."""
        state = None if self.state == formats.NOTHING else self.state
        newest = format_time(self.newest) if self.newest else None
        return {
            "node": self.node,
            "profile": self.profile,
            "state": state,
            "faults": self.faults,
            "newest": {"reason": self.why, "at": newest},
        }


def list_nodes(profiles: Iterable[CapacityProfile], broken: Iterable[NodeView], namespace: str) -> list[Avoided]:
    """Broken nodes first, then those with faults, by profile and name."""
    found = [Avoided(node.name, "broken", node.fault) for node in broken]
    for profile in profiles:
        for one in profile.status.faulty_nodes:
            newest = one.faults[-1]
            state = bad_nodes.standing(one.faults, namespace) or formats.NOTHING
            found.append(Avoided(one.node, state, newest.reason, profile.metadata.name, len(one.faults), newest.at))
    return found


async def _broken(client: Client) -> list[NodeView] | None:
    """Nodes that are said to be broken; None if this user may not list nodes. Raises ApiError."""
    try:
        items, _ = await client.list_all("/api/v1/nodes")
    except ApiError as error:
        if error.status == FORBIDDEN:
            return None
        raise
    return sorted((node for node in map(NodeView.parse, items) if node.fault), key=lambda node: node.name)


async def _forgive(client: Client, profiles: Iterable[CapacityProfile], node: str) -> str:
    """Write the time into each profile that tells a fault of the node. Raises ApiError, CliError if there is none."""
    found = [profile for profile in profiles if any(one.node == node for one in profile.status.faulty_nodes)]
    if not found:
        raise CliError(f"no profile tells a fault of node {node}", hint="holdfast nodes lists them")
    for profile in found:
        value = bad_nodes.forgive(profile, node, datetime.now(UTC))
        await job_api.annotate_profile(client, profile, ANNOTATION_FORGIVEN, value)
    return f"{node} is forgiven in {', '.join(profile.metadata.name for profile in found)}"
