"""The result of `holdfast probe` on a terminal."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from rich.console import Console
from rich.text import Text

from holdfast_cli.jobs.feed import DATA_WAIT, in_words, is_much
from holdfast_cli.probe.measure import Outcome, Pace, Result, Scaling
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_train.exchange.progress_bar import format_size

COLUMNS: Final = (
    Column("TIER"),
    Column("ACCELERATORS", rank=4, right=True),
    Column("ACQUIRE", rank=5, right=True),
    Column("START", rank=5, right=True),
    Column("PACE", right=True),
    Column("SAMPLES/S", rank=2, right=True),
    Column("1M STEPS", rank=1, right=True),
    Column("1M SAMPLES", rank=3, right=True),
    Column("PEAK MEMORY", rank=6, right=True),
    Column("DATA WAIT", rank=6, right=True),
    Column("RESULT", loose=True),
)
_ALWAYS: Final = ("TIER", "PACE", "RESULT")
_WORDS: Final = {
    Outcome.MEASURED: "measured",
    Outcome.NO_NODE: "no node",
    Outcome.NOT_SEEN: "no operator",
    Outcome.FAILED: "failed",
    Outcome.NOT_DONE: "not done",
    Outcome.GONE: "deleted",
}


def show(job: str, steps: int, results: Sequence[Result], scalings: Sequence[Scaling], out: Console) -> None:
    """Print the table, and below it what needs words."""
    out.print(Text(f"{job}: {formats.count(steps)} steps on each tier\n"))
    out.print(table(results))
    for line in (*words(results), *map(scaling_words, scalings)):
        out.print(Text(f"\n{line}"), soft_wrap=True)


def table(results: Sequence[Result]) -> Fitting:
    """A row for each probe. A column that no probe has a value for is left out."""
    rows = [_cells(one) for one in results]
    kept = [
        place
        for place, column in enumerate(COLUMNS)
        if column.title in _ALWAYS or any(row[place] != formats.NOTHING for row in rows)
    ]
    return Fitting([COLUMNS[place] for place in kept], [[Text(row[place]) for place in kept] for row in rows])


def words(results: Sequence[Result]) -> list[str]:
    """What went wrong, each in its own words; which programs wait for data; and which paces are means."""
    said = [f"{_name(one, results)}: {one.message}" for one in results if one.message]
    means = [_name(one, results) for one in results if one.pace and one.pace.kind == "mean"]
    said += [
        f"{_name(one, results)}: {in_words(DATA_WAIT, one.data_wait)}"
        for one in results
        if one.data_wait is not None and is_much(DATA_WAIT, one.data_wait)
    ]
    if means:
        said.append(f"{', '.join(means)}: the pace is the mean of all steps after the first, saves included")
    return said


def scaling_words(one: Scaling) -> str:
    """`h100: 4 accelerators do 3.61 times the samples of 1 (90% of the ideal)`."""
    what = "samples" if one.by == "samples" else "steps"
    return (
        f"{one.tier}: {one.accelerators} accelerators do {one.speedup:.2f} times the {what} of {one.base} "
        f"({one.efficiency:.0%} of the ideal)"
    )


def _name(one: Result, results: Sequence[Result]) -> str:
    """The tier, and the number of accelerators if there are several probes of it."""
    several = sum(other.tier == one.tier for other in results) > 1
    return f"{one.tier} with {one.accelerators}" if several else one.tier


def _cells(one: Result) -> list[str]:
    nothing = formats.NOTHING
    return [
        one.tier,
        str(one.accelerators) if one.accelerators else nothing,
        nothing if one.acquire is None else formats.exact(one.acquire),
        nothing if one.start is None else formats.exact(one.start),
        _pace(one.pace),
        nothing if one.samples_per_second is None else f"{one.samples_per_second:,.1f}",
        _money(one.cost_of_million_steps),
        _money(one.cost_of_million_samples),
        nothing if one.peak_memory is None else format_size(one.peak_memory),
        nothing if one.data_wait is None else f"{one.data_wait:.0%}",
        _WORDS[one.outcome],
    ]


def _pace(pace: Pace | None) -> str:
    """`53.22ms`, `12.34s`."""
    if pace is None:
        return formats.NOTHING
    return f"{pace.seconds:,.4g}s" if pace.seconds >= 1 else f"{pace.seconds * 1000:.4g}ms"


def _money(value: Decimal | None) -> str:
    return formats.NOTHING if value is None else formats.money(value)
