"""Read what the reasons of a job need beside the job: its profile, and the nodes."""

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.core.observe.nodes import NodeView
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import job_api


async def profile_of(client: Client, job: TrainingJob) -> CapacityProfile | None:
    """The profile that the job names; None if it names none, or the profile does not exist. Raises ApiError."""
    if (name := job.spec.capacity.profile) is None:
        return None
    try:
        return await job_api.get_profile(client, name)
    except ApiError as error:
        if error.not_found:
            return None
        raise


async def all_nodes(client: Client) -> list[NodeView] | None:
    """All nodes; None if this user may not list them. Raises ApiError."""
    try:
        items, _ = await client.list_all("/api/v1/nodes")
    except ApiError as error:
        if error.status == 403:
            return None
        raise
    return [NodeView.parse(item) for item in items]
