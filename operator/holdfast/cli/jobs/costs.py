"""The cost of a job for people: money by tier, and the time lost to interruptions by its parts."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.api.attempt import Recovery
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Ledger
from holdfast.cli.terminal import formats
from holdfast.core.books.ledger import counts_steps


def costs(job: TrainingJob) -> RenderableType | None:
    """A sentence, a table of ended attempts by tier, and where time was lost; None before there are any costs."""
    ledger = job.status.ledger
    lines: list[RenderableType] = [Text(text)] if (text := sentence(job)) else []
    if ledger.by_tier:
        lines.append(_table(job))
    if ledger.seconds_lost or ledger.recovery.replay:
        lines.append(Text(recovery(ledger.recovery, counted=counts_steps(job.status))))
    return Group(*lines) if lines else None


def sentence(job: TrainingJob) -> str:
    """`412.30 spent, 465.60 expected in the end, 688.10 (62%) saved against dedicated only, goodput 98.1%`.

    Unknown parts are left out.
    """
    ledger, expected = job.status.ledger, job.status.forecast.cost
    parts = [f"{formats.money(ledger.spent)} spent"] if ledger.spent else []
    if expected:
        parts.append(f"{formats.money(expected)} expected in the end")
    if against := saved(ledger):
        parts.append(against)
    if (goodput := formats.number(ledger.goodput)) is not None:
        parts.append(f"goodput {goodput:.1%}")
    return ", ".join(parts)


def saved(ledger: Ledger) -> str:
    """`688.10 (62%) saved against dedicated only`, or how much more was spent; empty if unknown."""
    if not ledger.spent or (amount := formats.decimal(ledger.saved_versus_dedicated)) is None:
        return ""
    share = amount / (ledger.spent + amount) if amount >= 0 else 0
    word = f"({share:.0%}) saved against" if amount >= 0 else "more than on"
    return f"{formats.money(abs(amount))} {word} dedicated only"


def recovery(parts: Recovery, *, counted: bool = True) -> str:
    """`recovery: 12s notice, 3m05s acquire, 40s start, 31s restore; 15s of training done twice`.

    `counted`: it is known what was done twice.
    """
    named = (
        (parts.notice, "notice"),
        (parts.acquire, "acquire"),
        (parts.start, "start"),
        (parts.restore, "restore"),
    )
    spans = ", ".join(f"{formats.exact(span)} {name}" for span, name in named)
    return f"recovery: {spans}" + (f"; {formats.exact(parts.replay)} of training done twice" if counted else "")


def _table(job: TrainingJob) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("TIER", "ATTEMPTS", "NODE HOURS", "SPENT", "STEPS", "DONE TWICE"):
        table.add_column(header, justify="left" if header == "TIER" else "right", no_wrap=True)
    for one in job.status.ledger.by_tier:
        guess = " (partly estimated)" if one.estimated else ""
        table.add_row(
            one.tier + guess,
            str(one.attempts),
            f"{one.node_hours:,.3f}",
            formats.money(one.spent),
            formats.count(one.steps),
            formats.count(one.steps_lost) if counts_steps(job.status) else formats.NOTHING,
        )
    return table
