"""`holdfast checkpoint` and `holdfast move`: send a request, wait, and print the outcome."""

import asyncio
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.console import Console

from holdfast_cli.cluster import completion, job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace, NoWait, Timeout
from holdfast_cli.errors import CliError
from holdfast_cli.jobs.asked import Asked, ask_checkpoint, ask_move
from holdfast_cli.terminal.console import console

LOOK_EVERY = 0.5  # seconds


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
            await report(await ask_checkpoint(client, where, job), None if no_wait else timeout, console())

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
            await report(await ask_move(client, where, job, tier, node), None if no_wait else timeout, console())

    asyncio.run(run())


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
