"""Read what the reasons of a job need beside the job: its profile, the nodes, and what pods hold of them."""

from collections.abc import Mapping
from typing import Any

from holdfast.api.names import LABEL_JOB_UID
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.core.observe.nodes import NodeView
from holdfast.core.observe.pods import PodView
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
    items = await _all(client, "/api/v1/nodes")
    return None if items is None else [NodeView.parse(item) for item in items]


async def all_pods(client: Client) -> list[PodView] | None:
    """The pods of all jobs; None if this user may not list pods in all namespaces. Raises ApiError."""
    items = await _all(client, "/api/v1/pods", {"labelSelector": LABEL_JOB_UID})
    return None if items is None else [pod for item in items if (pod := PodView.parse(item))]


async def _all(client: Client, path: str, query: Mapping[str, str] | None = None) -> list[dict[str, Any]] | None:
    try:
        items, _ = await client.list_all(path, query)
    except ApiError as error:
        if error.status == 403:
            return None
        raise
    return items
