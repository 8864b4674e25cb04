"""A page that compares jobs: their curves in the same charts, their figures in one table, their timelines."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from holdfast_cli.jobs import view
from holdfast_cli.pages import curves
from holdfast_cli.pages.fragments import simple_table
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.pages.job_page import job_figures
from holdfast_cli.pages.job_sections import timeline_of
from holdfast_cli.pages.page import Fragment, Page
from holdfast_cli.pages.pictures import timeline_picture
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column
from holdfast_model.pages.fragments import Table
from holdfast_model.pages.template import Markup, Template

_HTML: Final = Template(__name__)


def comparison_page(found: Sequence[JobInputs]) -> Page:
    """At least one job. Jobs with the same name are numbered in the order in which they were given."""
    names = _names(found)
    runs = [curves.Run(one.history, name) for one, name in zip(found, names, strict=True) if one.history]
    drawn = curves.charts(runs)
    gaps = [
        f"{name}: a part of the history is missing: {gap}"
        for one, name in zip(found, names, strict=True)
        for gap in (one.history.gaps if one.history else ())
    ]
    fragments = [
        Fragment("heading", _heading(found, names)),
        Fragment("figures", _HTML.figures(_figures(found, names))),
        Fragment("curves", _HTML.curves(places=curves.places(drawn), gaps=gaps)),
        Fragment("timeline", _HTML.timelines(list(map(_timeline, found, names)))),
    ]
    return Page(" and ".join(names), fragments, drawn)


def _names(found: Sequence[JobInputs]) -> list[str]:
    names = [one.name for one in found]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    ]


def _heading(found: Sequence[JobInputs], names: Sequence[str]) -> Markup:
    now = found[0].now
    meta = f"{len(found)} trainings compared, as of {formats.moment(now)} {now.astimezone():%Z}"
    notes = [f"{name}: {text}" for one, name in zip(found, names, strict=True) for text in one.notes]
    return _HTML.heading(title=" · ".join(names), meta=meta, notes=notes)


def _figures(found: Sequence[JobInputs], names: Sequence[str]) -> Table:
    """A row for each figure that one of the jobs has."""
    columns = [{one.name: one for one in job_figures(inputs)} for inputs in found]
    rows: list[list[str | Text]] = [
        ["Phase", *(view.phase_text(one.job.status.phase) if one.job else formats.NOTHING for one in found)]
    ]
    for name in dict.fromkeys(name for column in columns for name in column):
        cells: list[str | Text] = []
        for column in columns:
            figure = column.get(name)
            more = f", {figure.more}" if figure and figure.more else ""
            cells.append(Text.assemble(figure.value, (more, "dim")) if figure else formats.NOTHING)
        rows.append([name, *cells])
    return simple_table([Column(""), *map(Column, names)], rows)


def _timeline(inputs: JobInputs, name: str) -> tuple[str, Markup]:
    """The name and the picture, which is empty if nothing is known."""
    bars = timeline_of(inputs)
    return name, timeline_picture(bars) if bars else Markup()
