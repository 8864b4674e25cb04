"""What was typed for `holdfast plan`, checked against the grid of each job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import typer

from holdfast.api.job import Policy
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import Tier
from holdfast.api.scalars import parse_duration, say_time
from holdfast_cli.errors import CliError
from holdfast_cli.plan import values
from holdfast_cli.plan.comparison import policies_that_apply, ways_of
from holdfast_cli.plan.inputs import Basis, Wishes
from holdfast_cli.simulate.plan import LIMIT, Way
from holdfast_cli.simulate.traces import Trace, read_traces
from holdfast_cli.terminal.formats import span


@dataclass(frozen=True, slots=True)
class ByTier:
    """The options whose values may differ by tier, as typed."""

    pace: Sequence[str] = ()
    interruptions: Sequence[str] = ()
    out: Sequence[str] = ()
    start: Sequence[str] = ()
    acquire: Sequence[str] = ()
    traces: Sequence[str] = ()
    month: Sequence[str] = ()

    def wishes(self, tiers: Sequence[Tier], spans: Mapping[str, timedelta], numbers: Mapping[str, int]) -> Wishes:
        """The wishes for a grid. Raises typer.BadParameter and TraceError."""
        names, spots = [tier.name for tier in tiers], [tier.name for tier in tiers if tier.kind == "Spot"]
        return Wishes(
            pace=values.by_tier("--pace", self.pace, names, values.pace),
            interruptions=values.by_tier("--interruptions", self.interruptions, spots, values.rate),
            out=values.by_tier("--out", self.out, spots, values.out),
            start=values.by_tier("--start", self.start, names, parse_duration),
            acquire=values.by_tier("--acquire", self.acquire, names, parse_duration),
            traces={name: _read(paths) for name, paths in values.paths(self.traces, spots).items()},
            restore=spans.get("restore"),
            save=spans.get("save"),
            notice=spans.get("notice"),
            nodes=numbers.get("nodes"),
            draws=numbers["draws"],
            seed=numbers["seed"],
        )

    def monthly(self, tiers: Sequence[Tier]) -> dict[str, Decimal]:
        """The price of a month by tier. Raises typer.BadParameter if a tier cannot be leased."""
        found = values.by_tier("--month", self.month, [tier.name for tier in tiers], values.month)
        for tier in tiers:
            if tier.name not in found:
                continue
            if tier.kind == "Spot":
                problem = (
                    f"{tier.name}: is a Spot tier, and Spot cannot be leased by the month: name a tier of another kind"
                )
                raise typer.BadParameter(problem, param_hint="--month")
            if not tier.price_per_node_hour:
                problem = f"{tier.name}: its hour costs nothing, so a month is never cheaper: leave it out"
                raise typer.BadParameter(problem, param_hint="--month")
        return found


def _read(paths: Sequence[Path]) -> tuple[Trace, ...]:
    """The traces. Raises TraceError, and CliError for one in which Spot is never up."""
    found = read_traces(paths)
    if never := next((trace.name for trace in found if not any(trace.up)), None):
        raise CliError(f"--traces: Spot is never up in {never}: leave the file out")
    return found


@dataclass(frozen=True, slots=True)
class Task:
    """What to simulate for one job."""

    basis: Basis
    ways: Sequence[Way]
    deadlines: Sequence[timedelta]
    monthly: Mapping[str, Decimal]

    @property
    def runs(self) -> int:
        """How many times the job runs."""
        return sum(self.basis.plan.draws_of(way) for way in self.ways)


def make_task(
    basis: Basis, job: TrainingJob, deadlines: Sequence[str], policies: Sequence[Policy], monthly: Mapping[str, Decimal]
) -> Task:
    """The task of a job. Raises CliError and typer.BadParameter for a deadline or a policy that is impossible."""
    now = datetime.now(UTC)
    spans = [values.deadline(text, now) for text in dict.fromkeys(deadlines)] or _own_deadline(job, now)
    earliest, tier = basis.earliest()
    if earliest > LIMIT:
        raise CliError(
            f"{job.metadata.name}: spec.goal.steps: {basis.job.spec.goal.steps:,} steps take over {LIMIT.days} days on "
            f"{tier}, the fastest tier; plan simulates at most {LIMIT.days} days",
            hint="give fewer steps, a shorter --pace, or a faster tier",
        )
    for left in spans:
        if left < earliest:
            where = "--deadline" if deadlines else f"{job.metadata.name}: spec.capacity.deadline"
            raise CliError(
                f"{where}: {span(left)} from now is impossible: {basis.job.spec.goal.steps:,} steps and one start take "
                f"{span(earliest)} on {tier}, the fastest tier",
                hint="give a later --deadline, fewer steps, or a faster tier",
            )
    if "Deadline" in policies and not spans:
        problem = "policy Deadline needs a deadline: give --deadline, or set spec.capacity.deadline"
        raise typer.BadParameter(problem, param_hint="--policy")
    if "Deadline" in policies and not any(one.kind == "Dedicated" for one in basis.plan.tiers):
        problem = "policy Deadline needs a tier of kind Dedicated, and the grid has none: choose another policy"
        raise typer.BadParameter(problem, param_hint="--policy")
    chosen = list(dict.fromkeys(policies)) or policies_that_apply(basis, spans)
    return Task(basis, ways_of(basis, chosen, spans), spans, monthly)


def _own_deadline(job: TrainingJob, now: datetime) -> list[timedelta]:
    """The time until the job's own deadline; empty if it has none. Raises CliError if it has passed."""
    if (at := job.spec.capacity.deadline) is None:
        return []
    if at <= now:
        raise CliError(
            f"{job.metadata.name}: spec.capacity.deadline: {say_time(at)} has passed",
            hint="give the time for the job, such as --deadline 8d",
        )
    return [at - now]


def grid(job: TrainingJob, profile: CapacityProfile | None) -> Sequence[Tier]:
    """The tiers that the job may use."""
    return profile.spec.tiers if profile else job.spec.capacity.tiers
