"""`holdfast watch`: all jobs as a live table, or one job as a live screen."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Annotated, Self

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import completion, job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.live_list import LiveList
from holdfast_cli.cluster.operators import Operators
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs.curve import to_curve
from holdfast_cli.jobs.options import History
from holdfast_cli.jobs.view import Losses, cut
from holdfast_cli.jobs.watched import AllJobs, OneJob, Watched, is_in
from holdfast_cli.storage.history import history_of
from holdfast_cli.storage.options import Endpoint
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.output import ListFormat, ListOutput, is_for_programs, write

PATIENCE = timedelta(minutes=5)  # how long a watch goes on while the cluster does not answer

# What is said when a trouble is over: in the order of `_troubles`.
_AGAIN = ("the cluster answers again", "an operator is at work again")


Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Jobs of all namespaces.")]
Phases = Annotated[
    list[Phase] | None, typer.Option(help="Only jobs in this phase; may be repeated.", show_default=False)
]


def list_jobs(
    *,
    namespace: Namespace = None,
    all_namespaces: Everywhere = False,
    phase: Phases = None,
    output: ListOutput = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show all jobs once: phase, tier, node, step, loss, ETA and attempts. holdfast watch shows them live.

    \b
    Examples:
      holdfast list
      holdfast list -A --phase Failed
      holdfast list -o name
    """
    watch(
        namespace=namespace,
        all_namespaces=all_namespaces,
        phase=phase,
        once=True,
        output=output,
        kubeconfig=kubeconfig,
    )


def watch(
    job: Annotated[
        str | None, typer.Argument(help="Name of a TrainingJob. Default: all jobs.", autocompletion=completion.jobs)
    ] = None,
    *,
    namespace: Namespace = None,
    all_namespaces: Everywhere = False,
    phase: Phases = None,
    once: Annotated[bool, typer.Option("--once", help="Show the state once and exit.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two updates.")] = 1.0,
    history: History = False,
    endpoint: Endpoint = None,
    output: ListOutput = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show jobs live: phase, tier, node, step, loss, ETA, attempts and events.

    With a job it ends when the job is over (exit code 1 if the job failed). Without a terminal it prints a line when
    something changes. If not all jobs fit on the screen, it counts the others; --once shows all of them. The formats
    json, yaml and name show the state once too.

    \b
    Examples:
      holdfast watch                      all jobs of the namespace
      holdfast watch vit-faces -n vision  one job
      holdfast watch vit-faces --history  with the loss over all attempts
      holdfast watch -A --once            a table of all jobs of the cluster
      holdfast watch --once --phase Failed
      holdfast watch -A -o json           the same for programs, as kubectl prints it
    """
    if job and all_namespaces:
        raise typer.BadParameter("give a job or --all-namespaces, not both")
    if history and not job:
        raise typer.BadParameter("--history needs a job: holdfast watch JOB --history")
    if phase and job:
        raise typer.BadParameter("give a job or --phase, not both")
    target, out, phases = Target(kubeconfig, namespace), console(wide=output == "wide"), tuple(phase or ())

    async def run() -> Phase | None:
        async with connect(target) as client:
            where = None if all_namespaces else target.resolved_namespace()
            if is_for_programs(output):
                await _answer(client, where, job, phases, output)
                return None
            operators = Operators(client)
            if job is None or where is None:
                async with operators.running():
                    return await follow(AllJobs(client, where, phases), operators, out, every=every, once=once)
            found = await job_api.get_job(client, where, job)  # its errors say what to do; an empty list has none
            watched, reading = OneJob(client, where, job), None
            if history:
                reading = asyncio.create_task(_read_past(client, found, endpoint, watched.losses))
                if once:
                    await reading
            try:
                async with operators.running():
                    return await follow(watched, operators, out, every=every, once=once)
            finally:
                if reading:
                    reading.cancel()

    try:
        end = asyncio.run(run())
    except KeyboardInterrupt:
        end = None
    if end is Phase.FAILED:
        raise typer.Exit(ExitCode.FAILED)


async def follow(watched: Watched, operators: Operators, out: Console, *, every: float, once: bool) -> Phase | None:
    """Show what is watched until the one watched job is over, and return its final phase; without a job never end.

    The lists are read once and then watched. The first read must succeed. After it, PATIENCE is how long the cluster
    may fail to answer. The picture is drawn again `every` so many seconds, which costs no request.
    """
    async with AsyncExitStack() as stack:
        for one in watched.lists:
            await stack.enter_async_context(one.running())
        if once:
            out.print(_picture(watched, _troubles(watched.lists, operators), None))
            return final_phase(watched.job)
        show = stack.enter_context(Pictures(out)) if out.is_terminal else Lines(out)
        while True:
            show.update(watched, _troubles(watched.lists, operators))
            if end := final_phase(watched.job):
                return end
            await asyncio.sleep(every)


async def _answer(
    client: Client, namespace: str | None, job: str | None, phases: Collection[str], output: ListFormat | None
) -> None:
    """Print the jobs for programs, as `kubectl get` does."""
    if job and namespace:
        raw = await job_api.get_raw(client, namespace, job)
        write(output, raw, [job_api.full_name(raw)])
        return
    items = [raw for raw in await job_api.list_raw(client, namespace) if is_in(raw, phases)]
    write(output, {"apiVersion": "v1", "kind": "List", "items": items}, [job_api.full_name(raw) for raw in items])


async def _read_past(client: Client, job: TrainingJob, endpoint: str | None, losses: Losses) -> None:
    """Read the losses of earlier attempts while the job is watched; a storage that cannot be read is said."""
    try:
        losses.past = to_curve(await history_of(client, job, endpoint))
    except (CliError, ApiError) as error:
        losses.note = f"the history cannot be shown: {error}"


class Pictures:
    """A live picture on a terminal. While the cluster does not answer, the last picture stays, and a line says so."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._live = Live(console=out, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, watched: Watched, troubles: Sequence[str]) -> None:
        """Draw it again."""
        room = self._out.size.height - 1  # the cursor is below
        self._live.update(_picture(watched, troubles, room), refresh=True)


class Lines:
    """Plain lines about what is new."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._told = [False] * len(_AGAIN)

    def update(self, watched: Watched, troubles: Sequence[str]) -> None:
        """Print what is new."""
        lines = watched.news()
        for place, trouble in enumerate(troubles):
            if bool(trouble) != self._told[place]:
                self._told[place] = bool(trouble)
                lines.append(f"{formats.clock(datetime.now(UTC))} {trouble or _AGAIN[place]}")
        for line in lines:
            self._out.print(line, markup=False, soft_wrap=True)


def _picture(watched: Watched, troubles: Sequence[str], room: int | None) -> RenderableType:
    """What is watched, below its troubles, in at most `room` lines; None is without a limit."""
    told = [cut(Text(trouble, style="red")) for trouble in troubles if trouble]
    return Group(*told, watched.draw(None if room is None else room - len(told)))


def _troubles(lists: Sequence[LiveList], operators: Operators) -> tuple[str, str]:
    """That the cluster does not answer, and that no operator is at work; empty if it does, and one is."""
    return _silence(lists), operators.silence(datetime.now(UTC))


def _silence(lists: Sequence[LiveList]) -> str:
    """That a list is not current, in words. Raises its trouble if that lasts too long, or does not pass."""
    now = asyncio.get_running_loop().time()
    for one in lists:
        one.check()
        if one.trouble is not None:
            if not one.trouble.transient or now - one.since > PATIENCE.total_seconds():
                raise one.trouble
            lasts = formats.span(timedelta(seconds=now - one.since))
            return f"no answer from the cluster for {lasts}: {one.trouble.message}"
    return ""


def final_phase(job: TrainingJob | None) -> Phase | None:
    """The phase of a job that is over, otherwise None."""
    return job.status.phase if job and job.status.is_over else None
