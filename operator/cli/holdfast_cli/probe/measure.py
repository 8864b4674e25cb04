"""What a probe has measured: from the job's status, and from the series beside its checkpoints. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from statistics import median
from typing import Any, Final, Literal

from holdfast.api.attempt import EndKind, EndReason
from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import format_duration
from holdfast.api.status import TrainingJobStatus
from holdfast.core.capacity.knowledge import pace_of
from holdfast_cli.probe.manifests import Probe
from holdfast_cli.terminal.formats import count, number
from holdfast_protocol.figures import Figures, readable
from holdfast_train.series.feed import SAMPLES
from holdfast_train.series.rows import Row

FEWEST: Final = 5  # steps, or spans of steps, of which a median is made
WINDOW: Final = 0.1  # seconds: a hundred times what the clock of a row can tell
HOUR: Final = 3600
MILLION: Final = 1_000_000


class Outcome(StrEnum):
    """How a probe ended."""

    MEASURED = "Measured"
    NO_NODE = "NoNode"
    NOT_SEEN = "NotSeen"  # no operator has looked at the job
    FAILED = "Failed"
    NOT_DONE = "NotDone"  # in the time that it may take
    GONE = "Gone"  # deleted by somebody else


@dataclass(frozen=True, slots=True)
class Pace:
    """The time of a step: the median of the last half of the steps, or the mean of all after the first."""

    seconds: float
    kind: Literal["median", "mean"]


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the result. `message` says what went wrong, with the last lines of a program that failed."""

    tier: str
    accelerators: int
    nodes: int
    price: Decimal | None
    outcome: Outcome
    message: str = ""
    steps: int = 0
    pace: Pace | None = None
    samples_per_second: float | None = None
    acquire: timedelta | None = None
    start: timedelta | None = None
    peak_memory: int | None = None
    data_wait: float | None = None

    @property
    def cost_of_million_steps(self) -> Decimal | None:
        """The price of all nodes for so many steps."""
        return self._cost(None if self.pace is None else self.pace.seconds)

    @property
    def cost_of_million_samples(self) -> Decimal | None:
        """The price of all nodes for so many samples."""
        return self._cost(1 / self.samples_per_second if self.samples_per_second else None)

    def _cost(self, seconds: float | None) -> Decimal | None:
        if seconds is None or self.price is None:
            return None
        return self.price * self.nodes * MILLION * Decimal(seconds) / HOUR


@dataclass(frozen=True, slots=True)
class Scaling:
    """How many times as fast as `base` accelerators a tier is with `accelerators`, and the share of the ideal."""

    tier: str
    base: int
    accelerators: int
    speedup: float
    efficiency: float
    by: Literal["samples", "steps"]


def newest(before: Figures, raw: Mapping[str, Any]) -> Figures:
    """The figures of the job `raw`, and those of `before` that it does not replace: some last only while it trains."""
    found = vars(readable((raw.get("status") or {}).get("progress")))
    return replace(before, **{name: value for name, value in found.items() if value is not None})


def judge(probe: Probe, job: TrainingJob, seen: Figures, outcome: Outcome, limits: tuple[str, str]) -> Result:
    """The result of a probe without its pace. `seen`: its figures. `limits`: for a node and for the run."""
    status = job.status
    acquire, start = _times(status)
    return Result(
        tier=probe.tier.name,
        accelerators=probe.accelerators,
        nodes=job.spec.trainer.nodes,
        price=probe.tier.price_per_node_hour,
        outcome=outcome,
        message=_message(outcome, status, limits),
        steps=status.progress.step,
        samples_per_second=_number(seen.samples_per_second) or None,
        acquire=acquire,
        start=start,
        peak_memory=seen.peak_memory or None,
        data_wait=_number(seen.data_wait),
    )


def ending(job: TrainingJob, steps: int) -> Outcome | None:
    """How a probe has ended; None while it goes on. A program that does not know its goal is done at `steps` too."""
    status = job.status
    failed = next((one for one in status.history if one.kind in (EndKind.FAILURE, EndKind.MISCONFIGURED)), None)
    if status.is_over:
        late = any(one.type == "Failed" and one.reason == EndReason.DEADLINE_EXCEEDED for one in status.conditions)
        if late:
            return Outcome.NOT_DONE if _has_node(status) else Outcome.NO_NODE
        return Outcome.FAILED if status.phase == "Failed" else Outcome.MEASURED
    if failed:
        return Outcome.FAILED
    return Outcome.MEASURED if status.progress.step >= steps else None


def has_waited_in_vain(job: TrainingJob) -> Outcome | None:
    """The outcome if the time for a node is over now; None if there was a node."""
    if job.status.phase is None and job.status.attempt == 0:
        return Outcome.NOT_SEEN
    return None if _has_node(job.status) else Outcome.NO_NODE


def pace_of_rows(rows: Sequence[Row]) -> Pace | None:
    """The median time of a step over the last half of the steps; None if too few steps have a row.

    The clock of a row has milliseconds. So short steps are timed together, in spans of WINDOW; steps that take less
    than some spans are one span.
    """
    half = _last_half(rows)
    if len(half) <= FEWEST or half[-1].at <= half[0].at:
        return None
    spans, begin = [], half[0]
    for row in half[1:]:
        if row.at - begin.at >= WINDOW:
            spans.append((row.at - begin.at) / (row.step - begin.step))
            begin = row
    if len(spans) < FEWEST:
        spans = [(half[-1].at - half[0].at) / (half[-1].step - half[0].step)]
    return Pace(median(spans), "median")


def pace_of_status(status: TrainingJobStatus) -> Pace | None:
    """The mean time of a step of the newest attempt that trained; None if it trained too few steps."""
    found = None
    for one in status.history:
        found = pace_of(one.first_step, one.first_step_at, one.last_step, one.last_step_at) or found
    if current := status.current:
        found = pace_of(current.first_step, current.progress_at, current.last_step, current.last_step_at) or found
    return Pace(found.total_seconds(), "mean") if found else None


def samples_of_rows(rows: Sequence[Row]) -> float | None:
    """The median of the samples per second over the last half of the steps; None if the program reports none."""
    values = [row.values[SAMPLES] for row in _last_half(rows) if row.values.get(SAMPLES, 0.0) > 0]
    return median(values) if values else None


def scaling(results: Sequence[Result]) -> list[Scaling]:
    """Each number of accelerators against the smallest one of its tier."""
    found = []
    for tier in dict.fromkeys(result.tier for result in results):
        runs = sorted((one for one in results if one.tier == tier and one.pace), key=lambda one: one.accelerators)
        for one in runs[1:]:
            base = runs[0]
            if one.accelerators == base.accelerators or not base.accelerators or not (one.pace and base.pace):
                continue
            by_samples = bool(one.samples_per_second and base.samples_per_second)
            speedup = base.pace.seconds / one.pace.seconds
            if one.samples_per_second and base.samples_per_second:
                speedup = one.samples_per_second / base.samples_per_second
            share = speedup * base.accelerators / one.accelerators
            by: Literal["samples", "steps"] = "samples" if by_samples else "steps"
            found.append(Scaling(tier, base.accelerators, one.accelerators, speedup, share, by))
    return found


def _last_half(rows: Sequence[Row]) -> list[Row]:
    ordered = sorted({row.step: row for row in rows}.values(), key=lambda row: row.step)
    if not ordered:
        return []
    middle = (ordered[0].step + ordered[-1].step) / 2
    return [row for row in ordered if row.step >= middle]


def _has_node(status: TrainingJobStatus) -> bool:
    return any(one and one.scheduled_at for one in (status.current, status.successor)) or any(
        one.scheduled_at for one in status.history
    )


def _times(status: TrainingJobStatus) -> tuple[timedelta | None, timedelta | None]:
    """How long the newest attempt that got a node waited for it, and from then on until its first step."""
    raised = scheduled = first = None
    for one in status.history:
        if one.scheduled_at:
            raised, scheduled, first = one.raised_at, one.scheduled_at, one.first_step_at
    if (current := status.current) and current.scheduled_at:
        raised, scheduled, first = current.raised_at, current.scheduled_at, current.progress_at
    acquire = max(scheduled - raised, timedelta(0)) if scheduled and raised else None
    return acquire, max(first - scheduled, timedelta(0)) if first and scheduled else None


def _message(outcome: Outcome, status: TrainingJobStatus, limits: tuple[str, str]) -> str:
    acquire, run = limits
    why = f": {status.decision.message}" if status.decision else ""
    match outcome:
        case Outcome.NO_NODE:
            return f"no node within {acquire}{why}"
        case Outcome.NOT_SEEN:
            return f"no operator has looked at the job within {acquire}: is holdfast-operator running?"
        case Outcome.NOT_DONE:
            return f"not done within {run}: {count(status.progress.step)} steps{why}"
        case Outcome.GONE:
            return "the probe was deleted by somebody else, such as another holdfast probe of the same job"
        case Outcome.FAILED:
            said = next((one for one in reversed(status.history) if one.message), None)
            failed = next((one.message for one in status.conditions if one.type == "Failed"), "")
            return f"{said.reason}: {said.message}" if said else failed or "the job failed"
        case Outcome.MEASURED:
            return ""


def limits_in_words(acquire: timedelta, run: timedelta) -> tuple[str, str]:
    """`2m`, `30m`, for messages."""
    return _short(acquire), _short(run)


def _short(value: timedelta) -> str:
    return format_duration(timedelta(seconds=round(value.total_seconds())))


def _number(text: str | None) -> float | None:
    return None if text is None else number(text)
