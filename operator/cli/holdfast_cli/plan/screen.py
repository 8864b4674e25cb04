"""The result of `holdfast plan` on a terminal."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast_cli.plan.comparison import Comparison
from holdfast_cli.plan.inputs import Fact
from holdfast_cli.simulate.plan import LIMIT, Lease, Row
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting

COLUMNS = (
    Column("POLICY"),
    Column("DEADLINE", rank=3),
    Column("FINISH", right=True),
    Column("P95", rank=5, right=True),
    Column("COST", right=True),
    Column("P95", rank=4, right=True),
    Column("INTERRUPTIONS", rank=2, right=True),
    Column("LATE", rank=1, right=True),
)
OVER = Column("OVER BUDGET", rank=1, right=True)


def show(found: Comparison, out: Console) -> None:
    """Print the table of a job, and below it what the table rests on."""
    out.print(Text(f"{title(found)}\n"))
    out.print(Fitting(_columns(found), [[Text(cell) for cell in line] for line in lines(found)]))
    out.print()
    for line in lease_words(found):
        out.print(line)
    facts = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="what this rests on", title_justify="left")
    for header in ("FIGURE", "TIER", "VALUE", "FROM"):
        facts.add_column(header)
    for fact in grouped(found.facts):
        source = Text(fact.source, style="yellow" if fact.assumed else "")
        facts.add_row(fact.what, fact.tier or formats.NOTHING, fact.value, source)
    out.print(facts)
    for hint in found.hints:
        out.print(hint)


def title(found: Comparison) -> str:
    """What was planned, in words."""
    nodes = "" if found.nodes == 1 else f" on {found.nodes} nodes"
    draws = "1 draw of the markets" if found.draws == 1 else f"{found.draws} draws of the markets"
    return f"{found.job}: {found.steps:,} steps{nodes}, {draws}"


def headers(found: Comparison) -> tuple[str, ...]:
    """The heads of the columns."""
    return tuple(column.title for column in _columns(found))


def _columns(found: Comparison) -> tuple[Column, ...]:
    return COLUMNS if found.budget is None else (*COLUMNS, OVER)


def lines(found: Comparison) -> list[tuple[str, ...]]:
    """The cells of the table, one line for each way."""
    wide = len(headers(found))
    rows = [_line(row)[:wide] for row in found.rows]
    return [*rows, *((*_lease_line(one), *[formats.NOTHING] * (wide - len(COLUMNS))) for one in found.leases)]


def lease_words(found: Comparison) -> list[str]:
    """What a month costs beside hours, in words."""
    return [
        f"{one.tier}: {formats.money(one.monthly)} a month is the price of {one.hours:,.0f} hours; a lease is cheaper "
        f"where a node is used for more than {one.share:.0%} of the month"
        for one in found.leases
    ]


def grouped(facts: Sequence[Fact]) -> list[Fact]:
    """The facts, with tiers of the same figure and source in one line."""
    merged: dict[tuple[str, str, str, bool], list[str]] = {}
    for fact in facts:
        merged.setdefault((fact.what, fact.value, fact.source, fact.assumed), []).append(fact.tier)
    found = [Fact(key[0], ", ".join(filter(None, tiers)), *key[1:]) for key, tiers in merged.items()]
    order = list(dict.fromkeys(fact.what for fact in facts))
    return sorted(found, key=lambda fact: order.index(fact.what))


def name(row: Row) -> str:
    """The name of the way."""
    return f"only {row.way.only}" if row.way.only else row.way.policy


def _line(row: Row) -> tuple[str, ...]:
    return (
        name(row),
        formats.NOTHING if row.deadline is None else formats.span(row.deadline).removesuffix("0h"),
        _time(row.finish),
        _time(row.finish_p95) if row.draws > 1 else formats.NOTHING,
        _money(row.cost),
        _money(row.cost_p95) if row.draws > 1 else formats.NOTHING,
        f"{row.interruptions:.1f}",
        _share(row.late),
        _share(row.over_budget),
    )


def _lease_line(one: Lease) -> tuple[str, ...]:
    nothing = formats.NOTHING
    finish, cost = formats.span(one.took), formats.money(one.cost)
    return (f"{one.tier} by the month", nothing, finish, nothing, cost, nothing, nothing, nothing)


def _time(value: timedelta | None) -> str:
    return f"over {LIMIT.days}d" if value is None else formats.span(value)


def _money(value: Decimal | None) -> str:
    return formats.NOTHING if value is None else formats.money(value)


def _share(value: float | None) -> str:
    return formats.NOTHING if value is None else f"{value:.0%}"
