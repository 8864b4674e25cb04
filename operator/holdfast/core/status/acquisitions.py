"""How long attempts waited for their nodes, as two consecutive statuses show it."""

from dataclasses import dataclass
from datetime import timedelta

from holdfast.api.attempt import Attempt
from holdfast.api.profile import TierKind
from holdfast.api.status import TrainingJobStatus

GOT, GAVE_UP = RESULTS = ("Acquired", "GaveUp")


@dataclass(frozen=True, slots=True)
class Acquisition:
    """The end of one attempt's wait for nodes."""

    kind: TierKind
    """Kind of the tier."""
    result: str
    """One of RESULTS."""
    took: timedelta
    """Time since the attempt was decided."""


def acquisitions(before: TrainingJobStatus, after: TrainingJobStatus) -> tuple[Acquisition, ...]:
    """The waits that ended between two statuses. One that was not written down before it ended is left out."""
    waited = [one for one in (before.current, before.successor) if one is not None and one.scheduled_at is None]
    return tuple(found for one in waited if (found := _end_of(one, after)) is not None)


def _end_of(attempt: Attempt, after: TrainingJobStatus) -> Acquisition | None:
    for one in (after.current, after.successor):
        if one is not None and one.number == attempt.number:
            if one.scheduled_at is None:
                return None
            return Acquisition(one.tier.kind, GOT, _positive(one.scheduled_at - attempt.raised_at))
    for record in after.history:
        if record.number == attempt.number:
            if record.scheduled_at is not None:
                return Acquisition(attempt.tier.kind, GOT, _positive(record.scheduled_at - attempt.raised_at))
            return Acquisition(attempt.tier.kind, GAVE_UP, _positive(record.ended_at - attempt.raised_at))
    return None


def _positive(span: timedelta) -> timedelta:
    """At least 0: clocks of two machines may differ."""
    return max(span, timedelta(0))
