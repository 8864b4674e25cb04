"""Read everything about a training that a page shows. What cannot be read becomes a note, and the rest is shown."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, TypeVar

from holdfast.api.errors import SpecError
from holdfast.api.objects import TrainingJob
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.checkpoints import list_command
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.pages.attempts import is_readable
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.storage.address import PATIENCE, Found, Where, explain, opened, storage_of
from holdfast_cli.why.reading import all_nodes, all_pods, profile_of
from holdfast_cli.why.reasons import Reasons, find_reasons
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.pod import evidence as stored
from holdfast_train.series.history import read_history
from holdfast_train.storage.base import Storage

MOST_ROWS: Final = 100_000  # of one history
MOST_HANGS: Final = 5  # attempts of which the evidence is shown

T = TypeVar("T")


def gather(where: Where) -> JobInputs:
    """Everything about the job, or about the storage, at a place on the command line.

    CliError if there is no such job, or nothing of a training at an address.
    """
    if not where.is_address:
        found, place = asyncio.run(_of_job(where))
        return found if place is None else read_place(found, place)
    with opened(where) as (place, storage):
        if not _has_training(storage):
            raise CliError(
                f"there is nothing of a training below {place.uri}: no log, no history, no evidence",
                code=ExitCode.NOT_FOUND,
                hint="no attempt has started yet, or the prefix is wrong",
            )
        return read_storage(JobInputs(None, datetime.now(UTC), place=place.uri), storage)


async def _of_job(where: Where) -> tuple[JobInputs, Found | None]:
    """What the cluster says, and the storage; None if that cannot be reached."""
    target = Target(where.kubeconfig, where.namespace)
    async with connect(target) as client:
        namespace = target.resolved_namespace()
        try:
            job = await job_api.get_job(client, namespace, where.place)
        except ApiError as error:
            if not error.not_found or "not find the requested resource" in error.message:
                raise
            raise CliError(
                f"there is no job {where.place} in namespace {namespace}",
                code=ExitCode.NOT_FOUND,
                hint="if it was deleted, give the address of its storage: holdfast report s3://bucket/prefix",
            ) from error
        inputs = await read_cluster(client, job)
        try:
            return inputs, await storage_of(client, job, where)
        except CliError as error:
            hint = f" ({error.hint})" if error.hint else ""
            return _noted(inputs, f"the storage was not read: {error}{hint}"), None


async def read_cluster(client: Client, job: TrainingJob) -> JobInputs:
    """The job with its events and reasons, as far as this user may read them."""
    now = datetime.now(UTC)
    events, reasons, notes = None, None, []
    try:
        events = await job_api.job_events(client, job)
    except ApiError as error:
        notes.append(f"the events were not read: {error.message}")
    try:
        reasons = await _reasons(client, job, now)
    except (ApiError, SpecError) as error:
        notes.append(f"the reasons of the job are not known, because its profile was not read: {error}")
    return JobInputs(job, now, events, reasons=reasons, notes=notes)


async def _reasons(client: Client, job: TrainingJob, now: datetime) -> Reasons:
    profile, nodes = await profile_of(client, job), await all_nodes(client)
    return find_reasons(job, profile, nodes, now, await all_pods(client))


def read_place(inputs: JobInputs, place: Found, *, most_rows: int = MOST_ROWS, at_most: float = inf) -> JobInputs:
    """With what is in the storage of the job; a note if the storage does not answer, or refuses.

    The retries end `at_most` seconds from now.
    """
    known = _noted(replace(inputs, place=place.uri), *place.notes)
    try:
        storage = place.open()
        with storage.within(PATIENCE, at_most=at_most):
            if not _has_training(storage):
                return _noted(known, f"there is nothing below {place.uri} yet: no log, no history")
            return read_storage(known, storage, most_rows)
    except HoldfastTrainError as error:
        told = explain(error)
        return _noted(known, f"the storage was not read: {told}{f' ({told.hint})' if told.hint else ''}")


def _has_training(storage: Storage) -> bool:
    """True if something below the prefix is of a training. StorageError if the storage cannot be read at all."""
    return any(storage.keys(folder) for folder in ("log/", "series/", "evidence/"))


def read_storage(inputs: JobInputs, storage: Storage, most_rows: int = MOST_ROWS) -> JobInputs:
    """With the history, the checkpoints and the evidence in the storage; a note for each that cannot be read."""
    notes: list[str] = []

    def tried(what: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (HoldfastTrainError, CliError) as error:
            notes.append(f"the {what} cannot be read: {error}")
            return None

    uid = inputs.job.metadata.uid if inputs.job else None
    history = tried("history", lambda: read_history(storage, most_rows=most_rows, job_uid=uid))
    checkpoints = tried("list of checkpoints", lambda: list_command.look(storage))
    hangs = tried("evidence of hangs", lambda: _evidence(storage, notes))
    known = replace(inputs, history=history, checkpoints=checkpoints, evidence=hangs)
    return _noted(known, *notes)


def _evidence(storage: Storage, notes: list[str]) -> Sequence[dict[str, Any]]:
    """Of the attempts that hung last. A document that has another form is left out, with a note."""
    found: list[dict[str, Any]] = []
    for attempt in stored.attempts(storage)[-MOST_HANGS:]:
        try:
            documents = stored.read(storage, attempt)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            notes.append(f"the evidence of attempt {attempt} is damaged: {error}")
            continue
        readable = [one for one in documents if is_readable(one)]
        if readable and not is_readable(*readable):  # each alone could be shown, and all together cannot
            readable = []
        if len(readable) < len(documents):
            notes.append(f"some evidence of attempt {attempt} has a form that this version cannot show")
        found += readable
    return found


def _noted(inputs: JobInputs, *notes: str) -> JobInputs:
    return replace(inputs, notes=[*inputs.notes, *notes])
