"""Give the job of a run to the cluster: as a new one, or in the place of one with its name."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import job_api
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs.cancel import delete, storage_words, wait_gone

LOOK_EVERY: Final = 0.5  # seconds
SUSPENDED_WITHIN: Final = 600.0  # seconds; a job that runs saves first
GONE_WITHIN: Final = 300.0
STRICT: Final = {"fieldValidation": "Strict", "fieldManager": "holdfast-run"}


class Again(StrEnum):
    """What happens to a job that has the name already."""

    CONTINUE = "continue"
    """The training goes on from its newest checkpoint, with the new program."""
    NEW = "new"
    """The old job is deleted, and the training begins from the start. The old checkpoints stay."""


class JobExistsError(CliError):
    """A job has the name."""


async def create(client: Client, manifest: Mapping[str, Any], more: Mapping[str, str] | None = None) -> None:
    """Create the job. Raises ApiError, JobExistsError; CliError if an older release of Holdfast is installed."""
    path, name = job_api.jobs_path(manifest["metadata"]["namespace"]), manifest["metadata"]["name"]
    try:
        await client.request("POST", path, body=dict(manifest), params={**STRICT, **(more or {})})
    except ApiError as error:
        if error.status == 409:
            hint = "give --again continue, --again new, or another --name"
            raise JobExistsError(f"a job {name} exists", code=ExitCode.USAGE, hint=hint) from error
        raise _older(error) from error


def check_goes_on(old: TrainingJob, manifest: Mapping[str, Any]) -> None:
    """CliError if the training of `old` cannot go on in the job of `manifest`."""
    name, storage = old.metadata.name, old.spec.checkpoint.storage
    if old.status.phase == Phase.COMPLETED:
        raise CliError(
            f"{name} has completed, so no training is left to go on with",
            hint="holdfast run --again new, or another --name",
        )
    now = storage_words(TrainingJob.parse(dict(manifest)).spec.checkpoint.storage)
    if now != (before := storage_words(storage)):
        raise CliError(
            f"{name} has its checkpoints in {before}, and this run would look for them in {now}",
            code=ExitCode.USAGE,
            hint="give the --storage below which they are, or another --name",
        )


async def go_on(client: Client, old: TrainingJob, manifest: Mapping[str, Any]) -> None:
    """Run the program of `manifest` in the training of `old`. Raises ApiError, CliError.

    What `manifest` does not say stays as it is in the job. A job that is not over is suspended, which saves, gets the
    new fields, and resumes: it keeps its history and its costs. One that has failed is deleted, and a new one takes
    its checkpoints over.
    """
    manifest = _replacing(manifest)
    if old.status.phase == Phase.FAILED:
        await _take_over(client, old, old, manifest)
        return
    await _change(client, old, {**manifest["spec"], "suspend": True}, {"dryRun": "All"})  # before anything stops
    try:
        await _take_over(client, old, await _suspended(client, old), manifest)
    except BaseException:  # also Ctrl-C: the job goes on as it was
        if not old.spec.suspend:
            with suppress(ApiError, CliError):
                await _change(client, old, {"suspend": False}, {})
        raise


def _replacing(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """`manifest` as a patch that leaves no packages of another program."""
    none = {"trainer": {"code": {"dependencies": None}}}
    return {**manifest, "spec": overlaid(none, manifest["spec"])}


async def _suspended(client: Client, old: TrainingJob) -> TrainingJob | None:
    """Suspend the job, and wait until nothing of it runs. What it is then, None if it is gone."""
    meta = old.metadata
    asked = await job_api.set_suspend(client, meta.namespace, meta.name, suspended=True)
    generation = asked.metadata.generation
    return await _until(client, old, lambda job: _is_at_rest(job, meta.uid, generation), SUSPENDED_WITHIN)


async def _take_over(client: Client, old: TrainingJob, found: TrainingJob | None, manifest: Mapping[str, Any]) -> None:
    """Train with the fields of `manifest` from here on. `found`: `old` as it is now; nothing of it runs."""
    if found is None or found.metadata.uid != old.metadata.uid:
        raise CliError(
            f"{old.metadata.name} was deleted meanwhile", code=ExitCode.NOT_FOUND, hint="run the command again"
        )
    check_goes_on(found, manifest)
    if found.status.phase == Phase.FAILED:
        whole = {**_without_none(overlaid(found.spec.to_object(), manifest["spec"])), "suspend": False}
        await begin_anew(client, old, {**manifest, "spec": whole})
    else:
        await _change(client, old, {**manifest["spec"], "suspend": False}, {})


async def _change(client: Client, old: TrainingJob, spec: Mapping[str, Any], more: Mapping[str, str]) -> None:
    """Give these fields to the job with the UID of `old`."""
    body = {"metadata": {"uid": old.metadata.uid}, "spec": dict(spec)}
    path = job_api.job_path(old.metadata.namespace, old.metadata.name)
    try:
        await client.request("PATCH", path, body=body, params={**STRICT, **more})
    except ApiError as error:
        raise _older(error) from error


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`below` with what `above` says, as a JSON merge patch does (RFC 7386), but that None stays."""
    both = {name: overlaid(below[name], above[name]) for name in _maps(below) & _maps(above)}
    return {**below, **above, **both}


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    deeper = {name: _without_none(fields[name]) for name in _maps(fields)}
    return {name: value for name, value in {**fields, **deeper}.items() if value is not None}


def _maps(fields: Mapping[str, Any]) -> set[str]:
    return {name for name, value in fields.items() if isinstance(value, Mapping)}


async def begin_anew(client: Client, old: TrainingJob, manifest: Mapping[str, Any]) -> None:
    """Delete `old`, wait until it is gone with its pods, and create the new job. Raises ApiError, CliError.

    Nothing is deleted for a job that the cluster would refuse.
    """
    with suppress(JobExistsError):
        await create(client, manifest, {"dryRun": "All"})
    await delete(client, old)
    await wait_gone(client, old, GONE_WITHIN)
    await create(client, manifest)


def _is_at_rest(job: TrainingJob | None, uid: str, generation: int) -> bool:
    """True if the job of this UID has no attempt any more, or is gone. `generation`: with which it was suspended."""
    if job is None or job.metadata.uid != uid or job.status.is_over:
        return True
    return job.status.phase == Phase.SUSPENDED and job.status.observed_generation >= generation


async def _until(
    client: Client, job: TrainingJob, met: Callable[[TrainingJob | None], bool], seconds: float
) -> TrainingJob | None:
    """Look at the job until `met`, and return it. CliError after this time."""
    meta = job.metadata
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await job_api.find_job(client, meta.namespace, meta.name)
                if met(found):
                    return found
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError as error:
        raise CliError(
            f"{meta.name} is not suspended after {seconds:g} s",
            code=ExitCode.NO_ANSWER,
            hint=f"holdfast describe {meta.name} -n {meta.namespace}",
        ) from error


def _older(error: ApiError) -> ApiError | CliError:
    """A field that the cluster does not know is one of a later release."""
    if error.status == 400 and "unknown field" in error.message:
        return CliError(
            f"the Holdfast in the cluster is older than this command: {error.message}",
            hint="update its CRDs and its operator; `holdfast version` shows both versions",
        )
    return error
