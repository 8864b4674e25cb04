"""`holdfast describe`: everything about one job on one page."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import format_time
from holdfast.core.books.history import has_unsettled_interruption, open_gap
from holdfast.core.books.ledger import counts_steps
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.operators import read_silence
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace
from holdfast_cli.errors import CliError
from holdfast_cli.jobs import costs, feed, view
from holdfast_cli.jobs.curve import Curve, Sparkline, sentences, to_curve
from holdfast_cli.jobs.members import Pods, read_pods, table, to_objects
from holdfast_cli.jobs.options import History
from holdfast_cli.jobs.put_back import put_back_words
from holdfast_cli.jobs.state_line import interruptions
from holdfast_cli.jobs.timeline import timeline
from holdfast_cli.storage.history import history_of
from holdfast_cli.storage.options import Endpoint
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.output import Output, write

Members = Annotated[bool, typer.Option("--members", help="Show the pod of every rank, of a job with several nodes.")]


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of a job. `pods` and `curve` are None if they were not asked for, or could not be read."""

    raw: Mapping[str, Any]
    job: TrainingJob
    events: Sequence[job_api.Line]
    pods: Pods | None = None
    curve: Curve | None = None
    trouble: CliError | None = None
    silence: str = ""  # that no operator is at work

    def to_object(self, now: datetime) -> dict[str, Any]:
        """What -o json prints."""
        events = [
            {"at": format_time(one.at), "reason": one.reason, "message": one.message, "count": one.count}
            for one in self.events
        ]
        data = {"job": self.raw, "next": view.what_next(self.job), "events": events}
        if self.silence:
            data["noOperator"] = self.silence
        if self.pods is not None:
            data["members"] = to_objects(self.job, self.pods, now)
        if self.curve is not None:
            data["history"] = self.curve.to_object()
        return data


def describe(
    job: Job,
    *,
    members: Members = False,
    history: History = False,
    namespace: Namespace = None,
    endpoint: Endpoint = None,
    output: Output = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the state of a job, its reason, its past, and what happens next.

    \b
    Examples:
      holdfast describe vit-faces -n vision
      holdfast describe vit-faces --history
      holdfast describe llm --members
    """
    target = Target(kubeconfig, namespace)

    async def read() -> Found:
        async with connect(target) as client:
            raw = await job_api.get_raw(client, target.resolved_namespace(), job)
            parsed = TrainingJob.parse(raw)
            pods = await read_pods(client, parsed) if members else None
            events = await job_api.job_events(client, parsed)
            found = Found(raw, parsed, events, pods, silence=await read_silence(client, datetime.now(UTC)))
            if not history:
                return found
            try:
                return replace(found, curve=to_curve(await history_of(client, parsed, endpoint)))
            except CliError as error:
                return replace(found, trouble=error)

    found, now = asyncio.run(read()), datetime.now(UTC)
    if not write(output, found.to_object(now)):
        if found.silence:
            console().print(Text(found.silence, style="red"))
        show(console(), found.job, found.events, now, pods=found.pods, curve=found.curve)
    if found.trouble:  # after what could be read
        raise found.trouble


def show(
    out: Console,
    job: TrainingJob,
    events: Sequence[job_api.Line],
    now: datetime,
    *,
    pods: Pods | None = None,
    curve: Curve | None = None,
) -> None:
    """Print all sections. `pods` are shown by rank, and the `curve` of the loss, if given."""
    sections: list[tuple[str, RenderableType | None]] = [
        ("", _heading(job, now)),
        ("what happens next", Text(view.what_next(job))),
        (
            "progress",
            Group(
                view.progress_line(job, now),
                view.summary(job, now, view.Losses()),
                *_metrics(job),
                *_put_back(job),
                *_tracking(job),
            ),
        ),
        ("loss over all attempts", None if curve is None else _curve(curve)),
        ("last words of the program", _last_words(job)),
        ("attempts", view.attempts_table(job, now) if job.status.attempt else None),
        ("members", None if pods is None else table(job, pods, now)),
        ("timeline", timeline(job, now)),
        ("why attempts ended", _ends(job.status.history)),
        ("cost", costs.costs(job)),
        ("totals", Text(totals(job, now))),
        ("conditions", _conditions(job, now)),
        ("events", Group(*(view.event_text(line, full=True) for line in events)) if events else Text("none")),
    ]
    for title, body in sections:
        if body is not None:
            if title:
                out.print(Text(f"\n{title.upper()}", style="bold"))
            out.print(Padding(body, (0, 0, 0, 2 if title else 0), expand=False))


def _curve(curve: Curve) -> RenderableType:
    return Group(*([Sparkline(curve)] if curve.points else []), *sentences(curve))


def _heading(job: TrainingJob, now: datetime) -> RenderableType:
    meta, status = job.metadata, job.status
    title = Text.assemble((f"{meta.namespace}/{meta.name}", "bold"), "  ", view.phase_text(status.phase))
    if status.reason:
        title.append(f"  {status.reason}", style="dim")
    born = f"created {formats.ago(meta.creation_timestamp, now)}, image {job.spec.trainer.image}"
    lines = [title, Text(born, style="dim")]
    if decision := status.decision:
        said = f"{decision.action} ({formats.ago(decision.at, now)}): {decision.message}"
        lines.append(Text(said))
    return Group(*lines)


def _metrics(job: TrainingJob) -> list[RenderableType]:
    """One line with memory and wait for data, and one with the metrics that the program reports, where known."""
    fed = feed.line(job)
    lines: list[RenderableType] = [] if fed is None else [fed]
    found = job.status.progress.metrics
    if not found:
        return lines
    shown = [Text.assemble(f"{one.name} ", view.loss_text(one.value, "bold")) for one in found]
    return [*lines, Text.assemble(("metrics   ", "dim"), Text("   ").join(shown))]


def _put_back(job: TrainingJob) -> list[RenderableType]:
    """One line with what a start costs, of a job with checkpoint.folder."""
    said = None if job.status.is_over else put_back_words(job.spec.checkpoint, job.status)
    return [] if said is None else [Text.assemble(("start     ", "dim"), said)]


def _tracking(job: TrainingJob) -> list[RenderableType]:
    """A line for each experiment tracker with a run of the job: its address."""
    return [Text.assemble((f"{one.tracker:<9} ", "dim"), one.url) for one in job.status.tracking]


def _last_words(job: TrainingJob) -> RenderableType | None:
    """What the program wrote before its last failure."""
    ends = [r for r in job.status.history if r.kind in (EndKind.FAILURE, EndKind.MISCONFIGURED) and r.message]
    if not ends:
        return None
    last = ends[-1]
    return Group(Text(f"attempt {last.number}, {last.reason}:", style="red"), Text(last.message))


def _ends(history: Sequence[AttemptRecord]) -> RenderableType | None:
    explained = [record for record in history if record.message and record.kind is not EndKind.COMPLETED]
    if not explained:
        return None
    grid = Table.grid(padding=(0, 2, 0, 0))
    for record in explained:
        guess = " (estimated: the end was not observed)" if record.estimated else ""
        first_line = record.message.splitlines()[0]
        grid.add_row(str(record.number), formats.moment(record.ended_at), record.reason, Text(f"{first_line}{guess}"))
    return grid


def totals(job: TrainingJob, now: datetime) -> str:
    """What interruptions have cost so far."""
    restarts, ledger = job.status.restarts, job.status.ledger
    failures = f"{restarts.failures} of {job.spec.failure.max_failures} allowed failures"
    gap = open_gap(job.status, now)
    seconds = (ledger.seconds_lost + gap).total_seconds()
    known = counts_steps(job.status)
    twice = f"{formats.count(ledger.steps_lost)} steps done twice" if known else "steps done twice are not known"
    if known and has_unsettled_interruption(job.status.history):
        twice += " before the last interruption"
    lost = f"{twice}, {seconds:.1f}s without training{' so far' if gap else ''}"
    return f"{interruptions(job)} ({restarts.infrastructure} of them infrastructure), {failures}; {lost}"


def _conditions(job: TrainingJob, now: datetime) -> RenderableType | None:
    if not job.status.conditions:
        return None
    grid = Table.grid(padding=(0, 2, 0, 0))
    for condition in job.status.conditions:
        style = "green" if condition.status == "True" else "dim"
        name, since = Text(condition.type, style=style), formats.ago(condition.last_transition_time, now)
        grid.add_row(name, condition.status, condition.reason, since, Text(condition.message))
    return grid
