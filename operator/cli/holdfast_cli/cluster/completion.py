"""Names for shell completion. It never fails and never waits long: an unreachable cluster completes nothing."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import typer

from holdfast.api.errors import HoldfastError
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect

PATIENCE = 2.0  # seconds
_WITH_VALUE = ("-n", "--namespace", "--kubeconfig", "--tier", "--timeout")


def _quietly(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    try:
        return asyncio.run(asyncio.wait_for(work, PATIENCE))
    except (HoldfastError, TimeoutError, OSError):
        return []


def _option(context: typer.Context, name: str, *flags: str) -> str | None:
    """The value of an option. While a later option is being typed, the line is not parsed: it is in `args`."""
    if given := context.params.get(name):
        return str(given)
    words = context.args
    return next((words[i + 1] for i, word in enumerate(words[:-1]) if word in flags), None)


def _job(context: typer.Context) -> str | None:
    if given := context.params.get("job"):
        return str(given)
    words = context.args
    places = (i for i, word in enumerate(words) if not word.startswith("-"))
    return next((words[i] for i in places if i == 0 or words[i - 1] not in _WITH_VALUE), None)


def _target(context: typer.Context) -> Target:
    given = _option(context, "kubeconfig", "--kubeconfig")
    return Target(Path(given) if given else None, _option(context, "namespace", "-n", "--namespace"))


def jobs(context: typer.Context, incomplete: str) -> list[str]:
    """Names of jobs in the namespace."""
    target = _target(context)

    async def read() -> list[str]:
        async with connect(target) as client:
            found, _ = await job_api.list_jobs(client, target.resolved_namespace())
            return [job.metadata.name for job in found]

    return [name for name in _quietly(read()) if name.startswith(incomplete)]


def namespaces(context: typer.Context, incomplete: str) -> list[str]:
    """Names of namespaces."""

    async def read() -> list[str]:
        async with connect(_target(context)) as client:
            items, _ = await client.list_all("/api/v1/namespaces")
            return [str(item["metadata"]["name"]) for item in items]

    return [name for name in _quietly(read()) if name.startswith(incomplete)]


def profiles(context: typer.Context, incomplete: str) -> list[str]:
    """Names of CapacityProfiles."""

    async def read() -> list[str]:
        async with connect(_target(context)) as client:
            return [profile.metadata.name for profile in await job_api.list_profiles(client)]

    return [name for name in _quietly(read()) if name.startswith(incomplete)]


def tiers(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the tiers of the job that the command line names."""
    target, name = _target(context), _job(context)

    async def read() -> list[str]:
        async with connect(target) as client:
            job = await job_api.get_job(client, target.resolved_namespace(), name or "")
            return [tier.name for tier in await job_api.grid(client, job)]

    return [tier for tier in _quietly(read()) if tier.startswith(incomplete)] if name else []
