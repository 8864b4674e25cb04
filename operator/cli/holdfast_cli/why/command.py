"""`holdfast why`: the reason of the last decision, and every figure that the policy uses."""

import asyncio
from datetime import UTC, datetime

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.core.observe.nodes import NodeView
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.output import Output, write
from holdfast_cli.why.as_json import as_json
from holdfast_cli.why.reading import all_nodes, profile_of
from holdfast_cli.why.reasons import find_reasons
from holdfast_cli.why.screen import show


def why(
    job: Job,
    *,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    output: Output = None,
) -> None:
    """Show why a job is on its tier, with every figure behind it.

    That is the last decision, and what the policy says now. The policy runs here, with the operator's own code. It sees
    the nodes if this user may list them.

    \b
    Examples:
      holdfast why vit-faces -n vision
      holdfast why vit-faces -o json | jq '.tiers[] | {name, available, costOfAnHoursWork}'
    """
    target = Target(kubeconfig, namespace)

    async def read() -> tuple[TrainingJob, CapacityProfile | None, list[NodeView] | None]:
        async with connect(target) as client:
            found = await job_api.get_job(client, target.resolved_namespace(), job)
            return found, await profile_of(client, found), await all_nodes(client)

    found = find_reasons(*asyncio.run(read()), datetime.now(UTC))
    if not write(output, as_json(found)):
        show(console(), found)
