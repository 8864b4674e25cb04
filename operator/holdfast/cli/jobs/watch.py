"""`holdfast watch`: all jobs as a live table, or one job as a live screen."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Annotated, Protocol

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from holdfast.api.names import API_VERSION, JOB_KIND
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.cli.cluster import completion, job_api
from holdfast.cli.cluster.connect import Target, connect
from holdfast.cli.cluster.live_list import LiveList
from holdfast.cli.cluster.options import Kubeconfig, Namespace
from holdfast.cli.errors import CliError, ExitCode
from holdfast.cli.jobs import view
from holdfast.cli.terminal import formats
from holdfast.cli.terminal.console import console
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError

PATIENCE = timedelta(minutes=5)  # how long a watch goes on while the cluster does not answer

Look = tuple[RenderableType, list[str], TrainingJob | None]


class Screen(Protocol):
    """What `follow` shows: `look` returns the screen, the plain lines that are new, and the one watched job."""

    lists: tuple[LiveList, ...]

    def look(self) -> Look:
        """Draw what the lists hold now."""
        ...


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
            if job:
                await job_api.get_job(client, where, job)  # its errors say what to do; an empty list has none
            screen = OneJob(client, where, job) if job else AllJobs(client, None if all_namespaces else where)
            return await follow(screen, out, every=every, once=once)

    try:
        end = asyncio.run(run())
    except KeyboardInterrupt:
        end = None
    if end is Phase.FAILED:
        raise typer.Exit(ExitCode.FAILED)


class OneJob:
    """One job and its Events, and which Events were shown."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        only = {"fieldSelector": f"metadata.name={name}"}
        self._jobs = LiveList(client, job_api.jobs_path(namespace), only)
        self._events = LiveList(client, job_api.events_path(namespace), job_api.about(name))
        self.lists: tuple[LiveList, ...] = (self._jobs, self._events)
        self._name = name
        self._losses = view.Losses()
        self._shown: dict[str, int] = {}
        self._state = ""

    def look(self) -> Look:
        """The screen, the plain lines that are new, and the job. Raises CliError if the job was deleted."""
        found = next((raw for raw in self._jobs.objects if raw["metadata"]["name"] == self._name), None)
        if found is None:
            raise CliError("the job was deleted", code=ExitCode.NOT_FOUND)
        job = TrainingJob.parse({**found, "apiVersion": API_VERSION, "kind": JOB_KIND})
        events = job_api.event_lines(self._events.objects, job)
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
    """All jobs of a namespace or of the cluster."""

    def __init__(self, client: Client, namespace: str | None) -> None:
        self._jobs = LiveList(client, job_api.jobs_path(namespace))
        self.lists: tuple[LiveList, ...] = (self._jobs,)
        self._namespace = namespace
        self._shown: dict[str, str] = {}

    def look(self) -> Look:
        """The table and the plain lines that are new."""
        found, unreadable = job_api.read_jobs(self._jobs.objects)
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

    The lists are read once and then watched. The first read must succeed. After it, PATIENCE is how long the cluster
    may fail to answer. The screen is drawn again `every` so many seconds, which costs no request.
    """
    async with AsyncExitStack() as stack:
        for one in screen.lists:
            await stack.enter_async_context(one.running())
        if once:
            shown, _, job = screen.look()
            out.print(shown)
            return final_phase(job)
        live = Live(console=out, auto_refresh=False) if out.is_terminal else None
        with live or nullcontext():
            while True:
                shown, news, job = screen.look()
                if error := _trouble(screen.lists):
                    shown = Text(f"no answer from the cluster: {error.message}", style="red")
                if live:
                    live.update(shown, refresh=True)
                else:
                    for line in news:
                        out.print(line, markup=False, soft_wrap=True)
                if end := final_phase(job):
                    return end
                await asyncio.sleep(every)


def _trouble(lists: Sequence[LiveList]) -> ApiError | None:
    """The error of a list that is not current; None if all are. Raises it if it lasts too long, or does not pass."""
    now = asyncio.get_running_loop().time()
    for one in lists:
        one.check()
        if one.trouble is not None:
            if not one.trouble.transient or now - one.since > PATIENCE.total_seconds():
                raise one.trouble
            return one.trouble
    return None


def final_phase(job: TrainingJob | None) -> Phase | None:
    """The phase of a job that is over, otherwise None."""
    phase = job.status.phase if job else None
    return phase if phase and phase.final else None
