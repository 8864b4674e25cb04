"""How a job looks on a terminal. Pure: takes models and a time, returns what rich can print."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from holdfast.api.attempt import Attempt, AttemptRecord, EndKind
from holdfast.api.objects import JOB_COLUMNS, TrainingJob
from holdfast.api.scalars import say_time
from holdfast.api.status import CheckpointStatus, Forecast, Phase
from holdfast.core.status.conditions import CHECKPOINT_FAILING
from holdfast_cli.cluster.job_api import Line, Unreadable
from holdfast_cli.jobs import costs, feed
from holdfast_cli.jobs.curve import Curve, Sparkline, sentences
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_protocol.reasons import STORAGE_UNREACHABLE

EVENTS_SHOWN = 8
LEAST_SHOWN = 2  # attempts, and Events, that a small screen shows too
_AROUND = {"attempts": 4, "events": 1}  # lines of a section that are not its rows
MOST_SEEN = 20_000
BAR = 40
SPARK = 32

_PHASE_STYLES = {
    Phase.SUSPENDED: "dim",
    Phase.ACQUIRING: "yellow",
    Phase.STARTING: "cyan",
    Phase.RUNNING: "green",
    Phase.MIGRATING: "magenta",
    Phase.RECOVERING: "yellow",
    Phase.COMPLETED: "bold green",
    Phase.FAILED: "bold red",
}
_END_STYLES = {EndKind.COMPLETED: "green", EndKind.INTERRUPTION: "yellow", EndKind.STOPPED: "dim"}


@dataclass(slots=True)
class Losses:
    """Losses seen while watching, for the sparkline: one a step, the newest MOST_SEEN. A lower step begins again there.

    `past` is the curve before, if it was asked for and read; `note` says why it was not.
    """

    by_step: dict[int, float] = field(default_factory=dict)
    past: Curve | None = None
    note: str = ""

    def see(self, step: int, loss: str | None) -> None:
        """Remember the loss of a step."""
        for later in [other for other in reversed(self.by_step) if other > step]:
            del self.by_step[later]
        value = formats.number(loss)
        if value is not None:
            self.by_step[step] = value
        while len(self.by_step) > MOST_SEEN:
            del self.by_step[next(iter(self.by_step))]

    def values(self) -> list[float]:
        """In the order of the steps."""
        return [self.by_step[step] for step in sorted(self.by_step)]


def phase_text(phase: Phase | None) -> Text:
    """The phase in its colour."""
    return Text(phase or "New", style=_PHASE_STYLES[phase] if phase else "dim")


def fraction(job: TrainingJob) -> float | None:
    """The done share, 0 to 1; None if the number of steps is unknown."""
    progress = job.status.progress
    steps = progress.steps or job.spec.goal.steps
    if job.status.phase is Phase.COMPLETED:
        return 1.0 if progress.step else None
    return min(progress.step / steps, 1.0) if steps else None


def percent(job: TrainingJob) -> str:
    """`48.2%`."""
    share = fraction(job)
    return formats.NOTHING if share is None else f"{share * 100:.1f}%"


def steps(job: TrainingJob) -> str:
    """`120 / 1,200`."""
    progress = job.status.progress
    goal = progress.steps or job.spec.goal.steps
    return formats.count(progress.step) + (f" / {formats.count(goal)}" if goal else "")


def eta(job: TrainingJob, now: datetime) -> str:
    """`3m12s`: the time that is left."""
    at = job.status.progress.eta
    return formats.span(at - now) if at and not job.status.is_over else formats.NOTHING


def slack_text(found: Forecast) -> Text:
    """`31h00m`, or `late by 2h05m` as a warning."""
    if found.late is not None:
        return Text(f"late by {formats.span(found.late)}", style="bold red")
    return Text(formats.span(found.slack), style="yellow" if found.slack == timedelta(0) else "")


_NOT_SHOWN = ("Nodes", "Checkpoint")
_RANKS = {  # the column with the highest rank is left out first on a narrow screen
    "Percent": 1, "ETA": 2, "Slack": 3, "Cost": 4, "Step": 5, "Expected": 6, "Savings": 7, "Interruptions": 8,
    "Reason": 9, "Node": 10, "Loss": 11, "Attempt": 12, "Age": 13,
}  # fmt: skip
_SHOWN = tuple(one for one in JOB_COLUMNS if one.name not in _NOT_SHOWN)
COLUMNS = (
    Column("NAME"),
    *(
        Column(one.name.upper(), rank=_RANKS.get(one.name, 0), right=one.number, loose=one.name == "Reason")
        for one in _SHOWN
    ),
)


def jobs_table(
    jobs: Sequence[TrainingJob], unreadable: Sequence[Unreadable], now: datetime, *, namespaces: bool
) -> RenderableType:
    """All jobs, one per row, in as many columns as fit; below them the jobs that cannot be read."""
    columns = (Column("NAMESPACE"), *COLUMNS) if namespaces else COLUMNS
    rows = [[Text(job.metadata.namespace), *_row(job, now)] if namespaces else _row(job, now) for job in jobs]
    parts: list[RenderableType] = [Fitting(columns, rows)] if rows else []
    for bad in unreadable:
        where = f"{bad.namespace}/{bad.name}" if namespaces else bad.name
        parts.append(Text.assemble(where, "  ", ("Unreadable", "red"), f": {bad.why.splitlines()[0]}"))
    return Group(*parts)


def _row(job: TrainingJob, now: datetime) -> list[Text]:
    """The cells of COLUMNS."""
    status, meta, cost = job.status, job.metadata, job.status.forecast.cost
    saved = formats.decimal(status.ledger.saved_versus_dedicated)
    cells: dict[str, str | Text] = {
        "Phase": phase_text(status.phase),
        "Tier": status.tier or formats.NOTHING,
        "Step": formats.count(status.progress.step),
        "Percent": percent(job),
        "ETA": eta(job, now),
        "Cost": formats.money(status.ledger.spent),
        "Expected": formats.NOTHING if cost is None else formats.money(cost),
        "Savings": formats.NOTHING if saved is None else formats.money(saved),
        "Slack": slack_text(status.forecast),
        "Interruptions": str(status.restarts.interruptions),
        "Age": formats.span(now - meta.creation_timestamp if meta.creation_timestamp else None),
        "Loss": loss_text(status.progress.loss),
        "Attempt": attempt_number(job),
        "Node": status.node or formats.NOTHING,
        "Reason": status.reason or "",
    }
    row = [meta.name, *(cells[one.name] for one in _SHOWN)]
    return [cell if isinstance(cell, Text) else Text(cell) for cell in row]


def loss_text(loss: str | None, style: str = "") -> Text:
    """The loss; one that is not finite (`nan`, `inf`) in red."""
    return Text(loss or formats.NOTHING, style="bold red" if loss and formats.number(loss) is None else style)


def summary(job: TrainingJob, now: datetime, losses: Losses) -> Table:
    """Phase, tier, node, step, loss and so on, as a grid of names and values."""
    status = job.status
    grid = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(4):
        grid.add_column(no_wrap=True)
    saved = status.checkpoint
    known = status.uses_checkpoints or job.spec.checkpoint.folder is not None or not status.progress.step
    none = "none yet" if known else "not known to Holdfast"
    checkpoint = f"{checkpoint_words(saved)}, {formats.ago(saved.committed_at, now)}" if saved else none
    spark = "" if losses.past else formats.sparkline(losses.values(), SPARK)
    loss = Text.assemble(loss_text(status.progress.loss, "bold"), "  ", (spark, "cyan"))
    rows: list[tuple[str, RenderableType, str, RenderableType]] = [
        ("phase", phase_text(status.phase), "tier", Text(status.tier or formats.NOTHING, style="bold")),
        ("step", Text(steps(job), style="bold"), "node", status.node or formats.NOTHING),
        ("loss", loss, "attempt", attempt_number(job)),
        ("checkpoint", checkpoint, "speed", speed(job)),
    ]
    if status.forecast.slack is not None:
        rows.append(("deadline", formats.moment(job.spec.capacity.deadline), "slack", slack_text(status.forecast)))
    for left, value, right, other in rows:
        grid.add_row(Text(left, style="dim"), value, Text(right, style="dim"), other)
    return grid


def checkpoint_words(saved: CheckpointStatus) -> str:
    """`step 1,200`, or that the name which the program gave the checkpoint says no step."""
    return "one without a step" if saved.step is None else f"step {formats.count(saved.step)}"


def what_next(job: TrainingJob) -> str:
    """What the operator waits for, and what it does then."""
    if job.metadata.deletion_timestamp:
        return "Nothing: the job is being deleted. Its pod is asked to leave, and its checkpoints stay."
    unread = "The operator has not read the job yet. If this lasts: kubectl -n holdfast-system get pods"
    said, ttl, end = job.status.next or unread, job.spec.ttl_after_finished, job.status.finished_at
    if ttl is None or end is None:
        return said
    return f"{said} The object is deleted at {formats.moment(end + ttl)}; its checkpoints stay."


def saves_trouble(job: TrainingJob) -> str:
    """Why saves wait or fail, as the job's conditions say it; empty if they do not."""
    said = {one.type: one.message for one in job.status.conditions if one.status == "True"}
    return said.get(STORAGE_UNREACHABLE) or said.get(CHECKPOINT_FAILING, "")


def attempt_number(job: TrainingJob) -> str:
    """The number of the attempt that trains, or that trains next; without one, the newest number.

    While a successor starts, the newest number is the successor's.
    """
    current = job.status.current
    return str(current.number if current else job.status.attempt)


def speed(job: TrainingJob) -> str:
    """`1234.5 samples/s`."""
    rate = formats.number(job.status.progress.samples_per_second)
    return formats.NOTHING if rate is None else f"{rate:,.1f} samples/s"


def progress_line(job: TrainingJob, now: datetime) -> Text:
    """The bar, the percentage and the time that is left."""
    share = fraction(job)
    left = f"   ETA {eta(job, now)}" if share is not None and share < 1 else ""
    return Text.assemble(
        (formats.bar(share, BAR), "green" if share is not None else "dim"), f" {percent(job):>6}", (left, "dim")
    )


ATTEMPT_COLUMNS = (
    Column("#", right=True),
    Column("TIER", loose=True),
    Column("NODE", rank=4),
    Column("STEPS", rank=1, right=True),
    Column("RESUMED AT", rank=5, right=True),
    Column("LOST", rank=3),
    Column("TOOK", rank=2),
    Column("ENDED"),
)


def attempts_table(job: TrainingJob, now: datetime, newest: int | None = None) -> RenderableType:
    """Every attempt in the status, or the `newest` so many; the running one last."""
    rows = attempt_rows(job, now)
    return Padding(Fitting(ATTEMPT_COLUMNS, rows if newest is None else rows[-newest:]), (1, 0))


def attempt_rows(job: TrainingJob, now: datetime) -> list[list[Text]]:
    """The cells of ATTEMPT_COLUMNS for every attempt in the status."""
    present = [attempt for attempt in (job.status.current, job.status.successor) if attempt]
    return [*(_past(record) for record in job.status.history), *(_present(one, job, now) for one in present)]


def _past(record: AttemptRecord) -> list[Text]:
    took = record.ended_at - (record.started_at or record.raised_at)
    return [
        Text(str(record.number)),
        Text(record.tier),
        Text(_where(record)),
        Text(step_range(record.first_step, record.last_step)),
        Text(formats.count(record.resumed_step)),
        Text(lost(record)),
        Text(formats.span(took)),
        Text(f"{record.kind}: {record.reason}", style=_END_STYLES.get(record.kind, "red")),
    ]


def _present(attempt: Attempt, job: TrainingJob, now: datetime) -> list[Text]:
    pod = attempt.pods[0] if attempt.pods else None
    is_current = job.status.current is attempt
    last = job.status.progress.step if is_current and attempt.first_step is not None else attempt.last_step
    return [
        Text(str(attempt.number)),
        Text(attempt.tier.name),
        Text(f"{attempt.nodes} nodes" if attempt.nodes > 1 else (pod.node if pod else None) or formats.NOTHING),
        Text(step_range(attempt.first_step, last)),
        Text(formats.count(attempt.resumed_step)),
        Text(formats.NOTHING),
        Text(formats.span(now - (attempt.started_at or attempt.raised_at))),
        Text(str(attempt.state), style="cyan"),
    ]


def _where(record: AttemptRecord) -> str:
    """The node; with several nodes, the one that the end of the attempt is about."""
    if record.rank is None or record.node is None:
        return record.node or formats.NOTHING
    return f"{record.node} (rank {record.rank})"


def step_range(first: int | None, last: int | None) -> str:
    """`120–480`."""
    if first is None or last is None:
        return formats.NOTHING
    return f"{formats.count(first)}–{formats.count(last)}"


def lost(record: AttemptRecord) -> str:
    """`0 steps, 6.1s`: what the end of this attempt cost; known when the next attempt trains.

    The time alone if it is not known where the next attempt resumed.
    """
    if record.seconds_lost is None:
        return formats.NOTHING
    seconds = f"{record.seconds_lost.total_seconds():.1f}s"
    return seconds if record.steps_lost is None else f"{formats.count(record.steps_lost)} steps, {seconds}"


def event_text(line: Line, *, full: bool = False) -> Text:
    """One Event on one line; its message is cut at the edge of the screen unless `full`."""
    times = f" (×{line.count})" if line.count > 1 else ""
    text = Text.assemble(
        (formats.moment(line.at) if full else formats.clock(line.at), "dim"),
        "  ",
        (line.reason, "yellow" if line.warning else "green"),
        "  ",
        line.message.replace("\n", " "),
        (times, "dim"),
    )
    return text if full else cut(text)


def job_screen(
    job: TrainingJob, events: Sequence[Line], now: datetime, losses: Losses, room: int | None = None
) -> Panel:
    """One job as a live screen, in at most `room` lines if fewer attempts and Events can achieve that."""
    meta, decision, status = job.metadata, job.status.decision, job.status
    grid = summary(job, now, losses)
    parts: list[RenderableType] = [grid, Text(), progress_line(job, now)]
    lines = grid.row_count + 2
    if losses.past and (curve := losses.past.and_then(losses.by_step)).points:
        parts += [Text(), Sparkline(curve), cut(sentences(curve)[0])]
        lines += 4
    elif losses.note:
        parts.append(cut(Text(losses.note, style="yellow")))
        lines += 1
    if fed := feed.line(job):
        parts.append(cut(fed))
        lines += 1
    if cost := costs.sentence(job):
        parts.append(cut(Text(cost, style="dim")))
        lines += 1
    if trouble := saves_trouble(job):
        parts.append(cut(Text(trouble, style="yellow")))
        lines += 1
    if decision:
        why = Text.assemble((decision.action, "bold"), "  ", decision.message.replace("\n", " "))
        parts += [Text(), cut(why)]
        lines += 2
    attempts = len(status.history) + (status.current is not None) + (status.successor is not None)
    shown, told = _share(None if room is None else room - 2 - lines, attempts, min(len(events), EVENTS_SHOWN))
    if status.attempt:
        parts.append(attempts_table(job, now, shown))
    if told:
        parts += [Text("events", style="dim"), *(event_text(line) for line in events[-told:])]
    return Panel(Group(*parts), title=f"{meta.namespace}/{meta.name}", title_align="left", border_style="blue")


def _share(room: int | None, attempts: int, events: int) -> tuple[int, int]:
    """How many attempts and Events are shown in `room` lines: first fewer attempts, then fewer Events."""
    if room is None:
        return attempts, events
    rows = room - sum(_AROUND.values())
    shown = min(attempts, max(rows - events, LEAST_SHOWN))
    return shown, min(events, max(rows - shown, LEAST_SHOWN))


def cut(text: Text) -> Text:
    """The text on one line, cut at the edge of the screen."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def plain_state(job: TrainingJob) -> str:
    """The state on one line, for output that is not a terminal. It changes only if more than the time changes."""
    status = job.status
    parts = [status.phase or "New", f"attempt={attempt_number(job)}"]
    places = (("tier", status.tier), ("node", status.node), ("nodes", status.ready_nodes))
    parts += [f"{name}={value}" for name, value in places if value]
    parts += [f"step={steps(job).replace(' ', '')}", f"loss={status.progress.loss or formats.NOTHING}"]
    if saved := status.checkpoint:
        parts.append(f"checkpoint={say_time(saved.committed_at) if saved.step is None else saved.step}")
    return " ".join(parts)
