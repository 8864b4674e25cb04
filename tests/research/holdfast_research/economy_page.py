"""Simulate the capacity policies on Spot markets, and write the results into docs/reference/economy.md and its images.

    python -m holdfast_research.economy_page                 on generated markets
    python -m holdfast_research.economy_page --traces DIR    on the traces in DIR too

The text of the page is written by hand. This script replaces only what is between a pair of its comments `<!-- begin
NAME -->` and `<!-- end NAME -->`: the results of the markets that it has simulated. The same markets give the same
page. It takes minutes.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast_cli.simulate.traces import Trace, read_traces
from holdfast_research.plot import plot
from holdfast_research.study import Row, Study, Summary, simulate, summarize
from holdfast_research.synthetic import made_up

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "economy.md"
SEED = 1
WINDOWS = 24  # jobs per market and load under the usual terms
OTHER_WINDOWS = 6  # jobs per market and load under each of the other terms
# POLICIES: rows of the first table. COLUMNS: by load and under other terms. deadline-rule is the rule of policy
# Deadline alone, in the small economy.
POLICIES = ("deadline", "cheapest", "ordered-slack", "uniform-progress", "greedy", "eager", "never-return")
COLUMNS = ("deadline", "uniform-progress", "greedy", "eager", "never-return", "deadline-rule")

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Markets:
    """Spot markets: `apart` has one group per trace, `together` has groups of traces that a job may use together."""

    name: str
    description: str
    apart: Sequence[tuple[Trace, ...]]
    together: Sequence[tuple[Trace, ...]]


@dataclass(frozen=True, slots=True)
class Terms:
    """What differs from the usual terms: fields of a Study. With `together`, each job may use every zone."""

    description: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    together: bool = False

    def change(self, study: Study, markets: Markets) -> Study:
        """The study under these terms."""
        return replace(study, markets=markets.together if self.together else markets.apart, **self.changes)


OTHERS = (
    Terms("changeovers of 10m", {"changeover": timedelta(minutes=10)}),
    Terms("changeovers of 40m", {"changeover": timedelta(minutes=40)}),
    Terms("interruptions that cost 10m of work", {"lost_work": timedelta(minutes=10)}),
    Terms("12h of work", {"work": timedelta(hours=12)}),
    Terms("dedicated at 1.5 times the price", {"ratio": Decimal("1.5")}),
    Terms("dedicated at 5 times the price", {"ratio": Decimal(5)}),
    Terms("watching billed", {"billed": True}),
    Terms("every zone for each job", together=True),
)


def synthetic() -> Markets:
    """Generated markets, the same on every machine."""
    apart = made_up(SEED)
    days = len(apart[0][0]) * apart[0][0].gap / 86_400
    description = f"{len(apart)} made-up markets of {days:g} days each (seed {SEED})"
    return Markets("synthetic", description, apart, made_up(SEED, together=True))


def recorded(folder: Path) -> Markets:
    """The traces in a folder. Raises TraceError."""
    traces = read_traces([folder])
    days = sum(len(trace) * trace.gap for trace in traces) / len(traces) / 86_400
    description = (
        f"{len(traces)} traces of {days:.0f} days each on average ({', '.join(trace.name for trace in traces)})"
    )
    return Markets("recorded", description, [(trace,) for trace in traces], [traces])


def figures(markets: Markets, windows: int, others: int, page: Path, say: Say, *, workers: int = 1) -> str:
    """Simulate on these markets and draw the picture. Returns the Markdown for the page."""
    ran = list(dict.fromkeys((*POLICIES, *COLUMNS)))
    study = Study(markets=markets.apart, policies=ran, windows=windows, seed=SEED)
    everything = _rows(study, say, f"{markets.name}: {study.terms}", workers)
    rows = [row for row in everything if row.policy in POLICIES]
    jobs = len(rows) // len(POLICIES)
    picture = page.parent / "images" / f"economy-{markets.name}.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    plot(rows, picture, f"{jobs:,} jobs, {markets.name} markets: {study.terms}")
    promised = [row for row in everything if row.policy in COLUMNS]
    lines = []
    for terms in OTHERS if others else ():
        changed = replace(terms.change(study, markets), windows=others, policies=list(COLUMNS))
        found = _rows(changed, say, f"{markets.name}: {terms.description}", workers)
        promised += found
        lines.append(_line(f"{terms.description} ({len(found) // len(COLUMNS):,})", summarize(found)))
    late = sum(row.missed for row in promised)
    loads = ", ".join(f"{load:g}" for load in study.loads)
    parts = [
        f"![Cost over the cheapest, {markets.name} markets](images/{picture.name})",
        f"{markets.description[0].upper()}{markets.description[1:]}; {windows} jobs per market and load ({loads}): "
        f"{jobs:,} jobs under each policy. Each job: {study.terms}. {_best(summarize(rows))}",
        _table(("policy", "mean", "median", "p95", "late", "moves a day"), map(_policy, summarize(everything))),
        "Mean / p95 by load, and under other terms (the number of jobs in brackets):",
        _table(("", *(f"`{name}`" for name in COLUMNS)), [*_by_load(everything), *lines]),
        f"Late, of those that keep the deadline: {late} of {len(promised):,} runs.",
    ]
    return "\n\n".join(parts)


def put(page: str, name: str, text: str) -> str:
    """The page with `text` between its comments of this name. Raises ValueError if it has no such pair."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page must have {begin} and {end} once")
    return pattern.sub(lambda _found: f"{begin}\n\n{text}\n\n{end}", page)


def _rows(study: Study, say: Say, what: str, workers: int) -> list[Row]:
    say(what)
    return [row for job in simulate(study, workers) for row in job]


def _best(found: Sequence[Summary]) -> str:
    """The policy with the lowest mean cost, and the next one, in words."""
    first, second, *_ = sorted(found, key=lambda one: one.mean)
    return (
        f"Closest to the lowest cost is `{first.policy}`, {(first.mean - 1) * 100:.1f}% above it on average; "
        f"next is `{second.policy}`, {(second.mean - 1) * 100:.1f}% above it."
    )


def _policy(one: Summary) -> tuple[str, ...]:
    return (
        f"`{one.policy}`",
        f"{one.mean:.3f}",
        f"{one.median:.3f}",
        f"{one.p95:.3f}",
        str(one.missed),
        f"{one.moves_per_day:.1f}",
    )


def _by_load(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    loads = sorted({row.load for row in rows})
    by_name = {name: [row for row in rows if row.policy == name] for name in COLUMNS}
    groups = [[row for name in COLUMNS for row in by_name[name] if row.load == load] for load in loads]
    return [
        _line(f"load {load:g} ({len(group) // len(COLUMNS):,})", summarize(group))
        for load, group in zip(loads, groups, strict=True)
    ]


def _line(description: str, found: Sequence[Summary]) -> tuple[str, ...]:
    return (description, *(f"{one.mean:.3f} / {one.p95:.2f}" for one in found))


def _table(head: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    ruler = ("---", *["---:"] * (len(head) - 1))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ruler, *rows))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast_research.economy_page", description="Write docs/reference/economy.md."
    )
    parser.add_argument("--traces", type=Path, metavar="DIR", help="traces, .json or .csv: simulate on them too")
    parser.add_argument("--windows", type=int, default=WINDOWS, help=f"jobs per market and load ({WINDOWS})")
    parser.add_argument("--others", type=int, default=OTHER_WINDOWS, metavar="WINDOWS",
                        help=f"jobs per market and load under other terms; 0: none ({OTHER_WINDOWS})")  # fmt: skip
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes; default: one per core")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page; pictures go into images/ beside it")
    options = parser.parse_args(arguments)
    chosen = [synthetic(), *([recorded(options.traces)] if options.traces else [])]
    for markets in chosen:
        put(options.page.read_text(encoding="utf-8"), markets.name, "")  # fails before the long simulation
    for markets in chosen:
        made = figures(markets, options.windows, options.others, options.page, _say, workers=options.workers)
        page = options.page.read_text(encoding="utf-8")  # the page may have changed in the meantime
        options.page.write_text(put(page, markets.name, made), encoding="utf-8")
    sys.stdout.write(f"wrote {options.page}\n")


if __name__ == "__main__":
    main()
