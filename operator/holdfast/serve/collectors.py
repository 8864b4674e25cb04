"""Metrics of jobs and profiles. They are read from the cache, so that they vanish with their job or profile."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.api.attempt import Recovery
from holdfast.api.knowledge import Seen
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.status import Phase, TierTotals
from holdfast.core.books.ledger import by_tier, counts_steps

LABELS = ("namespace", "job")
PHASES = tuple(Recovery.model_fields)  # of a recovery
# The conditions that have a metric; the other conditions add nothing to the phase.
CONDITIONS = ("DeadlineAtRisk", "BudgetAtRisk", "PolicyFallback", "CheckpointFailing")

Samples = Mapping[tuple[str, ...], float]  # values of the labels beyond LABELS -> value of the metric


class JobView:
    """A job at the time of a scrape, and what is computed from it."""

    def __init__(self, job: TrainingJob, now: datetime) -> None:
        self.spec = job.spec
        self.status = job.status
        self.now = now

    @cached_property
    def tiers(self) -> tuple[TierTotals, ...]:
        """Totals by tier, including the attempts that have not ended."""
        return by_tier(self.status, self.now)

    @property
    def goal(self) -> int | None:
        """Number of steps of the whole training, None if it is not known."""
        return self.spec.goal.steps or self.status.progress.steps


@dataclass(frozen=True, slots=True)
class Family:
    """A metric of jobs: its name without prefix and suffix, its help text, and how it is read from a job."""

    name: str
    text: str
    read: Callable[[JobView], Samples]
    labels: tuple[str, ...] = ()
    counter: bool = False
    timed: bool = False  # the value depends on the time of the scrape, not only on the job

    @property
    def full_name(self) -> str:
        """The name as Prometheus sees it."""
        return f"holdfast_job_{self.name}" + ("_total" if self.counter else "")


class ProfileCollector(Collector):
    """What the jobs of the cluster observed of the tiers of capacity profiles."""

    def __init__(self, profiles: Callable[[], Iterable[CapacityProfile]]) -> None:
        self._profiles = profiles

    def describe(self) -> Iterable[Metric]:
        """Nothing: the series depend on the cluster."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """One sample for each tier that was observed."""
        up = GaugeMetricFamily(
            "holdfast_profile_tier_up",
            "1 if the tier gave a node when it was last observed, 0 if it gave none in time or took one back",
            labels=("profile", "tier", "tier_kind"),
        )
        for profile in self._profiles():
            known = {one.tier: one.state for one in profile.status.tiers}
            for tier in profile.spec.tiers:
                if state := known.get(tier.name):
                    up.add_metric((profile.metadata.name, tier.name, tier.kind), float(state is Seen.UP))
        yield up


def _gauge(name: str, text: str, read: Callable[[JobView], float | None], *, timed: bool = False) -> Family:
    """A gauge; it has no sample where the value is not known."""
    return Family(name, text, lambda job: _sample(read(job)), timed=timed)


def _counter(name: str, text: str, read: Callable[[JobView], float | None]) -> Family:
    """A counter: its value only grows. It has no sample where the value is not known."""
    return Family(name, text, lambda job: _sample(read(job)), counter=True)


def _sample(value: float | None) -> Samples:
    return {} if value is None else {(): float(value)}


def _number(text: str | None) -> float | None:
    """The number, None if the text is not a number: it comes from the user's program."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _phase(job: JobView) -> Samples:
    return {(one.value,): float(job.status.phase == one) for one in Phase}


def _conditions(job: JobView) -> Samples:
    said = {one.type: one.status for one in job.status.conditions}
    return {(name,): float(said[name] == "True") for name in CONDITIONS if said.get(name) in ("True", "False")}


def _step(job: JobView) -> float | None:
    return job.status.progress.step if job.status.progress.updated_at else None


def _share(job: JobView) -> float | None:
    step = _step(job)
    return None if step is None or not job.goal else min(1.0, step / job.goal)


def _checkpoint_age(job: JobView) -> float | None:
    saved = job.status.checkpoint
    return max(0.0, (job.now - saved.committed_at).total_seconds()) if saved else None


def _slack(job: JobView) -> float | None:
    """The slack now: the slack of a job that waits shrinks although its status is not written."""
    forecast = job.status.forecast
    if forecast.slack is None:
        return None
    trains = job.status.phase in (Phase.RUNNING, Phase.MIGRATING)
    waited = timedelta(0) if trains or forecast.at is None else job.now - forecast.at
    return max((forecast.slack - waited).total_seconds(), 0.0)


def _late(job: JobView) -> float | None:
    """The expected delay; 0 if the deadline can be met, because a missing sample means that nothing is known."""
    late = job.status.forecast.late
    if late is None:
        return None if job.status.forecast.slack is None else 0.0
    return late.total_seconds()


def _deadline(job: JobView) -> float | None:
    deadline = job.spec.capacity.deadline
    return deadline.timestamp() if deadline else None


def _money(amount: object) -> float | None:
    return None if amount is None else float(str(amount))


def _spent(job: JobView) -> float:
    return sum(float(one.spent) for one in job.tiers)


def _tier_spent(job: JobView) -> Samples:
    return {(one.tier, one.kind): float(one.spent) for one in job.tiers}


def _tier_attempts(job: JobView) -> Samples:
    return {(one.tier, one.kind): float(one.attempts) for one in job.tiers}


def _recovery(job: JobView) -> Samples:
    ledger = job.status.ledger
    known = [name for name in PHASES if name != "replay" or counts_steps(job.status)]
    return {(name,): getattr(ledger.recovery, name).total_seconds() for name in known}


def _steps_lost(job: JobView) -> int | None:
    """None if it is not known: the program does not say where it resumes."""
    return job.status.ledger.steps_lost if counts_steps(job.status) else None


# Money is a gauge although it seldom falls: an attempt whose end is seen late costs less than was computed before, and
# Prometheus takes a falling counter for a restart from 0.
FAMILIES = (
    Family("phase", "1 for the phase the job is in", _phase, ("phase",)),
    _gauge("attempt", "Number of the newest attempt", lambda job: job.status.attempt),
    _gauge("step", "Newest step that the trainer reported", _step),
    _gauge("goal_steps", "Number of steps of the whole training", lambda job: job.goal or None),
    _gauge("percent_ratio", "Share of the steps that are done, 0 to 1", _share),
    _gauge("loss", "Newest training loss that the trainer reported", lambda job: _number(job.status.progress.loss)),
    _gauge("checkpoint_age_seconds", "Seconds since the newest checkpoint was committed", _checkpoint_age,
           timed=True),
    _gauge("spent", "Money spent on nodes so far", _spent, timed=True),
    Family("tier_spent", "Money spent on nodes of the tier so far", _tier_spent, ("tier", "tier_kind"),
           timed=True),
    _gauge("expected_cost", "Expected cost of the whole job, in money",
           lambda job: _money(job.status.forecast.cost)),
    _gauge("budget", "Money that the job may spend on nodes (spec.capacity.budget)",
           lambda job: _money(job.spec.capacity.budget)),
    _gauge("saved", "Money saved compared with dedicated nodes only; negative if more was spent",
           lambda job: _number(job.status.ledger.saved_versus_dedicated)),
    _gauge("deadline_timestamp_seconds", "Deadline (spec.capacity.deadline), in seconds since 1970", _deadline),
    _gauge("slack_seconds", "Seconds that may be lost until only the most dependable tier meets the deadline", _slack,
           timed=True),
    _gauge("late_seconds", "Expected delay behind the deadline in seconds if no loss comes; 0 if it can be met", _late),
    Family("condition", "1 if the condition is True, 0 if it is False", _conditions, ("condition",)),
    Family("tier_attempts", "Attempts that ran or run on a node of the tier", _tier_attempts, ("tier", "tier_kind"),
           counter=True),
    _counter("losses", "Attempts that ended by a preemption, an eviction or a lost node",
             lambda job: job.status.restarts.losses),
    _counter("failures", "Attempts that ended by an error of the program", lambda job: job.status.restarts.failures),
    _counter("steps_lost", "Steps that were trained again after a loss", _steps_lost),
    _counter("seconds_lost", "Seconds from the last step of an attempt to the first step of the next one",
             lambda job: job.status.ledger.seconds_lost.total_seconds()),
    Family("recovery_seconds", "Seconds of recovery by phase, including the steps that were trained again", _recovery,
           ("phase",), counter=True),
    _gauge("goodput_ratio", "Time in steps that were not lost, divided by all time since the first step, 0 to 1",
           lambda job: _number(job.status.ledger.goodput)),
)  # fmt: skip
