"""Wait for a job that makes a package: what it does now, what it has lost, and how it ended."""

import asyncio
from contextlib import nullcontext
from typing import Final

from rich.console import Console
from rich.markup import escape

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.cluster import job_api
from holdfast_cli.errors import CliError

LOOK_EVERY: Final = 0.5  # seconds


async def wait(client: Client, namespace: str, name: str, seconds: float | None, out: Console) -> TrainingJob:
    """The job when it is over. CliError after `seconds`; ApiError, also if somebody deletes it."""
    try:
        async with asyncio.timeout(seconds):
            return await _follow(client, namespace, name, out)
    except TimeoutError as error:
        raise CliError(
            f"{name} is not over within {seconds:g} s; it goes on", hint=f"holdfast watch {name} -n {namespace}"
        ) from error


async def _follow(client: Client, namespace: str, name: str, out: Console) -> TrainingJob:
    spinner = out.status(f"{name}: created") if out.is_terminal else None
    ended, said = 0, ""
    with spinner or nullcontext():
        while True:
            job = await job_api.get_job(client, namespace, name)
            for record in job.status.history:
                if record.number > ended and not job.status.is_over:
                    ended = record.number
                    out.print(f"attempt {record.number} ended: {record.reason}; another one follows", markup=False)
            if job.status.is_over:
                return job
            if (now := doing(job)) != said:
                said = now
                if spinner:
                    spinner.update(escape(now))
                else:
                    out.print(now, markup=False, soft_wrap=True)
            await asyncio.sleep(LOOK_EVERY)


def doing(job: TrainingJob) -> str:
    """What the job does now, in one line."""
    status, name = job.status, job.metadata.name
    if status.phase is None:
        return f"{name}: the operator has not seen it yet"
    where = f" on {status.tier}, node {status.node}" if status.node else ""
    if status.phase is Phase.RUNNING and status.progress.steps:
        return f"{name}: step {status.progress.step} of {status.progress.steps}{where}"
    return f"{name}: {status.phase}{where}" + (f": {status.reason}" if status.reason and not where else "")


def why_failed(job: TrainingJob) -> str:
    """Why a job that is over did not complete."""
    last = job.status.history[-1] if job.status.history else None
    return (last.message if last else "") or job.status.reason or "the reason is not known"
