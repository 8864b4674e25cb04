"""Sections of the page of a job: timeline, why, cost, checkpoints, conditions, events."""

from typing import Final

from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast.core.books.ledger import counts_steps
from holdfast_cli.checkpoints import list_command, screen
from holdfast_cli.jobs import costs
from holdfast_cli.jobs.timeline import Timeline, timeline
from holdfast_cli.pages import stored_job
from holdfast_cli.pages.fragments import pairs, simple_table, styled, table, texts
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.pages.pictures import KINDS, divided_bar, timeline_picture
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_cli.why.screen import chances, figure_rows, says_now, worth
from holdfast_model.pages.template import Markup, Template

MOST_EVENTS: Final = 200
MOST_CHECKPOINTS: Final = 100
_EVENTS: Final = (Column("LAST"), Column("REASON"), Column("MESSAGE"), Column("TIMES", rank=1, right=True))
_HTML: Final = Template(__name__)
_CONDITIONS: Final = (Column("CONDITION"), Column("STATUS"), Column("REASON"), Column("SINCE"), Column("MESSAGE"))


def timeline_of(inputs: JobInputs) -> Timeline | None:
    """Attempts by tier; without an object of the job, as far as its history tells."""
    if inputs.job is None:
        return stored_job.timeline_of(inputs)
    return timeline(inputs.job, inputs.now, inputs.reasons.grid if inputs.reasons else ())


def timeline_section(inputs: JobInputs) -> Markup:
    """The picture of attempts by tier."""
    found = timeline_of(inputs)
    return _HTML.timeline(timeline_picture(found)) if found else Markup()


def why(inputs: JobInputs) -> Markup:
    """The policy's answer and all figures behind it."""
    found = inputs.reasons
    if found is None:
        return Markup()
    tables = [
        (title, table(rows), legend.plain)
        for title, (rows, legend) in (
            ("What a tier is worth", worth(found)),
            ("Which tiers are up, and how soon training starts", chances(found)),
        )
    ]
    return _HTML.why(says=texts(says_now(found)), tables=tables, figures=pairs(figure_rows(found)))


def cost(inputs: JobInputs) -> Markup:
    """Money by tier, and where the time between attempts went."""
    if inputs.job is None:
        return Markup()
    job = inputs.job
    return _HTML.cost(
        said=costs.sentence(job), money=_money(job), tiers=table(costs.table(job)), recovery=_recovery(job)
    )


def _money(job: TrainingJob) -> Markup:
    parts = [
        (one.tier, float(one.spent), formats.money(one.spent), KINDS.get(one.kind, "kind-other"))
        for one in job.status.ledger.by_tier
    ]
    return divided_bar(parts, "Money by tier")


def _recovery(job: TrainingJob) -> Markup:
    """The time without new steps, by its phases."""
    ledger = job.status.ledger
    found = ledger.recovery
    spans = [("notice", found.notice), ("acquire", found.acquire), ("start", found.start), ("restore", found.restore)]
    if counts_steps(job.status):
        spans.append(("trained again", found.replay))
    parts = [
        (name, span.total_seconds(), formats.exact(span), f"part-{place}") for place, (name, span) in enumerate(spans)
    ]
    return divided_bar(parts, "Time without new steps, by phase")


def checkpoints(inputs: JobInputs) -> Markup:
    """The owner of the storage, and what `holdfast checkpoints list` shows."""
    if inputs.checkpoints is None:
        return Markup()
    prefix, rows = inputs.checkpoints
    cells = [list_command.cells(row, inputs.now) for row in rows[:MOST_CHECKPOINTS]]
    columns = [Column(one.title, max(one.rank, int(one.title == "NOTE")), one.right) for one in list_command.COLUMNS]
    left_out = formats.count(len(rows) - len(cells)) if len(rows) > len(cells) else ""
    heading = [styled(line) for line in screen.heading(prefix.uri, prefix.state)]
    return _HTML.checkpoints(heading=heading, found=table(Fitting(columns, cells)), left_out=left_out)


def conditions(inputs: JobInputs) -> Markup:
    """The conditions of the object."""
    found = inputs.job.status.conditions if inputs.job else ()
    rows = [
        (
            Text(one.type, style="green" if one.status == "True" else "dim"),
            one.status,
            one.reason,
            formats.ago(one.last_transition_time, inputs.now),
            one.message,
        )
        for one in found
    ]
    return _HTML.conditions(simple_table(_CONDITIONS, rows))


def events(inputs: JobInputs) -> Markup:
    """The newest events, the newest first."""
    if inputs.events is None:
        return Markup()
    shown = list(inputs.events)[-MOST_EVENTS:][::-1]
    rows = [
        (
            formats.moment(one.at),
            Text(one.reason, style="yellow" if one.warning else "green"),
            one.message,
            str(one.count) if one.count > 1 else "",
        )
        for one in shown
    ]
    return _HTML.events(simple_table(_EVENTS, rows))
