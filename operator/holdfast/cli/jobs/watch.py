"""`holdfast watch`: all jobs as a live table, or one job as a live screen."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.cli.cluster import completion, job_api
from holdfast.cli.cluster.connect import Target, connect
from holdfast.cli.cluster.options import Kubeconfig, Namespace
from holdfast.cli.errors import CliError, ExitCode
from holdfast.cli.jobs import view
from holdfast.cli.ui import formats
from holdfast.cli.ui.console import console
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError

PATIENCE = timedelta(minutes=5)  # how long a watch goes on while the cluster does not answer

Screen = Callable[[], Awaitable[tuple[RenderableType, list[str], TrainingJob | None]]]


def watch(
    job: Annotated[
        str | None, typer.Argument(help="Name of a TrainingJob. Default: all jobs.", autocompletion=completion.jobs)
    ] = None,
    *,
    namespace: Namespace = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Jobs of all namespaces.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Show the state once and exit.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two updates.")] = 1.0,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show jobs live: phase, tier, node, step, loss, ETA, attempts and events.

    With a job it ends when the job is over (exit code 1 if the job failed). Without a terminal it prints a line when
    something changes.

    \b
    Examples:
      holdfast watch                      all jobs of the namespace
      holdfast watch vit-faces -n vision  one job
      holdfast watch -A --once            a table of all jobs of the cluster
    """
    if job and all_namespaces:
        raise typer.BadParameter("give a job or --all-namespaces, not both")
    target, out = Target(kubeconfig, namespace), console()

    async def run() -> Phase | None:
        async with connect(target) as client:
            where = target.resolved_namespace()
            screen = OneJob(client, where, job).look if job else AllJobs(client, None if all_namespaces else where).look
            return await follow(screen, out, every=every, once=once)

    try:
        end = asyncio.run(run())
    except KeyboardInterrupt:
        end = None
    if end is Phase.FAILED:
        raise typer.Exit(ExitCode.FAILED)


class OneJob:
    """Reads one job repeatedly, and remembers which events it has shown."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._losses = view.Losses()
        self._shown: dict[str, int] = {}
        self._state = ""

    async def look(self) -> tuple[RenderableType, list[str], TrainingJob | None]:
        """The screen, the plain lines that are new, and the job."""
        job = await job_api.get_job(self._client, self._namespace, self._name)
        events = await job_api.job_events(self._client, job)
        self._losses.see(job.status.progress.step, job.status.progress.loss)
        now = datetime.now(UTC)
        return view.job_screen(job, events, now, self._losses), self._news(job, events, now), job

    def _news(self, job: TrainingJob, events: list[job_api.Line], now: datetime) -> list[str]:
        lines = []
        for event in events:
            if self._shown.get(event.uid) != event.count:
                self._shown[event.uid] = event.count
                lines.append(f"{formats.clock(event.at)} {event.reason}: {event.message}")
        state = view.plain_state(job)
        if state != self._state:
            self._state = state
            lines.append(f"{formats.clock(now)} {state}")
        return lines


class AllJobs:
    """Reads all jobs of a namespace or of the cluster repeatedly."""

    def __init__(self, client: Client, namespace: str | None) -> None:
        self._client, self._namespace = client, namespace
        self._shown: dict[str, str] = {}

    async def look(self) -> tuple[RenderableType, list[str], TrainingJob | None]:
        """The table and the plain lines that are new."""
        found, unreadable = await job_api.list_jobs(self._client, self._namespace)
        now = datetime.now(UTC)
        lines = []
        for job in found:
            key, state = f"{job.metadata.namespace}/{job.metadata.name}", view.plain_state(job)
            if self._shown.get(key) != state:
                self._shown[key] = state
                lines.append(f"{formats.clock(now)} {key} {state}")
        if not found and not unreadable:
            where = f"namespace {self._namespace}" if self._namespace else "any namespace"
            return Text(f"no training jobs in {where}"), lines, None
        return view.jobs_table(found, unreadable, now, namespaces=self._namespace is None), lines, None


async def follow(screen: Screen, out: Console, *, every: float, once: bool) -> Phase | None:
    """Show the screen until the one watched job is over, and return its final phase; without a job never end.

    The first read must succeed. After it, PATIENCE is how long the cluster may fail to answer.
    """
    if once:
        shown, _, job = await screen()
        out.print(shown)
        return final_phase(job)
    live = Live(console=out, auto_refresh=False) if out.is_terminal else None
    last_answer = asyncio.get_running_loop().time()
    answered = False
    with live or nullcontext():
        while True:
            try:
                shown, news, job = await screen()
                last_answer, answered = asyncio.get_running_loop().time(), True
            except ApiError as error:
                waited = asyncio.get_running_loop().time() - last_answer
                if error.not_found and answered:
                    raise CliError("the job was deleted", code=ExitCode.NOT_FOUND) from error
                if not (error.transient and answered) or waited > PATIENCE.total_seconds():
                    raise
                shown, news, job = Text(f"no answer from the cluster: {error.message}", style="red"), [], None
            if live:
                live.update(shown, refresh=True)
            else:
                for line in news:
                    out.print(line, markup=False, soft_wrap=True)
            if end := final_phase(job):
                return end
            await asyncio.sleep(every)


def final_phase(job: TrainingJob | None) -> Phase | None:
    """The phase of a job that is over, otherwise None."""
    phase = job.status.phase if job else None
    return phase if phase and phase.final else None
