"""What a job is going to cost, and when it will be done: it runs many times in the virtual cluster, on drawn markets.

The code that ships decides, as in all simulations of Holdfast's policies (see world.py). Every policy and deadline
meets the same markets, so the rows can be compared. What is not known of the job comes in as durations and markets:
this module assumes nothing.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import count
from math import ceil
from multiprocessing import get_context
from random import Random
from statistics import fmean
from typing import Final

from holdfast.api.job import Policy
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import ProfileTier, Tier
from holdfast.api.status import Phase
from holdfast.core.observe.config import OperatorConfig
from holdfast_cli.simulate.climate import Climate, endless
from holdfast_cli.simulate.durations import ZERO, Durations
from holdfast_cli.simulate.errors import UnfinishedError
from holdfast_cli.simulate.machines import Spell, spells
from holdfast_cli.simulate.replay import Node, Schedule, replay
from holdfast_cli.simulate.traces import Trace
from holdfast_cli.simulate.world import BEGIN, CONFIG

# A forked process has all modules; importing them takes as long as 100 days of jobs. Only Linux forks safely.
START: Final = "fork" if sys.platform == "linux" else "spawn"


LIMIT = timedelta(days=366)  # what a job may take; one that takes longer counts as never done
MOST_DECISIONS = 250_000  # of one run; one that needs more counts as never done
LINGER = timedelta(minutes=10)  # after so long an autoscaler usually removes an idle node
MONTH = timedelta(hours=730.5)  # the mean of a year


@dataclass(frozen=True, slots=True)
class Market:
    """How a Spot tier comes and goes: as one of these traces, from a random time on, or as in this climate.

    With a climate of None and no traces it is always up. `notice` is how long before its end it is announced.
    """

    climate: Climate | None = None
    traces: Sequence[Trace] = ()
    notice: timedelta = ZERO

    def draw(self, seed: str) -> Iterator[Spell]:
        """The spells of one draw, without an end; the same seed gives the same ones."""
        if self.traces:
            return self._from_traces(Random(f"plan {seed}"))  # noqa: S311  not for secrets
        if self.climate is None:
            return iter((Spell(),))
        found = endless(seed, self.climate)
        return (Spell(timedelta(seconds=up), timedelta(seconds=end), self.notice) for up, end in found)

    def _from_traces(self, random: Random) -> Iterator[Spell]:
        """One trace after the other; only the first begins somewhere in it."""
        begun = ZERO
        for number in count():
            trace = random.choice(self.traces)
            start = random.randrange(len(trace)) if number == 0 else 0
            for spell in spells(trace, start, notice=self.notice):
                yield Spell(begun + spell.start, begun + (spell.end or ZERO), self.notice)
            begun += (len(trace) - start) * timedelta(seconds=trace.gap)


@dataclass(frozen=True, slots=True)
class Way:
    """How the job is run: under a policy, with a deadline; or only on the tier `only`."""

    policy: Policy
    deadline: timedelta | None = None
    only: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A job and all that it depends on. `durations` and `markets` are by tier: markets of all Spot tiers.

    `job` is as `one_node` returns it. A tier whose `observation` is Billed has nodes only when a pod asks; nodes of the
    others are in the cluster while the tier is up. The program saves `every` steps or in every `period`. The one node
    stands for `nodes` nodes.
    """

    job: TrainingJob
    profile: CapacityProfile | None
    durations: Mapping[str, Durations]
    markets: Mapping[str, Market]
    every: int = 0
    period: timedelta = ZERO
    draws: int = 20
    seed: int = 1
    config: OperatorConfig = CONFIG
    nodes: int = 1

    @property
    def tiers(self) -> Sequence[Tier]:
        return self.profile.spec.tiers if self.profile else self.job.spec.capacity.tiers

    def draws_of(self, way: Way) -> int:
        """How many times the job runs this way: once where nothing is drawn."""
        tiers = [tier for tier in self.tiers if way.only in (None, tier.name)]
        return self.draws if any(self.markets[tier.name] != Market() for tier in tiers if tier.kind == "Spot") else 1


@dataclass(frozen=True, slots=True)
class Draw:
    """One run of the job. `interruptions`: how often a node was taken, with or without notice. `hours`: time of all
    nodes."""

    took: timedelta
    cost: Decimal
    interruptions: int
    hours: Mapping[str, float]


NEVER = Draw(timedelta.max, Decimal("Infinity"), 0, {})  # a run that is not complete after LIMIT, or MOST_DECISIONS


@dataclass(frozen=True, slots=True)
class Row:
    """All runs of one way. A median or p95 is None if the run in that place is not complete after LIMIT.

    `late` is the share of runs that are not complete at `deadline`, `over_budget` that of runs which cost more.
    """

    way: Way
    deadline: timedelta | None
    draws: int
    finish: timedelta | None
    finish_p95: timedelta | None
    cost: Decimal | None
    cost_p95: Decimal | None
    interruptions: float
    late: float | None
    over_budget: float | None
    hours: Mapping[str, float]


def one_node(job: TrainingJob, profile: CapacityProfile | None) -> tuple[TrainingJob, CapacityProfile | None]:
    """The job on one node that stands for all: it costs as much as they do together.

    A budget, a suspension and a limit on the time that it is active are left out, so that each run comes to its end.
    """
    nodes, spec = job.spec.trainer.nodes, job.spec

    def priced(tiers: Sequence[Tier]) -> tuple[Tier, ...]:
        return tuple(
            tier.model_copy(update={"price_per_node_hour": (tier.price_per_node_hour or Decimal(0)) * nodes})
            for tier in tiers
        )

    spec = spec.model_copy(
        update={
            "trainer": spec.trainer.model_copy(update={"nodes": 1}),
            "checkpoint": spec.checkpoint.model_copy(update={"peers": False}),
            "capacity": spec.capacity.model_copy(update={"budget": None, "tiers": priced(spec.capacity.tiers)}),
            "suspend": False,
            "active_deadline": None,
            "ttl_after_finished": None,
        }
    )
    if profile:
        tiers = profile.spec.model_copy(update={"tiers": priced(profile.spec.tiers)})
        profile = profile.model_copy(update={"spec": tiers})
    return job.model_copy(update={"spec": spec}), profile


def simulate(plan: Plan, ways: Sequence[Way], workers: int = 1) -> Iterator[tuple[Way, Draw]]:
    """The runs of all ways, in an order that does not depend on `workers`.

    With `workers` above 1, the caller must have no other thread.
    """
    tasks = [(way, number) for way in ways for number in range(plan.draws_of(way))]
    if workers < 2:
        yield from ((way, run(plan, way, number)) for way, number in tasks)
        return
    with ProcessPoolExecutor(workers, get_context(START), _take, (plan,)) as pool:
        for (way, _), draw in zip(tasks, pool.map(_run_taken, tasks), strict=True):
            yield way, draw


_taken: list[Plan] = []  # the plan of a worker process


def _take(plan: Plan) -> None:
    _taken.append(plan)


def _run_taken(task: tuple[Way, int]) -> Draw:
    return run(_taken[0], *task)


def run(plan: Plan, way: Way, number: int) -> Draw:
    """Run the job once."""
    job, profile = _narrowed(plan, way)
    tiers = profile.spec.tiers if profile else job.spec.capacity.tiers
    schedule = Schedule(
        [_node(plan, tier, number) for tier in tiers],
        every=plan.every,
        limit=LIMIT,
        period=plan.period,
        most_decisions=MOST_DECISIONS,
    )
    durations = {tier.name: plan.durations[tier.name] for tier in tiers}
    try:
        world = replay(job, schedule, durations, profile=profile, config=plan.config)
    except (UnfinishedError, OverflowError):  # the latter: on a slow tier it ends after all times that Python has
        return NEVER
    if world.status.phase is not Phase.COMPLETED:
        return NEVER
    ledger = world.status.ledger
    idle = sum((one.cost for one in world.bill if one.idle), Decimal(0))
    hours = {one.tier: float(one.node_hours) * plan.nodes for one in ledger.by_tier}
    return Draw(world.now - BEGIN, ledger.spent + idle, world.status.restarts.interruptions, hours)


def _narrowed(plan: Plan, way: Way) -> tuple[TrainingJob, CapacityProfile | None]:
    """The job with the way's policy, deadline and tiers."""
    spec, profile = plan.job.spec, plan.profile
    deadline = BEGIN + way.deadline if way.deadline else None
    changes: dict[str, object] = {"policy": way.policy, "deadline": deadline}
    if way.only and profile:
        kept = tuple(tier for tier in profile.spec.tiers if tier.name == way.only)
        profile = profile.model_copy(update={"spec": profile.spec.model_copy(update={"tiers": kept})})
    elif way.only:
        changes["tiers"] = tuple(tier for tier in spec.capacity.tiers if tier.name == way.only)
    capacity = spec.capacity.model_copy(update=changes)
    return plan.job.model_copy(update={"spec": spec.model_copy(update={"capacity": capacity})}), profile


def _node(plan: Plan, tier: Tier | ProfileTier, number: int) -> Node:
    known = plan.markets[tier.name].draw(f"{plan.seed} {tier.name} {number}") if tier.kind == "Spot" else (Spell(),)
    return Node(tier.name, tier.name, known, stands=tier.observation != "Billed", linger=LINGER)


def summarize(
    way: Way, draws: Sequence[Draw], *, deadline: timedelta | None = None, budget: Decimal | None = None
) -> Row:
    """The row of a way, from all its runs. The median is the upper one, since a mean of two may not be finite."""
    times, costs = sorted(draw.took for draw in draws), sorted(draw.cost for draw in draws)
    middle, high = len(draws) // 2, max(ceil(0.95 * len(draws)) - 1, 0)
    names = {name for draw in draws for name in draw.hours}
    return Row(
        way=way,
        deadline=deadline,
        draws=len(draws),
        finish=times[middle] if times[middle] != NEVER.took else None,
        finish_p95=times[high] if times[high] != NEVER.took else None,
        cost=costs[middle] if costs[middle].is_finite() else None,
        cost_p95=costs[high] if costs[high].is_finite() else None,
        interruptions=fmean(draw.interruptions for draw in draws),
        late=fmean(time > deadline for time in times) if deadline else None,
        over_budget=None if budget is None else fmean(cost > budget for cost in costs),
        hours={name: fmean(draw.hours.get(name, 0.0) for draw in draws) for name in sorted(names)},
    )


@dataclass(frozen=True, slots=True)
class Lease:
    """A dedicated tier leased by the month, beside paying for it by the hour.

    `hours` are those in a month from which on the lease is cheaper, and `share` is that share of a month. `months` is
    how many whole months the job needs, which takes `took`, and `cost` what they cost.
    """

    tier: str
    monthly: Decimal
    hours: float
    share: float
    months: int
    took: timedelta
    cost: Decimal


def lease(tier: str, hourly: Decimal, monthly: Decimal, took: timedelta, nodes: int) -> Lease:
    """The lease of `nodes` nodes of a tier, for a job that takes so long on it; `hourly` is above 0."""
    hours, months = float(monthly / hourly), max(ceil(took / MONTH), 1)
    return Lease(tier, monthly, hours, hours / (MONTH / timedelta(hours=1)), months, took, monthly * months * nodes)
