"""`holdfast checkpoint` and `holdfast move`: send a request, wait, and print the outcome."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from holdfast.api.attempt import AttemptState
from holdfast.api.names import ANNOTATION_CHECKPOINT, ANNOTATION_MOVE
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.cli.cluster import completion, job_api
from holdfast.cli.cluster.connect import Target, connect
from holdfast.cli.cluster.options import Job, Kubeconfig, Namespace, NoWait, Timeout
from holdfast.cli.errors import CliError
from holdfast.cli.terminal import formats
from holdfast.cli.terminal.console import console
from holdfast.runtime.apiserver.client import Client
from holdfast_train.exchange.progress_bar import format_size

LOOK_EVERY = 0.5  # seconds

# The outcome of a request as text, None while it is open. Raises CliError if it can no longer be fulfilled.
Outcome = Callable[[TrainingJob], str | None]


def checkpoint(
    job: Job,
    *,
    namespace: Namespace = None,
    timeout: Timeout = 300,
    no_wait: NoWait = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Save a checkpoint now and print its step.

    \b
    Examples:
      holdfast checkpoint vit-faces -n vision
    """
    target = Target(kubeconfig, namespace)

    async def run() -> None:
        async with connect(target) as client:
            where = target.resolved_namespace()
            before = await job_api.get_job(client, where, job)
            refuse_final(before)
            if before.status.phase is not Phase.RUNNING:
                raise CliError(
                    f"{job} is {before.status.phase or 'new'}: only a running job can save",
                    hint=f"holdfast describe {job} says what it waits for",
                )
            request_id = new_id()
            await job_api.annotate(client, where, job, ANNOTATION_CHECKPOINT, request_id)
            outcome = checkpoint_outcome(before, request_id)
            await report(Asked(client, where, job, outcome), None if no_wait else timeout, console())

    asyncio.run(run())


def move(
    job: Job,
    *,
    tier: Annotated[
        str | None,
        typer.Option(
            help="Move to this tier. Default: try all tiers from the first, away from this node.",
            autocompletion=completion.tiers,
        ),
    ] = None,
    node: Annotated[str | None, typer.Option(help="Leave this node, one of several; the other pods stay.")] = None,
    namespace: Namespace = None,
    timeout: Timeout = 600,
    no_wait: NoWait = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Make a job save, leave its node, and continue on another one.

    \b
    Examples:
      holdfast move vit-faces                  away from its node
      holdfast move vit-faces --tier dedicated to another tier
      holdfast move llm --node n2              away from one of several nodes
    """
    target = Target(kubeconfig, namespace)

    async def run() -> None:
        async with connect(target) as client:
            where = target.resolved_namespace()
            before = await job_api.get_job(client, where, job)
            refuse_final(before)
            if before.spec.suspend:
                raise CliError(f"{job} is suspended: there is nothing to move", hint="set spec.suspend: false first")
            await check_tier(client, before, tier)
            request_id, wish = new_id(), move_argument(before, tier, node)
            await job_api.annotate(client, where, job, ANNOTATION_MOVE, f"{request_id} {wish}".rstrip())
            outcome = move_outcome(before, request_id)
            await report(Asked(client, where, job, outcome), None if no_wait else timeout, console())

    asyncio.run(run())


def move_argument(job: TrainingJob, tier: str | None, node: str | None) -> str:
    """What the request says beside its id. Raises CliError if the options do not fit the job."""
    name, nodes = job.metadata.name, job.spec.trainer.nodes
    if tier and node:
        raise CliError("--tier and --node exclude each other: a move to another tier leaves every node")
    if node and nodes == 1:
        raise CliError(f"{name} has one node", hint=f"holdfast move {name} leaves it")
    if nodes > 1 and not (tier or node):
        raise CliError(
            f"{name} has {nodes} nodes: name the one to leave with --node, or a tier with --tier",
            hint=f"holdfast describe {name} --members shows the nodes",
        )
    current = job.status.current
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
    if job.status.phase and job.status.phase.final:
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
            return f"saved step {formats.count(saved.step)}{size}: {saved.uri}"
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
            resumed = f", resumed at step {formats.count(current.resumed_step)}" if current.resumed_step else ""
            return f"attempt {current.number} runs on tier {current.tier.name}, node {status.node}{resumed}"
        refuse_final(job)
        return None

    return outcome


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was written into a job's annotations."""

    client: Client
    namespace: str
    name: str
    outcome: Outcome


async def report(asked: Asked, seconds: float | None, out: Console) -> None:
    """Wait `seconds` for the outcome and print it; None does not wait. Raises CliError, ApiError."""
    name = f"{asked.name} -n {asked.namespace}"
    if seconds is None:
        out.print(f"requested; holdfast watch {name} shows the outcome", markup=False)
        return
    spinner = out.status("requested; waiting for the job ...") if out.is_terminal else nullcontext()
    with spinner:
        try:
            async with asyncio.timeout(seconds):
                said = await _wait(asked)
        except TimeoutError as error:
            text = f"no outcome within {seconds:g} s; the request stays in place"
            raise CliError(text, hint=f"holdfast describe {name}") from error
    out.print(said, markup=False, soft_wrap=True)


async def _wait(asked: Asked) -> str:
    while True:
        if said := asked.outcome(await job_api.get_job(asked.client, asked.namespace, asked.name)):
            return said
        await asyncio.sleep(LOOK_EVERY)
