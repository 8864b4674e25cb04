"""History: attempts that are over, bounded, each counted exactly once."""

from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile

from holdfast.api.attempt import AttemptRecord
from holdfast.api.profile import TierKind
from holdfast.core.books.ledger import add_record, settle, split
from holdfast.core.draft import Draft, Role

LENGTH = 20
BYTES = 16 * 1024


def append(draft: Draft, record: AttemptRecord, kind: TierKind) -> None:
    """Add the record of an attempt that is over; what no longer fits is only remembered in the ledger.

    While no tier has a node, a walk of the grid adds a record every few minutes. Only the newest walk is kept, so that
    waiting does not push out what happened before.
    """
    history = (*_without_old_walks(draft.status.history, len(draft.snapshot.grid)), record)
    while len(history) > LENGTH or sum(_size(entry) for entry in history) > BYTES:
        history = history[1:]
    ledger = add_record(draft.status.ledger, record, kind)
    # A successor may be over before the attempt that it was to follow.
    other = draft.status.successor if draft.role is Role.CURRENT else draft.status.current
    kept = [entry.number for entry in history] + ([other.number] if other else [])
    folded = max(ledger.folded_through, min(kept, default=record.number + 1) - 1)
    draft.set(history=history, ledger=ledger.model_copy(update={"folded_through": folded}))


def settle_loss(draft: Draft, first_step_at: datetime, resumed_step: int | None) -> None:
    """The first step of a new attempt tells what the last interruption cost: time not trained, steps done twice."""
    history, attempt = draft.status.history, draft.attempt
    index = next((i for i in reversed(range(len(history))) if history[i].last_step is not None), None)
    if index is None or history[index].seconds_lost is not None:
        return
    before = history[index]
    since = before.last_step_at or before.ended_at
    if before.reason in ("Suspended", "BudgetExceeded"):  # that time was the user's choice; only coming back costs
        since = max(since, attempt.raised_at)
    lost = max((before.last_step or 0) - (resumed_step or 0), 0)
    recovery = split(before, since, attempt, first_step_at, lost)
    settled = _as_proved(before, resumed_step).model_copy(
        update={"seconds_lost": max(first_step_at - since, timedelta(0)), "steps_lost": lost, "recovery": recovery}
    )
    ledger = settle(draft.status.ledger, before, settled)
    draft.set(history=(*history[:index], settled, *history[index + 1 :]), ledger=ledger)


def _as_proved(record: AttemptRecord, resumed_step: int | None) -> AttemptRecord:
    """What is resumed was computed: the attempt came further than it could say before its node was gone."""
    if resumed_step is None or record.last_step is None or resumed_step <= record.last_step:
        return record
    done = record.steps if record.first_step is None else resumed_step - record.first_step + 1
    return record.model_copy(update={"last_step": resumed_step, "steps": done})


def _without_old_walks(history: tuple[AttemptRecord, ...], tiers: int) -> tuple[AttemptRecord, ...]:
    """History without the oldest of the timed-out attempts at its end, if they are more than one walk of the grid."""
    waited = list(takewhile(lambda record: record.reason == "AcquireTimeout", reversed(history)))
    first = len(history) - len(waited)
    return history if len(waited) < max(tiers, 1) else (*history[:first], *history[first + 1 :])


@lru_cache(maxsize=8192)
def _size(record: AttemptRecord) -> int:
    """Bytes of the record as it is stored. It is asked at every end of a job's attempts, and does not change."""
    return len(record.model_dump_json(by_alias=True, exclude_none=True).encode())
