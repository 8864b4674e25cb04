"""Metrics of jobs. They are read from the status in the cache, so that they vanish with their job.

Names follow the conventions of Prometheus. The labels of a job are job_namespace and job_name: Prometheus itself sets
`namespace` and `job`, and would replace labels of these names by those of the operator's own pod.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from holdfast.api.attempt import Recovery
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase, TierTotals, TrainingJobStatus
from holdfast.core.books.ledger import by_tier, counts_steps
from holdfast.core.observe.members import paid_nodes
from holdfast_protocol.figures import ROWS, Row

LABELS = ("job_namespace", "job_name")
PHASES = tuple(Recovery.model_fields)  # of a recovery
# The conditions that have a metric: those that say more than the phase.
CONDITIONS = (
    "DeadlineAtRisk", "BudgetAtRisk", "PolicyFallback", "CheckpointFailing", "StorageUnreachable", "MemoryShort",
    "ProgressUnreachable", "StartBlocked", "Misconfigured", "SlowRank", "TierResting", "FeatureOff", "NeverFits",
)  # fmt: skip
INFO = ("tier", "tier_kind", "node_name", "policy", "accelerator", "attempt")

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
        return self.status.progress.steps or self.spec.goal.steps


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


def _gauge(name: str, text: str, read: Callable[[JobView], float | None], *, timed: bool = False) -> Family:
    """A gauge; it has no sample where the value is not known."""
    return Family(name, text, lambda job: _sample(read(job)), timed=timed)


def _counter(name: str, text: str, read: Callable[[JobView], float | None]) -> Family:
    """A counter: its value only grows. It has no sample where the value is not known."""
    return Family(name, text, lambda job: _sample(read(job)), counter=True)


def _of_figure(row: Row) -> Family:
    """The metric of a figure of the program."""

    def read(job: JobView) -> float | None:
        value = getattr(job.status.progress, row.name)
        return _number(value) if isinstance(value, str) else value

    return _gauge(row.metric, row.text, read)


def _sample(value: float | None) -> Samples:
    return {} if value is None else {(): float(value)}


def _number(text: str | None) -> float | None:
    """The number, None if the text is not a number: it comes from the user's program."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _phase(job: JobView) -> Samples:
    return {} if job.status.phase is None else {(job.status.phase.value,): 1.0}


def _info(job: JobView) -> Samples:
    status, capacity = job.status, job.spec.capacity
    current = status.current
    if current is None:
        return {("", "", "", capacity.policy, "", str(status.attempt)): 1.0}
    tier = current.tier
    node = status.node or ""
    return {(tier.name, tier.kind, node, capacity.policy, tier.accelerator or "", str(current.number)): 1.0}


def _conditions(job: JobView) -> Samples:
    said = {one.type: one.status for one in job.status.conditions}
    return {(name,): float(said[name] == "True") for name in CONDITIONS if said.get(name) in ("True", "False")}


def _step(job: JobView) -> float | None:
    """None too if nothing shows that the program tells its steps: a step that stands at 0 would look like a hang."""
    progress = job.status.progress
    return progress.step if progress.step or (progress.updated_at and job.status.uses_checkpoints) else None


def _share(job: JobView) -> float | None:
    step = _step(job)
    return None if step is None or not job.goal else min(1.0, step / job.goal)


def _loss_finite(job: JobView) -> float | None:
    loss = _number(job.status.progress.loss)
    return None if loss is None else float(math.isfinite(loss))


def _metrics(job: JobView) -> Samples:
    found = {(one.name,): _number(one.value) for one in job.status.progress.metrics}
    return {labels: value for labels, value in found.items() if value is not None}


def _eta(job: JobView) -> float | None:
    return job.status.progress.eta.timestamp() if job.status.progress.eta else None


def _phase_since(job: JobView) -> float | None:
    return job.status.phase_since.timestamp() if job.status.phase_since else None


def _checkpoint_time(job: JobView) -> float | None:
    return job.status.checkpoint.committed_at.timestamp() if job.status.checkpoint else None


def _checkpoint_interval(job: JobView) -> float | None:
    asked = job.spec.checkpoint.every.period
    return asked.total_seconds() if asked else None


def _checkpoint_bytes(job: JobView) -> float | None:
    return job.status.checkpoint.bytes or None if job.status.checkpoint else None


def _price(job: JobView) -> float:
    """What the job pays for its nodes now. Attempts without a price cost nothing."""
    return sum(spend_by_kind(job.status).values())


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


def _lost_steps(job: JobView) -> int | None:
    """None if it is not known: the program does not say where it resumes."""
    return job.status.ledger.steps_lost if counts_steps(job.status) else None


def spend_by_kind(status: TrainingJobStatus) -> Mapping[str, float]:
    """Money per hour for the nodes that the job's attempts have now, by the kind of their tier."""
    found: dict[str, float] = {}
    for one in (status.current, status.successor):
        if one is not None and (nodes := paid_nodes(one)):
            price = one.tier.price_per_node_hour or 0
            found[one.tier.kind] = found.get(one.tier.kind, 0.0) + float(price) * nodes
    return found


# Money is a gauge although it seldom falls: an attempt whose end is seen late costs less than was computed before, and
# Prometheus takes a falling counter for a restart from 0.
FAMILIES = (
    Family("info", "Where the newest attempt runs or will run; always 1", _info, INFO),
    Family("phase", "1; the label is the phase that the job is in", _phase, ("phase",)),
    _gauge("phase_since_timestamp_seconds", "When the job entered its phase, in seconds since 1970", _phase_since),
    Family("condition", "1 if the condition is True, 0 if it is False, no sample if it is Unknown", _conditions,
           ("condition",)),
    _gauge("attempt", "Number of the newest attempt", lambda job: job.status.attempt),
    _gauge("step", "Newest step that the trainer reported", _step),
    _gauge("goal_steps", "Number of steps of the whole training", lambda job: job.goal or None),
    _gauge("progress_ratio", "Share of the steps that are done, 0 to 1", _share),
    _gauge("eta_timestamp_seconds", "When the training will be complete at the current pace, in seconds since 1970",
           _eta),
    *map(_of_figure, ROWS),
    _gauge("training_loss_finite", "0 if the newest training loss is NaN or infinite, otherwise 1", _loss_finite),
    Family("training_metric", "Newest value of a metric that the program reported; the label is its name", _metrics,
           ("name",)),
    _gauge("checkpoint_step", "Step of the newest committed checkpoint; no sample if nothing says it",
           lambda job: job.status.checkpoint.step if job.status.checkpoint else None),
    _gauge("checkpoint_timestamp_seconds", "When the newest checkpoint was committed, in seconds since 1970",
           _checkpoint_time),
    _gauge("checkpoint_interval_seconds", "Time between two checkpoints by spec.checkpoint.every, if it is a time",
           _checkpoint_interval),
    _gauge("checkpoint_bytes", "Size of the newest committed checkpoint", _checkpoint_bytes),
    _counter("interruptions", "Attempts that ended by a preemption, an eviction or a lost node",
             lambda job: job.status.restarts.interruptions),
    _counter("failures", "Attempts that ended by an error of the program", lambda job: job.status.restarts.failures),
    _counter("lost_steps", "Steps that were trained again after an interruption; no sample if that is not known",
             _lost_steps),
    _counter("lost_seconds", "Seconds from the last step of an attempt to the first step of the next one",
             lambda job: job.status.ledger.seconds_lost.total_seconds()),
    _gauge("goodput_ratio", "Time in steps that were not lost, divided by all time since the first step, 0 to 1",
           lambda job: _number(job.status.ledger.goodput)),
    _gauge("cost", "Money spent on nodes so far, in the currency of the prices", _spent, timed=True),
    Family("tier_cost", "Money spent on nodes of the tier so far, in the currency of the prices", _tier_spent,
           ("tier", "tier_kind"), timed=True),
    _gauge("cost_per_hour", "Money per hour for the nodes that the job has now, in the currency of the prices",
           _price),
    _gauge("cost_expected", "Expected cost of the whole job, in the currency of the prices",
           lambda job: _money(job.status.forecast.cost)),
    _gauge("cost_budget", "Money that the job may spend on nodes (spec.capacity.budget)",
           lambda job: _money(job.spec.capacity.budget)),
    _gauge("cost_saved", "Money saved compared with dedicated nodes only; negative if more was spent",
           lambda job: _number(job.status.ledger.saved_versus_dedicated)),
    _gauge("deadline_timestamp_seconds", "Deadline (spec.capacity.deadline), in seconds since 1970", _deadline),
    _gauge("slack_seconds", "Seconds that may be lost until only the most dependable tier meets the deadline", _slack,
           timed=True),
    _gauge("late_seconds", "Expected delay behind the deadline in seconds if no interruption comes; 0 if it can be met",
           _late),
)  # fmt: skip
