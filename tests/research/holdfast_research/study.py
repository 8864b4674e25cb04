"""Many jobs on many traces, under several policies, each beside the lowest possible cost.

Under a policy of Holdfast, a job runs in a virtual cluster, and the code that ships decides (see trial.py). A rule of
another system is asked at every step of a small economy (see economy.py). Both bill in the same way.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from math import gcd
from multiprocessing import get_context
from random import Random
from statistics import mean, median
from typing import Final

from holdfast.api.scalars import format_duration
from holdfast.core.capacity.deadline import deadline as deadline_rule
from holdfast.core.capacity.policy_input import Rule
from holdfast_cli.simulate.plan import START
from holdfast_cli.simulate.traces import Trace
from holdfast_research import baselines, trial
from holdfast_research.economy import Setting, playback, run
from holdfast_research.errors import StudyError
from holdfast_research.omniscient import Window, optimum
from holdfast_research.steps import at_gap, longest_step
from holdfast_research.trial import OWN

DAY = 86_400
MINUTE = timedelta(minutes=1)
MAX_STEPS = 20_000  # of one job

Policy = Callable[[float, float], Rule]
"""Makes a rule from the work and the time to the deadline, both in seconds."""

RULES: Final[dict[str, Policy]] = {
    "uniform-progress": baselines.uniform_progress,
    "greedy": lambda _work, _total: baselines.greedy,
    "eager": lambda _work, _total: baselines.eager,
    "never-return": lambda _work, total: baselines.never_return(total),
    "deadline-rule": lambda _work, _total: deadline_rule,
}
"""Rules that are asked at every step of the economy: those of other systems, and the rule of policy Deadline alone."""
POLICIES: Final = (*OWN, *RULES)
USUAL: Final = tuple(name for name in POLICIES if name != "deadline-rule")
"""The policies of a study that names none."""


@dataclass(frozen=True, slots=True)
class Study:
    """What to simulate. `markets`: the Spot tiers that one job may use together; one tier each if jobs use only one.

    `loads` are work / time to the deadline. `ratio` is the price of dedicated / the price of Spot. `windows` is how
    many start times are drawn for each market and load. Raises StudyError.
    """

    markets: Sequence[tuple[Trace, ...]]
    policies: Sequence[str]
    work: timedelta = timedelta(hours=48)
    loads: Sequence[float] = (0.6, 0.75, 0.85, 0.92)
    changeover: timedelta = timedelta(minutes=20)
    lost_work: timedelta = timedelta(0)
    ratio: Decimal = Decimal(3)
    billed: bool = False
    windows: int = 12
    seed: int = 1

    def __post_init__(self) -> None:
        unknown = [name for name in self.policies if name not in POLICIES]
        if unknown or not self.policies:
            found = f"{unknown[0]!r} is not known" if unknown else "at least one is needed"
            raise StudyError("policies", f"{found}; known policies: {', '.join(POLICIES)}")
        bad = [load for load in self.loads if not 0 < load <= 1]
        if bad or not self.loads:
            found = f"got {bad[0]:g}" if bad else "at least one is needed"
            raise StudyError("loads", f"a load is work over the time to the deadline, above 0 and at most 1; {found}")
        if not self.ratio > 0:
            raise StudyError("ratio", f"must be above 0; got {self.ratio}")
        if self.windows < 1:
            raise StudyError("windows", f"must be 1 or more; got {self.windows}")
        for name, span in (("work", self.work), ("changeover", self.changeover), ("lost_work", self.lost_work)):
            least = MINUTE if name == "work" else timedelta(0)
            if span < least or span % MINUTE:
                raise StudyError(name, f"must be whole minutes, {least // MINUTE} or more; got {span}")
        for traces in self.markets:
            self._check_gap(traces)

    def _check_gap(self, traces: tuple[Trace, ...]) -> None:
        gap = self.gap(traces)
        for load in self.loads:
            if self.steps(load, gap) * gap < (self.work + self.changeover).total_seconds():
                raise StudyError("loads", f"{load:g} leaves no time for one changeover; use a smaller load")
        if (steps := self.work.total_seconds() / min(self.loads) / gap) > MAX_STEPS:
            raise StudyError("work", f"a job would take {steps:,.0f} steps of {gap} s; {MAX_STEPS:,} are allowed")

    def gap(self, traces: tuple[Trace, ...]) -> int:
        """Seconds of a step such that work, changeover, lost work and the steps of the traces are whole numbers of
        steps.

        A trace whose gap is not whole minutes is read in steps of a minute, or of a part of one if its gap is shorter.
        """
        spans = (self.work, self.changeover, self.lost_work)
        return gcd(*(int(span.total_seconds()) for span in spans), *map(longest_step, traces))

    def steps(self, load: float, gap: int) -> int:
        """How many steps of `gap` seconds a job of this load has until its deadline."""
        return int(self.work.total_seconds() / load // gap)

    @property
    def terms(self) -> str:
        """What all jobs have in common, in words."""
        terms = [
            f"{format_duration(self.work)} of work",
            f"dedicated at {self.ratio} times the price of spot",
            f"changeovers of {format_duration(self.changeover)}",
        ]
        if self.lost_work:
            terms.append(f"interruptions that cost {format_duration(self.lost_work)} of work")
        if self.billed:
            terms.append("watching billed")
        return ", ".join(terms)

    def __len__(self) -> int:
        """How many jobs are simulated at most."""
        return len(self.markets) * len(self.loads) * self.windows * len(self.policies)


@dataclass(frozen=True, slots=True)
class Row:
    """One job. `start` is in seconds from the beginning of the trace; costs are in hours of Spot."""

    policy: str
    trace: str
    start: int
    load: float
    cost: float
    omniscient: float
    missed: bool
    moves: int
    days: float

    @property
    def ratio(self) -> float:
        """Its cost as a multiple of the lowest possible cost."""
        return self.cost / self.omniscient


@dataclass(frozen=True, slots=True)
class Summary:
    """All jobs of one policy, or of one policy and load."""

    policy: str
    load: float | None
    jobs: int
    mean: float
    median: float
    p95: float
    missed: int
    moves_per_day: float


@dataclass(frozen=True, slots=True)
class _Window:
    """One job to run: its market by number, its load, its first step and its number of steps."""

    market: int
    load: float
    start: int
    steps: int


def simulate(study: Study, workers: int = 1) -> Iterator[list[Row]]:
    """The rows of one job after the other, one row per policy, in the same order for any number of processes.

    Start times are drawn with `seed`, so the same study gives the same rows. A trace that is too short for a load is
    skipped. Raises StudyError if none is long enough. With `workers` above 1, the caller must have no other thread.
    """
    windows = list(_windows(study))
    if not windows:
        raise StudyError("", "no trace is long enough for this work and these loads; use less work or longer traces")
    if workers < 2:
        yield from (_job(study, window) for window in windows)
        return
    with ProcessPoolExecutor(workers, get_context(START), _take, (study,)) as pool:
        yield from pool.map(_job_taken, windows, chunksize=4)


def _windows(study: Study) -> Iterator[_Window]:
    for market, traces in enumerate(study.markets):
        gap = study.gap(traces)
        for load in study.loads:
            steps = study.steps(load, gap)
            last = min(len(trace) * trace.gap // gap for trace in traces) - steps
            random = Random(f"{study.seed} {'+'.join(trace.name for trace in traces)} {load}")
            for _ in range(study.windows if last >= 0 else 0):
                yield _Window(market, load, random.randint(0, last), steps)


_taken: list[Study] = []  # the study of a worker process


def _take(study: Study) -> None:
    _taken.append(study)


def _job_taken(window: _Window) -> list[Row]:
    return _job(_taken[0], window)


@lru_cache(maxsize=64)
def _at_gap(traces: tuple[Trace, ...], gap: int) -> tuple[Trace, ...]:
    return tuple(at_gap(trace, gap) for trace in traces)


def _job(study: Study, window: _Window) -> list[Row]:
    gap, work = study.gap(study.markets[window.market]), study.work.total_seconds()
    traces, start, steps = _at_gap(study.markets[window.market], gap), window.start, window.steps
    in_steps = [int(span.total_seconds()) // gap for span in (study.work, study.changeover, study.lost_work)]
    prices = (1.0,) * len(traces)
    best = optimum(Window(traces, start, in_steps[0], steps, in_steps[1], in_steps[2], float(study.ratio), prices))
    if best is None:
        raise StudyError("loads", "a job has too little time for its work on the dedicated tier")
    setting = Setting(
        work=work,
        deadline=float(steps * gap),
        changeover=study.changeover.total_seconds(),
        gap=gap,
        dedicated_price=study.ratio,
        spot_prices=tuple(Decimal(1) for _ in traces),
        lost=study.lost_work.total_seconds(),
        billed_probe=study.billed,
    )
    rows = []
    for name in study.policies:
        if name in OWN:
            outcome = trial.run(setting, traces, OWN[name], start)
        else:
            rule = RULES[name](work, setting.deadline)
            outcome = run(rule, [playback(trace, start) for trace in traces], setting)
        rows.append(
            Row(
                policy=name,
                trace="+".join(trace.name for trace in traces),
                start=start * gap,
                load=window.load,
                cost=outcome.cost,
                omniscient=best,
                missed=outcome.missed,
                moves=outcome.moves,
                days=outcome.finished / DAY,
            )
        )
    return rows


def summarize(rows: Sequence[Row], *, by_load: bool = False) -> list[Summary]:
    """One summary per policy, in the order of the rows; with `by_load`, one per policy and load."""
    groups: dict[tuple[str, float | None], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.policy, row.load if by_load else None), []).append(row)
    return [_summary(policy, load, group) for (policy, load), group in groups.items()]


def _summary(policy: str, load: float | None, rows: Sequence[Row]) -> Summary:
    ratios = sorted(row.ratio for row in rows)
    days = sum(row.days for row in rows)
    return Summary(
        policy=policy,
        load=load,
        jobs=len(rows),
        mean=mean(ratios),
        median=median(ratios),
        p95=ratios[min(int(0.95 * len(ratios)), len(ratios) - 1)],
        missed=sum(row.missed for row in rows),
        moves_per_day=sum(row.moves for row in rows) / days if days else 0.0,
    )
