"""Times that an earlier leader wrote by a clock that was ahead of this one.

A delay that starts at such a time would last longer by the difference of the two clocks, and an order to leave could
stay without an answer for an hour. So these times are pulled back to now, once, and deadlines by the same difference.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from holdfast.api.attempt import Attempt
from holdfast.api.model import Model
from holdfast.api.status import TrainingJobStatus
from holdfast.core.draft import Draft

Part = TypeVar("Part", bound=Model)

TOLERATED = timedelta(seconds=5)  # clocks of servers differ by less


class _Times(NamedTuple):
    """Names of the fields that say when something happened, and of the deadlines that were computed from them."""

    past: tuple[str, ...]
    deadlines: tuple[str, ...] = ()


_JOB = _Times(("started_at", "phase_since", "suspended_at", "ready_nodes_at"))
_PROGRESS, _NOTE, _TIER = _Times(("updated_at",)), _Times(("at",)), _Times(("since", "seen_at"), ("rests_until",))
_ATTEMPT = _Times(
    (
        "raised_at",
        "created_at",
        "scheduled_at",
        "started_at",
        "inherited_at",
        "held_since",
        "waits_since",
        "priced_at",
        "progress_at",
        "last_step_at",
    ),
    ("retry_at", "acquire_deadline", "return_after"),
)
_DRAIN = _Times(("at", "acknowledged_at", "deleted_at"), ("deadline", "kill_at"))
_DEPARTURE = _Times(("at",), ("deadline", "leave_at"))


def clock_difference(draft: Draft) -> timedelta | None:
    """How far if status has times that are clearly in the future: the clock of an earlier leader was ahead."""
    ahead = max(_all_past(draft.status), default=draft.now) - draft.now
    return ahead if ahead > TOLERATED else None


def pull_back(draft: Draft, ahead: timedelta) -> None:
    """Pull times at which something happened back to now, and deadlines by as much as that clock was ahead."""
    status, now = draft.status, draft.now
    draft.set(
        **_changes(status, _JOB, now, ahead),
        current=_attempt(status.current, now, ahead),
        successor=_attempt(status.successor, now, ahead),
        failed_at=tuple(min(at, now) for at in status.failed_at),
        progress=_pulled(status.progress, _PROGRESS, now, ahead),
        decision=status.decision and _pulled(status.decision, _NOTE, now, ahead),
        tiers=tuple(_pulled(one, _TIER, now, ahead) for one in status.tiers),
    )


def _all_past(status: TrainingJobStatus) -> Iterator[datetime]:
    """Every time in status at which something had happened when it was written."""
    yield from status.failed_at
    yield from _past(status, _JOB)
    yield from _past(status.progress, _PROGRESS)
    yield from _past(status.decision, _NOTE)
    for tier in status.tiers:
        yield from _past(tier, _TIER)
    for attempt in (status.current, status.successor):
        if attempt:
            yield from _past(attempt, _ATTEMPT)
            yield from _past(attempt.drain, _DRAIN)
            yield from _past(attempt.departure, _DEPARTURE)


def _past(part: Model | None, times: _Times) -> Iterator[datetime]:
    return (at for name in times.past if (at := getattr(part, name, None)) is not None)


def _attempt(attempt: Attempt | None, now: datetime, ahead: timedelta) -> Attempt | None:
    if attempt is None:
        return None
    # Another leader may have written the order to leave, by a clock that was right.
    drain, departure = (
        part and _pulled(part, times, now, max(max(_past(part, times)) - now, timedelta(0)))
        for part, times in ((attempt.drain, _DRAIN), (attempt.departure, _DEPARTURE))
    )
    changes = {**_changes(attempt, _ATTEMPT, now, ahead), "drain": drain, "departure": departure}
    return attempt.model_copy(update=changes)


def _pulled(part: Part, times: _Times, now: datetime, ahead: timedelta) -> Part:
    return part.model_copy(update=_changes(part, times, now, ahead))


def _changes(part: Model, times: _Times, now: datetime, ahead: timedelta) -> dict[str, Any]:
    """The fields of a part that lie in the future, as they are by this clock."""
    past = {name: now for name in times.past if (at := getattr(part, name)) and at > now}
    limits = {name: at for name in times.deadlines if (at := getattr(part, name)) and at > now}
    return past | {name: max(at - ahead, now) for name, at in limits.items()}
