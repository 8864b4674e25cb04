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
from holdfast_cli.logs.reading import Rank, ends
from holdfast_cli.logs.sink import Sink


async def show_logs(client: Client, job: TrainingJob, choice: Choice, screen: Sink, *, follow: bool) -> ExitCode:
    """Show what is chosen. With `follow` go on until the job is over; the exit code is the job's.

    Raises CliError if the attempt that is asked for has no log, or the job is deleted; ApiError.
    """
    screen.job = job
    if choice.attempt is not None:
        chosen.refuse_attempt(job, choice.attempt, to_come=follow)
    if not follow:
        pods = (await members.read_pods(client, job)).views
        if not await _show([Rank(client, one, choice, screen) for one in choice.ranks], job, pods, choice, screen):
            screen.say(waiting_words(job))
        return ExitCode.OK
    view = LiveJob(client, job)
    async with view.running():
        screen.job = view.job
        opened = [Rank(client, one, choice, screen) for one in choice.ranks]
        await _show(opened, view.job, list(view.pods), choice, screen)
        return await Follower(view, opened, choice, screen).run()


async def _show(ranks: Sequence[Rank], job: TrainingJob, pods: Sequence[PodView], choice: Choice, screen: Sink) -> bool:
    """Show what is there. False if no pod has a log yet. Raises CliError if the attempt that is asked for has none."""
    gone = sorted({number for rank in ranks for number in chosen.missing_attempts(job, pods, rank.rank)})
    if choice.attempt in gone:
        raise CliError(chosen.missing_words([choice.attempt]), code=ExitCode.NOT_FOUND)
    if gone and choice.attempt is None:
        screen.say(chosen.missing_words(gone))
    streams = [rank.there(pods, job) for rank in ranks]
    if choice.tail is not None:
        streams = [ends(stream, choice.tail, choice) for stream in streams]
    async for entry in merged(streams):
        screen.show(entry)
    screen.flush()
    return any(rank.log for rank in ranks)
