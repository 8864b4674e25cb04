"""Show the logs of a job on a screen, or give them to a program: those that are there, and those to come."""

from collections.abc import Sequence

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs import members
from holdfast_cli.jobs.live_job import LiveJob, waiting_words
from holdfast_cli.logs import chosen
from holdfast_cli.logs.chosen import Choice
from holdfast_cli.logs.entries import merged
from holdfast_cli.logs.following import Follower
from holdfast_cli.logs.kept import KeptLogs
from holdfast_cli.logs.reading import Rank, ends
from holdfast_cli.logs.sink import Sink
from holdfast_cli.storage.address import Where


async def show_logs(
    client: Client, job: TrainingJob, choice: Choice, screen: Sink, where: Where, *, follow: bool
) -> ExitCode:
    """Show what is chosen. With `follow` go on until the job is over; the exit code is the job's.

    `where` says how the storage is reached, which has logs of pods that are gone.

    The runs of the job in experiment trackers are said first.

    Raises CliError if the attempt that is asked for has no log, or the job is deleted; ApiError.
    """
    screen.job = job
    for run in job.status.tracking:
        screen.say(f"{run.tracker}: {run.url}")
    kept = KeptLogs(client, job, where, screen.say)
    ranks = [Rank(client, kept, one, choice, screen) for one in choice.ranks]
    if choice.attempt is not None:
        chosen.refuse_attempt(job, choice.attempt, to_come=follow)
    if not follow:
        pods = (await members.read_pods(client, job)).views
        if not await _show(ranks, job, await _with_gone(kept, job, pods, choice), choice, screen, follow=False):
            screen.say(waiting_words(job))
        return ExitCode.OK
    view = LiveJob(client, job)
    async with view.running():
        screen.job = view.job
        pods = await _with_gone(kept, view.job, list(view.pods), choice)
        await _show(ranks, view.job, pods, choice, screen, follow=True)
        return await Follower(view, ranks, choice, screen).run()


async def _with_gone(kept: KeptLogs, job: TrainingJob, pods: list[PodView], choice: Choice) -> list[PodView]:
    """The pods, and those that are gone whose logs are kept, if logs that are asked for are not in the cluster."""
    gone = _missing(job, pods, choice)
    asked = gone if choice.attempt is None else {choice.attempt} & gone
    return [*pods, *await kept.gone(pods)] if asked else pods


def _missing(job: TrainingJob, pods: Sequence[PodView], choice: Choice) -> set[int]:
    """The attempts that ran, and of which no log of a chosen rank is there."""
    return {number for rank in choice.ranks for number in chosen.missing_attempts(job, pods, rank)}


async def _show(
    ranks: Sequence[Rank], job: TrainingJob, pods: Sequence[PodView], choice: Choice, screen: Sink, *, follow: bool
) -> bool:
    """Show what is there. False if no pod has a log yet. Raises CliError if the attempt that is asked for has none."""
    gone = sorted(_missing(job, pods, choice))
    if choice.attempt in gone:
        raise CliError(chosen.missing_words([choice.attempt]), code=ExitCode.NOT_FOUND)
    if gone and choice.attempt is None:
        screen.say(chosen.missing_words(gone))
    streams = [rank.there(pods, job, follow=follow) for rank in ranks]
    if choice.tail is not None:
        streams = [ends(stream, choice.tail, choice) for stream in streams]
    async for entry in merged(streams):
        screen.show(entry)
    screen.flush()
    return any(rank.log for rank in ranks)
