"""Requests to a job as annotations and changes of its spec: what is refused at once, and what comes of them.

The commands, the pages of `holdfast ui` and the Python client use it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.names import ANNOTATION_CHECKPOINT, ANNOTATION_MOVE
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.cluster import job_api
from holdfast_cli.errors import CliError
from holdfast_cli.jobs import view
from holdfast_cli.terminal import formats
from holdfast_train.exchange.progress_bar import format_size

LOOK_EVERY = 0.5  # seconds

# The outcome of a request as text, None while it is open. Raises CliError if it can no longer be fulfilled.
Outcome = Callable[[TrainingJob], str | None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was written into a job's annotations."""

    client: Client
    namespace: str
    name: str
    outcome: Outcome


async def outcome_within(asked: Asked, seconds: float) -> str:
    """Wait for the outcome of a request. Raises CliError if it can no longer be fulfilled, or time is up; ApiError."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if said := asked.outcome(await job_api.get_job(asked.client, asked.namespace, asked.name)):
                    return said
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError as error:
        raise CliError(
            f"no outcome within {seconds:g} s; the request stays in place",
            hint=f"holdfast describe {asked.name} -n {asked.namespace}",
        ) from error


async def ask_checkpoint(client: Client, namespace: str, name: str) -> Asked:
    """Ask a job to save now. Raises CliError if it cannot, ApiError."""
    before = await job_api.get_job(client, namespace, name)
    refuse_final(before)
    if before.status.phase is not Phase.RUNNING:
        raise CliError(
            f"{name} is {before.status.phase or 'new'}: only a running job can save",
            hint=f"holdfast describe {name} says what it waits for",
        )
    request_id = new_id()
    await job_api.annotate(client, namespace, name, ANNOTATION_CHECKPOINT, request_id)
    return Asked(client, namespace, name, checkpoint_outcome(before, request_id))


async def ask_move(client: Client, namespace: str, name: str, tier: str | None, node: str | None) -> Asked:
    """Ask a job to leave its node, or one of several. Raises CliError if it cannot, ApiError."""
    before = await job_api.get_job(client, namespace, name)
    refuse_final(before)
    if before.spec.suspend:
        raise CliError(f"{name} is suspended: there is nothing to move", hint=f"holdfast resume {name} first")
    await check_tier(client, before, tier)
    request_id, wish = new_id(), move_argument(before, tier, node)
    await job_api.annotate(client, namespace, name, ANNOTATION_MOVE, f"{request_id} {wish}".rstrip())
    return Asked(client, namespace, name, move_outcome(before, request_id))


async def set_suspended(client: Client, namespace: str, name: str, *, suspended: bool) -> Asked:
    """Suspend a job, or let it go on. Raises CliError if it is over or is so already, ApiError."""
    before = await job_api.get_job(client, namespace, name)
    refuse_final(before)
    if before.spec.suspend == suspended:
        wrong = before.status.misconfigured if not suspended else None
        hint = "to try it again without an edit, suspend it first, then resume it" if wrong else ""
        raise CliError(f"{name} is suspended already" if suspended else f"{name} is not suspended", hint=hint)
    after = await job_api.set_suspend(client, namespace, name, suspended)
    generation = after.metadata.generation
    return Asked(client, namespace, name, suspend_outcome(generation) if suspended else resume_outcome(generation))


def move_argument(job: TrainingJob, tier: str | None, node: str | None) -> str:
    """What the request says beside its id. Raises CliError if the options do not fit the job."""
    name, current, nodes = job.metadata.name, job.status.current, job.most_nodes
    if tier and node:
        raise CliError("--tier and --node exclude each other: a move to another tier leaves every node")
    if node and nodes == 1:
        raise CliError(f"{name} has one node", hint=f"holdfast move {name} leaves it")
    if nodes > 1 and not (tier or node):
        raise CliError(
            f"{name} has {nodes} nodes: name the one to leave with --node, or a tier with --tier",
            hint=f"holdfast describe {name} --members shows the nodes",
        )
    if node and (current is None or current.state is not AttemptState.RUNNING):
        now = f"its attempt {current.number} is {current.state}" if current else "it has no attempt"
        raise CliError(
            f"{name} does not train now ({now}): it can leave node {node} only while it trains",
            hint=f"holdfast watch {name} shows when it trains",
        )
    return f"node={node}" if node else tier or ""


def new_id() -> str:
    """A new request id: the time in microseconds."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def refuse_final(job: TrainingJob) -> None:
    """Raises CliError if the job is over."""
    if job.status.is_over:
        raise CliError(f"{job.metadata.name} is over ({job.status.phase}): it takes no more requests")


async def check_tier(client: Client, job: TrainingJob, tier: str | None) -> None:
    """Raises CliError if the job may not use the tier."""
    if tier is None:
        return
    known = [one.name for one in await job_api.grid(client, job)]
    if tier not in known:
        raise CliError(f"{job.metadata.name} has no tier {tier!r}: it has {', '.join(known)}")


def checkpoint_outcome(before: TrainingJob, request_id: str) -> Outcome:
    """The outcome is known when a newer checkpoint exists."""
    old = before.status.checkpoint.committed_at if before.status.checkpoint else None

    def outcome(job: TrainingJob) -> str | None:
        saved, requests = job.status.checkpoint, job.status.requests
        if requests.checkpoint != request_id:
            refuse_final(job)
            return None
        if saved and (old is None or saved.committed_at > old):
            size = f" ({format_size(saved.bytes)})" if saved.bytes else ""
            return f"saved {view.checkpoint_words(saved)}{size}: {saved.uri}"
        refuse_final(job)
        if job.status.attempt != before.status.attempt:
            raise CliError(
                f"attempt {before.status.attempt} ended before it saved",
                hint=f"holdfast describe {job.metadata.name} says why",
            )
        return None

    return outcome


def move_outcome(before: TrainingJob, request_id: str) -> Outcome:
    """The outcome is known when a later attempt trains."""
    number = before.status.current.number if before.status.current else before.status.attempt

    def outcome(job: TrainingJob) -> str | None:
        status, current = job.status, job.status.current
        if status.requests.move != request_id:
            refuse_final(job)
            return None
        if current and current.number > number and current.state is AttemptState.RUNNING:
            return _running_words(current, status.node)
        refuse_final(job)
        return None

    return outcome


def suspend_outcome(generation: int) -> Outcome:
    """The outcome is known when the job has no attempt any more. `generation`: of the job that was told to suspend."""

    def outcome(job: TrainingJob) -> str | None:
        refuse_final(job)
        if not job.spec.suspend:
            raise CliError(f"{job.metadata.name} was resumed again before it was suspended")
        status, name = job.status, job.metadata.name
        if status.observed_generation < generation or status.phase is not Phase.SUSPENDED:
            return None
        saved = status.checkpoint
        kept = f"; its newest checkpoint is {view.checkpoint_words(saved)}" if saved else "; it has no checkpoint"
        return f"{name} is suspended{kept}. It goes on with: holdfast resume {name} -n {job.metadata.namespace}"

    return outcome


def resume_outcome(generation: int) -> Outcome:
    """The outcome is known when an attempt trains. `generation`: of the job that was told to go on."""

    def outcome(job: TrainingJob) -> str | None:
        status, current = job.status, job.status.current
        refuse_final(job)
        if job.spec.suspend:
            raise CliError(f"{job.metadata.name} was suspended again before it trained")
        if status.observed_generation < generation or current is None or current.state is not AttemptState.RUNNING:
            return None
        return _running_words(current, status.node)

    return outcome


def _running_words(attempt: Attempt, node: str | None) -> str:
    resumed = f", resumed at step {formats.count(attempt.resumed_step)}" if attempt.resumed_step else ""
    return f"attempt {attempt.number} runs on tier {attempt.tier.name}, node {node}{resumed}"
