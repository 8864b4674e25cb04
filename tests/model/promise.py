"""The promise of the Deadline rule, tested with many drawn jobs: the deadline is met, with any behaviour of Spot.

    python -m tests.model.promise --jobs 10000 [--seed 1] [--traces DIR] [--decide]

asks the rule in the small economy or, with --decide, lets the code that ships decide in the virtual cluster. It prints,
for each kind of market, how many jobs ran, how many were late, and the least time that any had left. It ends with 1 if
one was late, and says how to run that one alone. tests/model/test_promise.py runs some hundreds of them.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from math import exp, gcd, inf, log
from pathlib import Path
from random import Random

from holdfast.core.capacity.deadline import deadline
from holdfast.core.capacity.policy_input import Choice, View
from holdfast_cli.simulate.climate import Climate
from holdfast_cli.simulate.machines import Watched
from holdfast_cli.simulate.traces import Trace, read_traces
from holdfast_research import trial
from holdfast_research.economy import Market, Outcome, Setting, playback, run
from holdfast_research.steps import at_gap, longest_step
from holdfast_research.synthetic import comb, siren, sniper, weather, zones

GAP = 600
HOUR = 3600.0
SHORTEST, LONGEST = 6 * HOUR, 21 * 24 * HOUR  # of the work
LOADS = (0.6, 0.95)
RATIOS = (130, 500)  # hundredths of the price of Spot
MAX_ZONES = 4


class Spy:
    """Markets that read the rule's mind: they see each view that it gets.

    Spot is there while the job is not on it. It goes, in all zones at once, when that hurts most: when what is left
    beyond the work is within `brink` seconds of what the net keeps; else, with `greedy`, as soon as an interruption
    costs all the work that it can. It stays away for `out` steps.
    """

    def __init__(self, setting: Setting, *, brink: float, out: int, greedy: bool) -> None:
        self.setting, self.brink, self.out, self.greedy = setting, brink, out, greedy
        self.view: View | None = None
        self.useful = 0.0
        self.gone = 0

    def rule(self, view: View) -> Choice:
        """The Deadline rule; its input is kept in `view`."""
        self.view = view
        here = view.here
        on_spot = here is not None and not here.dependable
        self.useful = self.useful + view.step if on_spot and view.changing < view.step else 0.0
        return deadline(view)

    def markets(self, count: int) -> list[Market]:
        """`count` zones that do the same. Each is asked once for each step, and the first decides for all."""
        return [self._first, *[lambda _step, _watched: self.gone == 0] * (count - 1)]

    def _first(self, _step: int, _watched: Watched) -> bool:
        if self.gone:
            self.gone -= 1
        elif self._strikes():
            self.gone = self.out
        return self.gone == 0

    def _strikes(self) -> bool:
        view = self.view
        if view is None or view.here is None or view.here.dependable:
            return False
        spare = view.left - view.work - view.changing - (self.setting.worst or 0.0) - view.at_risk
        return spare < self.brink or (self.greedy and self.useful > view.at_risk)


@dataclass(frozen=True, slots=True)
class Case:
    """A job and its markets. `kind` says which; running it again needs `draw` again, since hostile markets remember."""

    kind: str
    setting: Setting
    markets: list[Market]
    rule: Callable[[View], Choice] = deadline


@dataclass(slots=True)
class Tally:
    """What came of the jobs of one kind. `closest` is the least time left at an end, in seconds; negative: late."""

    jobs: int = 0
    interruptions: int = 0
    closest: float = inf
    late: list[int] = field(default_factory=list)


def draw(seed: int, recorded: Sequence[Trace] = ()) -> Case:
    """The job of a seed; always the same. With `recorded` traces, every seventh runs on them."""
    random = Random(f"promise {seed}")
    setting = _setting(random)
    kinds = [_weather, _region, _snipers, _sirens, _combs, _spy]
    if recorded:
        kinds.append(partial(_recorded, recorded))
    return kinds[seed % len(kinds)](random, setting)


def _setting(random: Random) -> Setting:
    """A job that dedicated alone finishes in time, even at the worst changeover."""
    worst = random.choice([120.0, 600.0, 1200.0])  # one of them far below a step, during which the rule is not asked
    lost = random.choice([0.0, 600.0])
    while True:
        work = exp(random.uniform(log(SHORTEST), log(LONGEST)))
        total = work / random.uniform(*LOADS)
        if total - work >= worst:
            break
    shares = random.choice([[1.0], [random.random() for _ in range(7)]])  # of the worst, what a changeover takes
    return Setting(
        work=work,
        deadline=total,
        changeover=lambda move: worst * shares[move % len(shares)],
        gap=GAP,
        dedicated_price=Decimal(random.randint(*RATIOS)) / 100,
        typical=worst * random.choice([0.5, 1.0]),
        worst=worst,
        lost=lost,
        billed_probe=random.random() < 0.25,
    )


def _steps(setting: Setting) -> int:
    return int(setting.deadline // setting.gap) + 1


def _case(kind: str, setting: Setting, markets: list[Market], rule: Callable[[View], Choice] = deadline) -> Case:
    return Case(kind, replace(setting, spot_prices=(Decimal(1),) * len(markets)), markets, rule)


def _climate(random: Random) -> Climate:
    weights = [0.3, 0.7, 1.0, 1.5, 3.0]
    return Climate(random.choice(weights), random.choice(weights), swing=random.choice([0.0, 0.4]))


def _weather(random: Random, setting: Setting) -> Case:
    made = [weather(random.random().hex(), _steps(setting), _climate(random)) for _ in range(random.randint(1, 2))]
    return _case("weather", setting, [playback(trace) for trace in made])


def _region(random: Random, setting: Setting) -> Case:
    made = zones(random.random().hex(), _steps(setting), random.randint(2, MAX_ZONES), climate=_climate(random))
    return _case("zones of one region", setting, [playback(trace) for trace in made])


def _snipers(random: Random, setting: Setting) -> Case:
    """Spot that dies right after every changeover, or when an interruption costs most."""
    useful = random.choice([0.0, setting.lost, 2 * GAP])
    return _case(
        "dies after every changeover",
        setting,
        [sniper(useful, random.randint(0, 40)) for _ in range(random.randint(1, MAX_ZONES))],
    )


def _sirens(random: Random, setting: Setting) -> Case:
    made = [siren(random.randint(0, 8), random.randint(0, 40)) for _ in range(random.randint(1, MAX_ZONES))]
    return _case("up until the job comes", setting, made)


def _combs(random: Random, setting: Setting) -> Case:
    count, steps = random.randint(1, MAX_ZONES), _steps(setting)
    drawn = [[random.randint(*bounds) for bounds in ((1, 12), (1, 12), (0, 20))] for _ in range(count)]
    return _case("comes and goes", setting, [playback(comb(steps, up, out, first=first)) for up, out, first in drawn])


def _spy(random: Random, setting: Setting) -> Case:
    spy = Spy(
        setting,
        brink=random.choice([0.0, GAP, 2 * GAP, HOUR]),
        out=random.randint(1, 40),
        greedy=random.random() < 0.5,
    )
    return _case("knows the slack", setting, spy.markets(random.randint(1, MAX_ZONES)), spy.rule)


def _recorded(recorded: Sequence[Trace], random: Random, setting: Setting) -> Case:
    """One trace or several, from a step of its own each; where they end, Spot is out."""
    chosen = random.sample(list(recorded), random.randint(1, min(MAX_ZONES, len(recorded))))
    gap = gcd(GAP, *map(longest_step, chosen))
    fine = [at_gap(trace, gap) for trace in chosen]
    made = [playback(trace, random.randrange(len(trace))) for trace in fine]
    return _case("recorded", replace(setting, gap=gap), made)


def hold(case: Case) -> tuple[Outcome, float]:
    """Run a case: what came of it, and the seconds that were left at its end."""
    outcome = run(case.rule, case.markets, case.setting)
    return outcome, case.setting.deadline - outcome.finished


def decided(case: Case) -> tuple[Outcome, float]:
    """The same in the virtual cluster, by the code that ships. A start takes the worst; nobody reads its mind there."""
    drawn = case.setting
    whole = {"work": float(int(drawn.work)), "deadline": float(int(drawn.deadline)), "changeover": drawn.worst or 0.0}
    outcome = trial.run(replace(drawn, typical=None, worst=None, **whole), case.markets, trial.OWN["deadline"])
    return outcome, whole["deadline"] + trial.ALLOWANCE.total_seconds() - outcome.finished


def main(arguments: Sequence[str] | None = None) -> int:
    """Run many, print a table; 1 if a job was late."""
    options = _parse(arguments)
    recorded = read_traces([options.traces]) if options.traces else ()
    tallies: dict[str, Tally] = {}
    for seed in range(options.seed, options.seed + options.jobs):
        case = draw(seed, recorded)
        outcome, left = decided(case) if options.decide else hold(case)
        tally = tallies.setdefault(case.kind, Tally())
        tally.jobs += 1
        tally.interruptions += outcome.interruptions
        tally.closest = min(tally.closest, left)
        if outcome.missed:
            tally.late.append(seed)
    sys.stdout.write(table(tallies))
    late = [seed for tally in tallies.values() for seed in tally.late]
    for seed in late[:20]:
        traces = f" --traces {options.traces}" if options.traces else ""
        traces += " --decide" if options.decide else ""
        sys.stdout.write(f"late: python -m tests.model.promise --jobs 1 --seed {seed}{traces}\n")
    return 1 if late else 0


def table(tallies: dict[str, Tally]) -> str:
    """What came of all of them, as lines of text."""
    rows = [("market", "jobs", "late", "interruptions of Spot", "least time left")]
    for kind, tally in sorted(tallies.items()):
        least = f"{tally.closest:,.1f} s"
        rows.append((kind, f"{tally.jobs:,}", str(len(tally.late)), f"{tally.interruptions:,}", least))
    late = sum(len(tally.late) for tally in tallies.values())
    jobs, interruptions = (
        sum(getattr(tally, name) for tally in tallies.values()) for name in ("jobs", "interruptions")
    )
    rows.append(("all", f"{jobs:,}", str(late), f"{interruptions:,}", ""))
    return "".join(f"{kind:28}" + "".join(f"{cell:>16}" for cell in cells) + "\n" for kind, *cells in rows)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.model.promise", description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--seed", type=int, default=1, help="the first; one job for each number from it on (1)")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="recorded traces; one job in seven runs on them")
    parser.add_argument("--decide", action="store_true", help="in the virtual cluster, by the code that ships")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
