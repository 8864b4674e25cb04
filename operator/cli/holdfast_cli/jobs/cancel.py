"""`holdfast cancel`: delete a job, and say what goes and what stays."""

import asyncio
import sys
from typing import Annotated

import typer

from holdfast.api.objects import TrainingJob
from holdfast.api.storage import Storage
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace, Timeout
from holdfast_cli.errors import CliError
from holdfast_cli.jobs import members, view
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.console import console

LOOK_EVERY = 0.5  # seconds
_GONE = 404
_NOT_ALLOWED = 403
_ANOTHER = 409


def cancel(
    job: Job,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    namespace: Namespace = None,
    timeout: Timeout = 600,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until the job and its pods are gone.")
    ] = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """End a job and delete it; its checkpoints stay.

    A program that trains is told to save and leave, as for a move. The TrainingJob, its pods and their logs are
    deleted. The checkpoints are not: if a job is created again under this name with checkpoint.resume: Auto, it
    continues from them. holdfast suspend keeps the job too.

    \b
    Examples:
      holdfast cancel vit-faces -n vision
      holdfast cancel vit-faces --yes --no-wait
    """
    target, out = Target(kubeconfig, namespace), console()

    async def run() -> None:
        async with connect(target) as client:
            found = await job_api.get_job(client, target.resolved_namespace(), job)
            out.print(what_goes(found), markup=False, soft_wrap=True)
            out.print(what_stays(found), markup=False, soft_wrap=True)
            _ask(found.metadata.name, yes=yes)
            await delete(client, found)
            if no_wait:
                out.print(f"{job} is being deleted", markup=False)
                return
            await wait_gone(client, found, timeout)
            out.print(f"{job} and its pods are gone", markup=False)

    asyncio.run(run())


def what_goes(job: TrainingJob) -> str:
    """One sentence about what is deleted."""
    status, name = job.status, job.metadata.name
    if status.is_over:
        return f"{name} is over ({status.phase}): the TrainingJob, its pods and their logs go."
    if status.current is None or status.current.started_at is None:
        return f"{name} does not train now ({status.phase or 'new'}): the TrainingJob and its pods go."
    step = formats.count(status.progress.step)
    return f"{name} trains at step {step}: its program saves and ends; the TrainingJob, its pods and their logs go."


def what_stays(job: TrainingJob) -> str:
    """One sentence about the checkpoints."""
    place, saved = storage_words(job.spec.checkpoint.storage), job.status.checkpoint
    newest = f", the newest is {view.checkpoint_words(saved)}" if saved else ""
    return f"Its checkpoints stay in {place}{newest}."


def storage_words(storage: Storage) -> str:
    """The address of the storage, or its claim and folder."""
    claim = storage.volume_claim
    if claim is None:
        return storage.uri
    return f"the PersistentVolumeClaim {claim.name}, folder {claim.path}"


def _ask(name: str, *, yes: bool) -> None:
    """Ask the user. Raises CliError if there is no terminal; ends the command on no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError(f"{name} was not deleted: there is no terminal to ask on", hint="give --yes")
    typer.confirm(f"Delete {name}?", abort=True)


async def delete(client: Client, job: TrainingJob) -> None:
    """Delete this very job: another one of the same name stays. No-op if it is gone."""
    path = job_api.job_path(job.metadata.namespace, job.metadata.name)
    options = {"preconditions": {"uid": job.metadata.uid}, "propagationPolicy": "Background"}
    try:
        await client.request("DELETE", path, body=options)
    except ApiError as error:
        if error.status == _ANOTHER:
            raise CliError(f"{job.metadata.name} was deleted, and created again, meanwhile: this one stays") from error
        if error.status != _GONE:
            raise


async def wait_gone(client: Client, job: TrainingJob, seconds: float) -> None:
    """Wait until neither the job nor a pod of it exists. Raises CliError if that takes more than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if not (await _is_there(client, job) or await _has_pods(client, job)):
                    return
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError as error:
        text = f"{job.metadata.name} is not gone after {seconds:g} s; the deletion goes on"
        selector = f"-l holdfast.dev/job-uid={job.metadata.uid}"
        raise CliError(text, hint=f"kubectl get pods -n {job.metadata.namespace} {selector}") from error


async def _is_there(client: Client, job: TrainingJob) -> bool:
    try:
        found = await job_api.get_job(client, job.metadata.namespace, job.metadata.name)
    except ApiError as error:
        if error.status == _GONE:
            return False
        raise
    return found.metadata.uid == job.metadata.uid


async def _has_pods(client: Client, job: TrainingJob) -> bool:
    """True if there is a pod of the job that the user may see."""
    try:
        return bool((await members.read_pods(client, job)).views)
    except ApiError as error:
        if error.status == _NOT_ALLOWED:
            return False
        raise
