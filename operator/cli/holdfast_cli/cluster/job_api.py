"""Read jobs and their events, and write requests as annotations."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.api.errors import SpecError, shown
from holdfast.api.names import API_VERSION, JOB_KIND, JOB_PLURAL, PROFILE_PLURAL
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import Tier
from holdfast.api.scalars import parse_time
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.errors import CliError, ExitCode

_BASE = f"/apis/{API_VERSION}"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def job_path(namespace: str, name: str) -> str:
    """The API path of one job. Raises CliError if it cannot be a name: it would be a path of something different."""
    if not _NAME.fullmatch(name):
        raise CliError(
            f"{shown(name)} is not the name of a job: it has lower-case letters, digits and '-' alone",
            code=ExitCode.USAGE,
            hint="holdfast watch -A lists all jobs",
        )
    return f"{_BASE}/namespaces/{namespace}/{JOB_PLURAL}/{name}"


def jobs_path(namespace: str | None) -> str:
    """The API path of all jobs of a namespace, or of the cluster for None."""
    return f"{_BASE}/namespaces/{namespace}/{JOB_PLURAL}" if namespace else f"{_BASE}/{JOB_PLURAL}"


def profiles_path() -> str:
    """The API path of all profiles."""
    return f"{_BASE}/{PROFILE_PLURAL}"


def events_path(namespace: str) -> str:
    """The API path of the Events of a namespace."""
    return f"/api/v1/namespaces/{namespace}/events"


def about(job: str) -> dict[str, str]:
    """The parameters that select the Events about a job."""
    return {"fieldSelector": f"involvedObject.kind={JOB_KIND},involvedObject.name={job}"}


@dataclass(frozen=True, slots=True)
class Line:
    """One Event for people. `at` is the time of its last occurrence."""

    uid: str
    at: datetime
    warning: bool
    reason: str
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that this version cannot read; the others are still shown."""

    namespace: str
    name: str
    why: str


async def get_job(client: Client, namespace: str, name: str) -> TrainingJob:
    """One job. Raises ApiError; SpecError if this version cannot read it."""
    return TrainingJob.parse(await client.request("GET", job_path(namespace, name)))


async def find_job(client: Client, namespace: str, name: str) -> TrainingJob | None:
    """One job, None if there is none with this name. Raises ApiError; SpecError if this version cannot read it."""
    try:
        return await get_job(client, namespace, name)
    except ApiError as error:
        if error.not_found and "could not find the requested resource" not in error.message:
            return None
        raise


async def get_raw(client: Client, namespace: str, name: str) -> dict[str, Any]:
    """One job as the API server gives it, without managedFields, as kubectl prints it. Raises ApiError."""
    return _printed(await client.request("GET", job_path(namespace, name)))


async def list_raw(client: Client, namespace: str | None) -> list[dict[str, Any]]:
    """All jobs of a namespace, or of all for None, as `get_raw`, by namespace and name. Raises ApiError."""
    items, _ = await client.list_all(jobs_path(namespace))
    found = [_printed({"apiVersion": API_VERSION, "kind": JOB_KIND, **raw}) for raw in items]
    return sorted(found, key=lambda raw: (raw["metadata"].get("namespace", ""), raw["metadata"]["name"]))


def _printed(raw: dict[str, Any]) -> dict[str, Any]:
    raw["metadata"].pop("managedFields", None)
    return raw


def full_name(raw: Mapping[str, Any]) -> str:
    """`trainingjob.holdfast.dev/NAME`, as kubectl prints names."""
    return f"{JOB_KIND.lower()}.{API_VERSION.partition('/')[0]}/{raw['metadata']['name']}"


async def list_jobs(client: Client, namespace: str | None) -> tuple[list[TrainingJob], list[Unreadable]]:
    """All jobs of a namespace, or of all for None, by namespace and name; and those that cannot be read."""
    items, _ = await client.list_all(jobs_path(namespace))
    return read_jobs(items)


def read_jobs(items: Iterable[Mapping[str, Any]]) -> tuple[list[TrainingJob], list[Unreadable]]:
    """The jobs of a list by namespace and name, and those that cannot be read."""
    jobs: list[TrainingJob] = []
    unreadable: list[Unreadable] = []
    for raw in items:
        try:
            jobs.append(TrainingJob.parse(raw))
        except SpecError as error:
            meta = raw.get("metadata") or {}
            unreadable.append(Unreadable(meta.get("namespace", ""), meta.get("name", ""), str(error)))
    jobs.sort(key=lambda job: (job.metadata.namespace, job.metadata.name))
    return jobs, unreadable


async def job_events(client: Client, job: TrainingJob) -> list[Line]:
    """The Events about a job, oldest first."""
    items, _ = await client.list_all(events_path(job.metadata.namespace), about(job.metadata.name))
    return event_lines(items, job)


def event_lines(items: Iterable[Mapping[str, Any]], job: TrainingJob) -> list[Line]:
    """Those Events that are about this very job, oldest first."""
    uids = (job.metadata.uid, "", None)
    mine = [raw for raw in items if (raw.get("involvedObject") or {}).get("uid") in uids]
    # Times are whole seconds; within a second, the resource version gives the order.
    ordered = sorted(mine, key=lambda raw: (event_line(raw).at, _version(raw)))
    return [event_line(raw) for raw in ordered]


def _version(raw: Mapping[str, Any]) -> int:
    text = str((raw.get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0


def event_line(raw: Mapping[str, Any]) -> Line:
    """Parse a core/v1 Event; its writer may have used either of the two ways of counting."""
    meta, series = raw.get("metadata") or {}, raw.get("series") or {}
    written = (raw.get("lastTimestamp"), raw.get("eventTime"), meta.get("creationTimestamp"))
    seen = next((text for text in (series.get("lastObservedTime"), *written) if text), None)
    return Line(
        uid=str(meta.get("uid", "")),
        at=parse_time(seen) if seen else datetime.fromtimestamp(0, UTC),
        warning=raw.get("type") == "Warning",
        reason=str(raw.get("reason", "")),
        message=str(raw.get("message", "")),
        count=int(series.get("count") or raw.get("count") or 1),
    )


async def grid(client: Client, job: TrainingJob) -> tuple[Tier, ...]:
    """The tiers that a job may use, best first. Raises ApiError, also if its profile does not exist."""
    capacity = job.spec.capacity
    if capacity.profile is None:
        return capacity.tiers
    return (await get_profile(client, capacity.profile)).spec.tiers


async def get_profile(client: Client, name: str) -> CapacityProfile:
    """One profile. Raises ApiError; SpecError if this version cannot read it."""
    return CapacityProfile.parse(await client.request("GET", f"{profiles_path()}/{name}"))


async def list_profiles(client: Client) -> list[CapacityProfile]:
    """All profiles by name. Raises ApiError; SpecError if this version cannot read one."""
    items, _ = await client.list_all(profiles_path())
    return sorted(map(CapacityProfile.parse, items), key=lambda profile: profile.metadata.name)


async def annotate_profile(client: Client, profile: CapacityProfile, key: str, value: str) -> None:
    """Set one annotation of a profile that has not changed since it was read. Raises ApiError."""
    meta = {"annotations": {key: value}, "resourceVersion": profile.metadata.resource_version}
    await client.request("PATCH", f"{profiles_path()}/{profile.metadata.name}", body={"metadata": meta})


async def annotate(client: Client, namespace: str, name: str, key: str, value: str) -> TrainingJob:
    """Set one annotation. Raises ApiError."""
    body = {"metadata": {"annotations": {key: value}}}
    return TrainingJob.parse(await client.request("PATCH", job_path(namespace, name), body=body))


async def set_suspend(client: Client, namespace: str, name: str, suspended: bool) -> TrainingJob:
    """Set spec.suspend. Raises ApiError."""
    return TrainingJob.parse(
        await client.request("PATCH", job_path(namespace, name), body={"spec": {"suspend": suspended}})
    )
