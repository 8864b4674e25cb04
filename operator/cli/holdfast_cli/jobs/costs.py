"""The cost of a job for people: money by tier, and the time lost to interruptions by its parts."""

from decimal import Decimal
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from holdfast.api.attempt import Recovery
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Ledger
from holdfast.core.books.ledger import counts_steps
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting

_COLUMNS = (
    Column("TIER"),
    Column("ATTEMPTS", right=True),
    Column("NODE HOURS", right=True),
    Column("SPENT", right=True),
    Column("STEPS", right=True),
    Column("DONE TWICE", right=True),
)


def costs(job: TrainingJob) -> RenderableType | None:
    """A sentence, a table of ended attempts by tier, and where time was lost; None before there are any costs."""
    ledger = job.status.ledger
    lines: list[RenderableType] = [Text(text)] if (text := sentence(job)) else []
    if ledger.by_tier:
        lines.append(table(job))
    if ledger.seconds_lost or ledger.recovery.replay:
        lines.append(Text(recovery(ledger.recovery, counted=counts_steps(job.status))))
    return Group(*lines) if lines else None


def sentence(job: TrainingJob) -> str:
    """`412.30 spent, 465.60 expected in the end, 688.10 (62%) saved against dedicated only, goodput 98.1%`.

    Unknown parts are left out.
    """
    ledger, expected = job.status.ledger, job.status.forecast.cost
    parts = [words] if (words := spent_words(ledger.spent, None)) else []
    if expected:
        parts.append(f"{formats.money(expected)} expected in the end")
    if against := saving(ledger):
        parts.append(str(against))
    if (goodput := formats.number(ledger.goodput)) is not None:
        parts.append(f"goodput {goodput:.1%}")
    return ", ".join(parts)


def spent_words(spent: Decimal, budget: Decimal | None) -> str:
    """`4.10 of 50.00 spent`, or `4.10 spent` without a budget; empty if nothing is spent, and no budget set."""
    if budget is not None:
        return f"{formats.money(spent)} of {formats.money(budget)} spent"
    return f"{formats.money(spent)} spent" if spent else ""


class Saving(NamedTuple):
    """Money that was saved, and the share of what dedicated nodes alone had cost; below 0: so much more was spent."""

    amount: Decimal
    share: Decimal

    def __str__(self) -> str:
        """`688.10 (62%) saved against dedicated only`."""
        share = f" ({self.share:.0%}) saved against" if self.amount >= 0 else " more than on"
        return f"{formats.money(abs(self.amount))}{share} dedicated only"


def saving(ledger: Ledger) -> Saving | None:
    """What was saved against dedicated nodes; None if it is not known."""
    if not ledger.spent or (amount := formats.decimal(ledger.saved_versus_dedicated)) is None:
        return None
    return Saving(amount, amount / (ledger.spent + amount) if amount >= 0 else Decimal(0))


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


def table(job: TrainingJob) -> Fitting:
    """The totals of the attempts that have ended, a row for each tier."""
    counted = counts_steps(job.status)
    rows = []
    for one in job.status.ledger.by_tier:
        guess = " (partly estimated)" if one.estimated else ""
        cells = [
            one.tier + guess,
            str(one.attempts),
            f"{one.node_hours:,.3f}",
            formats.money(one.spent),
            formats.count(one.steps_trained),
            formats.count(one.steps_lost) if counted else formats.NOTHING,
        ]
        rows.append([Text(cell) for cell in cells])
    return Fitting(_COLUMNS, rows)
