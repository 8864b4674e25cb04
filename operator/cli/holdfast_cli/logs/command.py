"""`holdfast logs`."""

import asyncio
import math
from typing import Annotated

import typer

from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace
from holdfast_cli.errors import ExitCode
from holdfast_cli.logs import chosen
from holdfast_cli.logs.chosen import ALL, Choice
from holdfast_cli.logs.screen import Screen
from holdfast_cli.logs.showing import show_logs
from holdfast_cli.storage.address import Where
from holdfast_cli.storage.options import Endpoint
from holdfast_cli.terminal.interruptible import interruptible
from holdfast_cli.terminal.parsing import duration


def logs(
    job: Job,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, over moves too, until the job ends.")] = False,
    rank: Annotated[str, typer.Option(help="Ranks of nodes, such as 0 or 0-3,8, or all.")] = "0",
    attempt: Annotated[str, typer.Option(help="The number of an attempt, or all.")] = ALL,
    since: Annotated[
        str | None, typer.Option(help="Only lines of the last so much time, such as 10m.", show_default=False)
    ] = None,
    tail: Annotated[
        int | None, typer.Option(min=0, help="Only the last so many lines of each rank.", show_default=False)
    ] = None,
    grep: Annotated[str, typer.Option(help="Only lines that have this text.", show_default=False)] = "",
    timestamps: Annotated[bool, typer.Option("--timestamps", help="When each line was written, in UTC.")] = False,
    endpoint: Endpoint = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the program of a job wrote, over all attempts.

    The attempts come one after the other, the oldest first, with a heading before each. Lines of several ranks begin
    with their rank. Standard output has nothing but these lines; headings and notes are on standard error. Of a line
    that a program rewrites, such as a progress bar, the last state is shown. Logs of pods that are gone come from the
    storage of the job.

    With --follow the exit code is 0 if the job is completed, and 1 if it failed. On a terminal the state of the job
    stands below the lines.

    \b
    Examples:
      holdfast logs vit-faces -n vision
      holdfast logs vit-faces -f --tail 20
      holdfast logs llm --rank all --grep loss --since 10m
      holdfast logs vit-faces --attempt 2 > attempt-2.txt
    """
    target = Target(kubeconfig, namespace)
    seconds = None if since is None else max(1, math.ceil(duration("--since", since).total_seconds()))
    number = _number(attempt)

    async def run() -> ExitCode:
        async with connect(target) as client:
            found = await job_api.get_job(client, target.resolved_namespace(), job)
            choice = Choice(chosen.ranks_of(found, rank), number, seconds, tail, grep.encode())
            with Screen(choice.ranks, timestamps=timestamps, grep=choice.grep, follow=follow) as screen:
                where = Where(job, found.metadata.namespace, endpoint=endpoint)
                return await show_logs(client, found, choice, screen, where, follow=follow)

    with interruptible():
        code = asyncio.run(run())
    if code is not ExitCode.OK:
        raise typer.Exit(code)


def _number(attempt: str) -> int | None:
    if attempt == ALL:
        return None
    if not attempt.isdecimal() or not int(attempt):
        raise typer.BadParameter("give the number of an attempt, from 1, or all", param_hint="--attempt")
    return int(attempt)
