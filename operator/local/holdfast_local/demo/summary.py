"""The tables at the end of the demo. Pure."""

from collections.abc import Sequence
from datetime import datetime

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast_cli.jobs.costs import costs
from holdfast_cli.jobs.timeline import timeline
from holdfast_cli.terminal import formats
from holdfast_local.demo.losses import Move
from holdfast_local.demo.verify import Check


def attempts(job: TrainingJob) -> Table:
    """Every attempt: tier, node, why it ended, steps, seconds lost."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Attempts", title_justify="left", title_style="bold")
    for header, justify in (("#", "right"), ("TIER", "left"), ("NODE", "left"), ("WHY IT ENDED", "left")):
        table.add_column(header, justify="right" if justify == "right" else "left")
    for header in ("STEPS", "STEPS LOST", "SECONDS LOST"):
        table.add_column(header, justify="right")
    for record in job.status.history:
        trained = record.first_step is not None and record.last_step is not None
        lost = record.seconds_lost
        table.add_row(
            str(record.number),
            record.tier,
            record.node or formats.NOTHING,
            f"{record.kind}: {record.reason}",
            f"{formats.count(record.first_step)}–{formats.count(record.last_step)}" if trained else formats.NOTHING,
            formats.count(record.steps_lost),
            formats.NOTHING if lost is None else f"{lost.total_seconds():.1f}",
        )
    return table


def moves(found: Sequence[Move]) -> Table:
    """The loss before and after each resume."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title="Loss at each move", title_justify="left", title_style="bold"
    )
    table.add_column("ATTEMPT", justify="right")
    for header in ("RESUMED AT STEP", "LAST LOSS BEFORE", "FIRST LOSS AFTER"):
        table.add_column(header, justify="right")
    table.add_column("STEPS DONE TWICE")
    for move in found:
        table.add_row(
            str(move.attempt), formats.count(move.resumed), _loss(move.before), _loss(move.after), _twice(move)
        )
    return table


def bars(job: TrainingJob) -> RenderableType:
    """The attempts over time."""
    ended = job.status.finished_at
    shown = timeline(job, ended) if ended else None
    return Group(Text("Timeline", style="bold"), shown or Text(formats.NOTHING), Text())


def money(job: TrainingJob) -> RenderableType:
    """What each tier cost, and what was saved."""
    return Group(Text("Money", style="bold"), costs(job) or Text(formats.NOTHING))


def _loss(at: tuple[int, float] | None) -> str:
    return formats.NOTHING if at is None else f"{at[1]:.4f} (step {formats.count(at[0])})"


def _twice(move: Move) -> str:
    if not move.twice:
        return "none"
    return f"{move.twice} compared: losses differ by at most {move.largest_difference:.2g}"


def verdict(found: Sequence[Check]) -> RenderableType:
    """Every check with its mark."""
    lines = []
    for check in found:
        mark, style = ("✓", "green") if check.passed else ("✗", "bold red")
        lines.append(Text.assemble((f"{mark} ", style), check.text))
    return Group(*lines)


def took(job: TrainingJob, now: datetime) -> str:
    """How long the job took."""
    start = job.metadata.creation_timestamp
    return formats.span((job.status.finished_at or now) - start) if start else formats.NOTHING
