"""`holdfast why`: the reason of the last decision, and every figure that the policy uses."""

import asyncio
from datetime import UTC, datetime

from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.output import Output, write
from holdfast_cli.why.as_json import as_json
from holdfast_cli.why.reading import all_nodes, all_pods, profile_of
from holdfast_cli.why.reasons import Reasons, find_reasons
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
    the nodes if this user may list them, and what other jobs hold of them if this user may list all pods.

    \b
    Examples:
      holdfast why vit-faces -n vision
      holdfast why vit-faces -o json | jq '.tiers[] | {name, available, costOfAnHoursWork}'
    """
    target = Target(kubeconfig, namespace)

    async def read() -> Reasons:
        async with connect(target) as client:
            found = await job_api.get_job(client, target.resolved_namespace(), job)
            profile, nodes, pods = await profile_of(client, found), await all_nodes(client), await all_pods(client)
            return find_reasons(found, profile, nodes, datetime.now(UTC), pods)

    found = asyncio.run(read())
    if not write(output, as_json(found)):
        show(console(), found)
