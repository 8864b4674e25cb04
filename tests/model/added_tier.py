"""What one more tier in the grid does to the cost of a job under the Deadline rule: it must not make the job expensive.

    python -m tests.model.added_tier --markets 200 [--seed 1] [--traces DIR] [--changeover 1200]

Each market has a Spot tier at 1 and a dedicated tier at 3, both of speed 1. Each job runs there, and again in the same
market with one more tier. The program prints for each added tier and each load the mean cost divided by the mean cost
without the tier, and how many jobs were late. It ends with 1 if a mean cost rose by more than 2%, or if a job was late.
tests/model/test_added_tier.py runs a small part.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from random import Random
from statistics import mean
from typing import Literal

from holdfast.core.capacity.deadline import deadline
from holdfast.core.capacity.policy_input import Rule
from holdfast_cli.simulate.climate import Climate
from holdfast_cli.simulate.traces import Trace, read_traces
from holdfast_research.economy import Outcome, Setting, Steady, playback, run
from holdfast_research.synthetic import weather

HOUR, GAP = 3600.0, 600
WORK = 48 * HOUR
LOADS = (0.3, 0.4, 0.5, 0.6, 0.75, 0.85, 0.92)
LIMIT = 1.02


@dataclass(frozen=True, slots=True)
class Added:
    """One more tier: price of an hour, and speed."""

    kind: Literal["Spot", "Dedicated", "CPU"]
    price: str
    speed: float


TIERS = {
    "slow cheap Spot (T4)": Added("Spot", "0.19", 0.4),
    "half as fast Spot": Added("Spot", "0.4", 0.5),
    "half as fast expensive Spot": Added("Spot", "0.9", 0.5),
    "very slow cheap Spot": Added("Spot", "0.01", 0.05),
    "the same Spot again": Added("Spot", "1", 1.0),
    "expensive Spot": Added("Spot", "2.3", 1.0),
    "very expensive Spot": Added("Spot", "2.9", 1.0),
    "fast Spot": Added("Spot", "2.5", 2.0),
    "fast expensive Spot": Added("Spot", "5", 2.0),
    "half as fast dedicated": Added("Dedicated", "1.2", 0.5),
    "a little slower dedicated": Added("Dedicated", "2.2", 0.9),
    "fast expensive dedicated": Added("Dedicated", "8", 2.0),
    "very fast very expensive dedicated": Added("Dedicated", "18", 3.0),
    "CPU": Added("CPU", "0.1", 0.02),
    "free CPU": Added("CPU", "0", 0.05),
}

Result = dict[tuple[str, float], list[Outcome]]
"""Outcomes by name of the added tier ("" without one) and load. The markets come in the same order for all tiers."""


@dataclass(frozen=True, slots=True)
class Market:
    """Where the Spot tier of a job and an added Spot tier are up, from step `start` on."""

    spot: Trace
    other: Trace
    start: int = 0


def drawn(seed: int, steps: int) -> Market:
    """The market of a seed: two Spot tiers, each with its own weather."""
    random = Random(f"added {seed}")
    climates = [Climate(*random.choices([0.5, 0.7, 1.0, 1.5], k=2)) for _ in range(2)]
    spot, other = (weather(f"added {seed} {number}", steps, climate) for number, climate in enumerate(climates))
    return Market(spot, other)


def recorded(traces: Sequence[Trace], seed: int, steps: int) -> Market | None:
    """Two of the recorded traces from a step on; None if they are too short."""
    random = Random(f"added {seed}")
    spot, other = random.sample(list(traces), 2)
    last = min(len(spot), len(other)) - steps
    return Market(spot, other, random.randint(0, last)) if last >= 0 else None


def measure(
    find: Callable[[int, int], Market | None],
    seeds: Iterable[int],
    *,
    tiers: Iterable[str] = tuple(TIERS),
    loads: Sequence[float] = LOADS,
    changeover: float = 1200.0,
    work: float = WORK,
    rule: Rule = deadline,
) -> Result:
    """Run every job without and with each tier; `find` gives the market of a seed for a number of steps."""
    found: Result = {}
    for seed in seeds:
        for load in loads:
            market = find(seed, int(work / load // GAP) + 2)
            if market is None:
                continue
            setting = Setting(work, work / load, changeover, gap=GAP)
            for name in ("", *tiers):
                found.setdefault((name, load), []).append(_run(market, _with(setting, name), rule))
    return found


def _with(setting: Setting, name: str) -> Setting:
    if not name:
        return setting
    added = TIERS[name]
    if added.kind == "Spot":
        return replace(setting, spot_prices=(Decimal(1), Decimal(added.price)), spot_speeds=(1.0, added.speed))
    return replace(setting, steady=(Steady("added", Decimal(added.price), added.speed, added.kind),))


def _run(market: Market, setting: Setting, rule: Rule) -> Outcome:
    traces = [market.spot, market.other][: len(setting.spot_prices)]
    return run(rule, [playback(trace, market.start) for trace in traces], setting)


def ratio(found: Result, name: str, load: float) -> float:
    """The mean cost with the tier, divided by the mean cost without it."""
    return mean(one.cost for one in found[name, load]) / mean(one.cost for one in found["", load])


def late(found: Result) -> int:
    """How many jobs were late."""
    return sum(one.missed for outcomes in found.values() for one in outcomes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs and print a table; 1 if a tier made the jobs more expensive, or a job was late."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.added_tier", description=__doc__.split("\n")[0])
    parser.add_argument("--markets", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=1, help="the first; one market for each number from it on (1)")
    parser.add_argument("--changeover", type=float, default=1200.0, help="seconds that each start wastes (1200)")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="use these recorded traces, not drawn markets")
    parser.add_argument("--tiers", help="names of added tiers, with commas (all)")
    options = parser.parse_args(arguments)
    traces = read_traces([options.traces]) if options.traces else ()
    names = options.tiers.split(",") if options.tiers else list(TIERS)
    seeds = range(options.seed, options.seed + options.markets)
    find = (lambda seed, steps: recorded(traces, seed, steps)) if traces else drawn
    found = measure(find, seeds, tiers=names, changeover=options.changeover)
    loads = sorted({load for _, load in found})
    sys.stdout.write(f"{'load':36}{''.join(f'{load:8g}' for load in loads)}\n")
    for name in names:
        sys.stdout.write(f"{name:36}{''.join(f'{ratio(found, name, load):8.3f}' for load in loads)}\n")
    worst = max(ratio(found, name, load) for name in names for load in loads)
    sys.stdout.write(f"{len(found['', loads[0]])} jobs for each load; highest {worst:.3f}; late: {late(found)}\n")
    return int(worst > LIMIT or late(found) > 0)


if __name__ == "__main__":
    sys.exit(main())
