"""`holdfast logs`."""

import asyncio
import math
from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.pods import PodView
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs import members
from holdfast_cli.jobs.live_job import LiveJob
from holdfast_cli.logs import chosen
from holdfast_cli.logs.chosen import ALL, Wanted
from holdfast_cli.logs.entries import merged
from holdfast_cli.logs.following import Follower
from holdfast_cli.logs.reading import Rank, ends
from holdfast_cli.logs.screen import Screen, waiting_words
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
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the program of a job wrote, over all attempts.

    The attempts come one after the other, the oldest first, with a heading before each. Lines of several ranks begin
    with their rank. Standard output has nothing but these lines; headings and notes are on standard error. Of a line
    that a program rewrites, such as a progress bar, the last state is shown.

    With --follow the exit code is 0 if the job is completed, and 1 if it failed.

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
            wanted = Wanted(chosen.ranks_of(found, rank), number, seconds, tail, grep.encode())
            screen = Screen(wanted.ranks, timestamps=timestamps, grep=wanted.grep)
            screen.job = found
            if number is not None:
                chosen.refuse_attempt(found, number, to_come=follow)
            if not follow:
                pods = (await members.read_pods(client, found)).views
                if not await _show(
                    [Rank(client, one, wanted, screen) for one in wanted.ranks], found, pods, wanted, screen
                ):
                    screen.say(waiting_words(found))
                return ExitCode.OK
            view = LiveJob(client, found)
            async with view.running():
                screen.job = view.job
                opened = [Rank(client, one, wanted, screen) for one in wanted.ranks]
                await _show(opened, view.job, list(view.pods), wanted, screen)
                return await Follower(view, opened, wanted, screen).run()

    with interruptible():
        code = asyncio.run(run())
    if code is not ExitCode.OK:
        raise typer.Exit(code)


async def _show(
    ranks: Sequence[Rank], job: TrainingJob, pods: Sequence[PodView], wanted: Wanted, screen: Screen
) -> bool:
    """Show what is there. False if no pod has a log yet. Raises CliError if the attempt that is asked for has none."""
    gone = sorted({number for rank in ranks for number in chosen.missing_attempts(job, pods, rank.rank)})
    if wanted.attempt in gone:
        raise CliError(chosen.missing_words([wanted.attempt]), code=ExitCode.NOT_FOUND)
    if gone and wanted.attempt is None:
        screen.say(chosen.missing_words(gone))
    streams = [rank.there(pods, job) for rank in ranks]
    if wanted.tail is not None:
        streams = [ends(stream, wanted.tail, wanted) for stream in streams]
    async for entry in merged(streams):
        screen.show(entry)
    screen.flush()
    return any(rank.log for rank in ranks)


def _number(attempt: str) -> int | None:
    if attempt == ALL:
        return None
    if not attempt.isdecimal() or not int(attempt):
        raise typer.BadParameter("give the number of an attempt, from 1, or all", param_hint="--attempt")
    return int(attempt)
