"""What the storage of a job shows when there is no object of the job: figures, attempts, a timeline."""

from datetime import UTC, datetime
from math import isfinite

from rich.text import Text

from holdfast_cli.jobs.timeline import Bar, Timeline
from holdfast_cli.pages.fragments import Figure
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_train.series.history import Part
from holdfast_train.series.rows import Row

COLUMNS = (
    Column("#", right=True),
    Column("BEGAN"),
    Column("ENDED"),
    Column("TOOK", right=True),
    Column("STEPS", right=True),
    Column("LOST", right=True),
)
_NO_TIER = "attempts"


def figures_of(inputs: JobInputs) -> list[Figure]:
    """Name, value, and a line below."""
    parts, found = _parts(inputs), []
    state = inputs.checkpoints[0].state if inputs.checkpoints else None
    rows = [row for part in parts for row in part.kept]
    if state and state.complete:  # 0: no checkpoint's name says a step
        found.append(Figure("Steps", formats.count(state.complete), "complete"))
    elif rows:
        found.append(Figure("Steps", formats.count(rows[-1].step), f"at {formats.moment(_time(rows[-1]))}"))
    if loss := next((row.values["loss"] for row in reversed(rows) if "loss" in row.values), None):
        found.append(Figure("Loss", f"{loss:.5g}" if isfinite(loss) else Text(f"{loss}", "red"), "at the end"))
    if parts:
        took = _time(parts[-1].rows[-1]) - _time(parts[0].rows[0])
        found.append(Figure("Took", formats.span(took), f"from {formats.moment(_time(parts[0].rows[0]))}"))
        lost = sum(part.lost_steps for part in parts)
        found.append(Figure("Attempts", formats.count(len(parts)), f"{formats.count(lost)} steps lost"))
    if state and state.commits:
        last = state.commits[-1]
        found.append(
            Figure(
                "Checkpoint",
                f"step {formats.count(last.step)}" if last.step else "no step in its name",
                f"of {len(state.every)} that are kept",
            )
        )
    return found


def attempts_table(inputs: JobInputs) -> Fitting:
    """A row for each attempt that measured something."""
    rows = []
    for part in _parts(inputs):
        first, last = part.rows[0], part.rows[-1]
        cells = (
            str(part.attempt),
            formats.moment(_time(first)),
            formats.moment(_time(last)),
            formats.span(_time(last) - _time(first)),
            f"{formats.count(first.step)}–{formats.count(last.step)}",
            formats.count(part.lost_steps),
        )
        rows.append([Text(cell) for cell in cells])
    return Fitting(COLUMNS, rows)


def timeline_of(inputs: JobInputs) -> Timeline | None:
    """A bar for each attempt, from its first row to its last: the storage knows no tiers. None without a history."""
    bars = []
    for part in _parts(inputs):
        since = _time(part.rows[0])
        until = max(_time(part.rows[-1]), since)
        bars.append(Bar(_NO_TIER, (since, since, since, until, until), None, part.attempt))
    return Timeline(bars, {}, [_NO_TIER], 0, None) if bars else None


def _parts(inputs: JobInputs) -> list[Part]:
    return [part for part in inputs.history.parts if part.rows] if inputs.history else []


def _time(row: Row) -> datetime:
    return datetime.fromtimestamp(min(max(row.at, 0), 2**36), UTC)
