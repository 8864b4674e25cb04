"""Show the logs of a job on a screen, or give them to a program: those that are there, and those to come."""

from collections.abc import Sequence

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs import members
from holdfast_cli.jobs.live_job import LiveJob
from holdfast_cli.logs import chosen
from holdfast_cli.logs.chosen import Wanted
from holdfast_cli.logs.entries import merged
from holdfast_cli.logs.following import Follower
from holdfast_cli.logs.reading import Rank, ends
from holdfast_cli.logs.sink import Sink, waiting_words


async def show_logs(client: Client, job: TrainingJob, wanted: Wanted, screen: Sink, *, follow: bool) -> ExitCode:
    """Show what is wanted. With `follow` go on until the job is over; the exit code is the job's.

    Raises CliError if the attempt that is asked for has no log, or the job is deleted; ApiError.
    """
    screen.job = job
    if wanted.attempt is not None:
        chosen.refuse_attempt(job, wanted.attempt, to_come=follow)
    if not follow:
        pods = (await members.read_pods(client, job)).views
        if not await _show([Rank(client, one, wanted, screen) for one in wanted.ranks], job, pods, wanted, screen):
            screen.say(waiting_words(job))
        return ExitCode.OK
    view = LiveJob(client, job)
    async with view.running():
        screen.job = view.job
        opened = [Rank(client, one, wanted, screen) for one in wanted.ranks]
        await _show(opened, view.job, list(view.pods), wanted, screen)
        return await Follower(view, opened, wanted, screen).run()


async def _show(ranks: Sequence[Rank], job: TrainingJob, pods: Sequence[PodView], wanted: Wanted, screen: Sink) -> bool:
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
