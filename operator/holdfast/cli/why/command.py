"""`holdfast why`: the reason of the last decision, and every figure that the policy uses."""

import asyncio
from datetime import UTC, datetime

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.cli.cluster import job_api
from holdfast.cli.cluster.connect import Target, connect
from holdfast.cli.cluster.options import Job, Kubeconfig, Namespace
from holdfast.cli.terminal.console import console
from holdfast.cli.terminal.output import AsJson, Output, chosen, write
from holdfast.cli.why.as_json import as_json
from holdfast.cli.why.reasons import find_reasons
from holdfast.cli.why.screen import show
from holdfast.core.observe.nodes import NodeView
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError


def why(
    job: Job,
    *,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    output: Output = None,
    as_json_: AsJson = False,
) -> None:
    """Show why a job is on its tier, with every figure behind it.

    That is the last decision, and what the policy says now. The policy runs here, with the operator's own code. It sees
    the nodes if this user may list them.

    \b
    Examples:
      holdfast why vit-faces -n vision
      holdfast why vit-faces --json | jq '.tiers[] | {name, available, costOfAnHoursWork}'
    """
    target, asked = Target(kubeconfig, namespace), chosen(output, as_json=as_json_)

    async def read() -> tuple[TrainingJob, CapacityProfile | None, list[NodeView] | None]:
        async with connect(target) as client:
            found = await job_api.get_job(client, target.resolved_namespace(), job)
            return found, await _profile(client, found), await _nodes(client)

    found = find_reasons(*asyncio.run(read()), datetime.now(UTC))
    if not write(asked, as_json(found)):
        show(console(), found)


async def _profile(client: Client, job: TrainingJob) -> CapacityProfile | None:
    """The profile that the job names; None if it names none, or the profile does not exist. Raises ApiError."""
    if (name := job.spec.capacity.profile) is None:
        return None
    try:
        return await job_api.get_profile(client, name)
    except ApiError as error:
        if error.not_found:
            return None
        raise


async def _nodes(client: Client) -> list[NodeView] | None:
    """All nodes; None if this user may not list them. Raises ApiError."""
    try:
        items, _ = await client.list_all("/api/v1/nodes")
    except ApiError as error:
        if error.status == 403:
            return None
        raise
    return [NodeView.parse(item) for item in items]
