"""The demo's live screen. Pure."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast_cli.cluster.job_api import Line
from holdfast_cli.jobs import view
from holdfast_cli.terminal import formats
from holdfast_local.demo.losses import LossBook
from holdfast_local.demo.script import Script


def screen(
    job: TrainingJob, events: Sequence[Line], now: datetime, *, title: str, script: Script, book: LossBook
) -> RenderableType:
    """The job's own screen, and above it the title and the scenes of the script."""
    losses = view.Losses()
    for index, value in enumerate(book.curve()):
        losses.by_step[index] = value
    started = job.status.started_at or job.metadata.creation_timestamp
    clock = f"{formats.span(now - started)} since the start" if started else ""
    body = view.job_screen(job, events, now, losses)
    return Group(
        Panel(_scenes(job, script), title=title, subtitle=clock, title_align="left", border_style="cyan"), body
    )


def _scenes(job: TrainingJob, script: Script) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    done = job.status.phase is Phase.COMPLETED
    for number, scene in enumerate(script.scenes):
        played = script.played[number] if number < len(script.played) else None
        mark = Text("✓", style="green") if played else Text("·", style="dim")
        label = f"{scene.title} ({played.node}, at step {formats.count(played.step)})" if played else scene.title
        style = "" if played else "dim"
        grid.add_row(mark, Text(label, style=style), Text(f"→ {scene.after}", style="cyan" if played else "dim"))
    grid.add_row(
        Text("✓" if done else "·", style="green" if done else "dim"), Text("training completes", style="dim"), ""
    )
    return grid
