"""The ways to run a job, side by side: policies, one tier alone, and a tier leased by the month."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from holdfast.api.job import Policy
from holdfast_cli.plan.inputs import Basis, Fact
from holdfast_cli.simulate.plan import Draw, Lease, Row, Way, lease, simulate, summarize


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of one job. `hints` are sentences about it."""

    job: str
    steps: int
    nodes: int
    draws: int
    rows: Sequence[Row]
    leases: Sequence[Lease]
    facts: Sequence[Fact]
    hints: Sequence[str] = ()
    budget: Decimal | None = None


def policies_that_apply(basis: Basis, deadlines: Sequence[timedelta]) -> list[Policy]:
    """The policies that can be used with this grid and these deadlines."""
    dedicated = any(tier.kind == "Dedicated" for tier in basis.plan.tiers)
    return ["Ordered", "Cheapest", "Deadline"] if deadlines and dedicated else ["Ordered", "Cheapest"]


def ways_of(basis: Basis, policies: Iterable[Policy], deadlines: Sequence[timedelta]) -> list[Way]:
    """All ways to simulate. Only policy Deadline behaves otherwise with another deadline."""
    found = []
    for policy in policies:
        found += [Way(policy, deadline) for deadline in deadlines] if policy == "Deadline" else [Way(policy)]
    return found + [Way("Ordered", only=tier.name) for tier in basis.plan.tiers if tier.kind != "Spot"]


def compare(
    basis: Basis,
    ways: Sequence[Way],
    deadlines: Sequence[timedelta],
    monthly: Mapping[str, Decimal],
    *,
    workers: int,
    done: Callable[[], None],
) -> Comparison:
    """Simulate all ways; `done` is called after each run."""
    draws: dict[Way, list[Draw]] = {way: [] for way in ways}
    for way, draw in simulate(basis.plan, ways, workers):
        draws[way].append(draw)
        done()
    budget = basis.job.spec.capacity.budget
    rows = [
        summarize(way, draws[way], deadline=deadline, budget=budget)
        for way in ways
        for deadline in (deadlines if way.deadline is None and not way.only else [way.deadline]) or [None]
    ]
    alone = {row.way.only: row.finish for row in rows if row.way.only and row.finish is not None}
    leases = [
        lease(name, basis.prices[name], price, alone[name], basis.nodes)
        for name, price in monthly.items()
        if name in alone
    ]
    return Comparison(
        job=basis.job.metadata.name,
        steps=basis.job.spec.goal.steps or 0,
        nodes=basis.nodes,
        draws=basis.plan.draws,
        rows=rows,
        leases=leases,
        facts=basis.facts,
        hints=_hints(basis),
        budget=budget,
    )


def _hints(basis: Basis) -> list[str]:
    """What would make the job cheaper or the plan better."""
    paced = [fact for fact in basis.facts if fact.what == "time of a step"]
    given = [f"{fact.tier}: {fact.value}" for fact in paced if fact.source != "manifest"]
    hints = []
    if given:
        hints.append(
            "Policies do not know these times before they measure them. State them in capacity.tiers[].pace of the job "
            f"({', '.join(given)}), and plan again."
        )
    if any(fact.assumed for fact in basis.facts):
        hints.append("Figures that are assumed are guesses: measure them, or give them with options.")
    return hints
