"""`holdfast checkpoint`, `move`, `suspend` and `resume`: send a request, wait, and print the outcome."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from holdfast.runtime.apiserver.client import Client
from holdfast_cli.cluster import completion
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace, NoWait, Timeout
from holdfast_cli.jobs.asked import Asked, ask_checkpoint, ask_move, outcome_within, set_suspended
from holdfast_cli.terminal.console import console


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
    _request(ask_checkpoint, job, Target(kubeconfig, namespace), None if no_wait else timeout)


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
    ask = partial(ask_move, tier=tier, node=node)
    _request(ask, job, Target(kubeconfig, namespace), None if no_wait else timeout)


def suspend(
    job: Job,
    *,
    namespace: Namespace = None,
    timeout: Timeout = 600,
    no_wait: NoWait = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Make a job save and give its nodes back, until it is resumed.

    While a job is suspended, its program, image and storage may be changed.

    \b
    Examples:
      holdfast suspend vit-faces -n vision
    """
    ask = partial(set_suspended, suspended=True)
    _request(ask, job, Target(kubeconfig, namespace), None if no_wait else timeout)


def resume(
    job: Job,
    *,
    namespace: Namespace = None,
    timeout: Timeout = 600,
    no_wait: NoWait = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Make a suspended job continue from its newest checkpoint.

    \b
    Examples:
      holdfast resume vit-faces -n vision
      holdfast resume vit-faces --no-wait   do not wait until it has a node and trains
    """
    ask = partial(set_suspended, suspended=False)
    _request(ask, job, Target(kubeconfig, namespace), None if no_wait else timeout)


def _request(
    ask: Callable[[Client, str, str], Awaitable[Asked]], job: str, target: Target, seconds: float | None
) -> None:
    """Ask the job, wait `seconds` for the outcome, and print it; None does not wait."""

    async def run() -> None:
        async with connect(target) as client:
            await report(await ask(client, target.resolved_namespace(), job), seconds, console())

    asyncio.run(run())


async def report(asked: Asked, seconds: float | None, out: Console) -> None:
    """Wait `seconds` for the outcome and print it; None does not wait. Raises CliError, ApiError."""
    name = f"{asked.name} -n {asked.namespace}"
    if seconds is None:
        out.print(f"requested; holdfast watch {name} shows the outcome", markup=False)
        return
    spinner = out.status("requested; waiting for the job ...") if out.is_terminal else nullcontext()
    with spinner:
        said = await outcome_within(asked, seconds)
    out.print(said, markup=False, soft_wrap=True)
