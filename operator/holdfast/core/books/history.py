"""History: the records of attempts that are over. It has a bounded size, and each attempt is counted exactly once."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile

from holdfast.api.attempt import Attempt, AttemptRecord, EndKind, EndReason
from holdfast.api.profile import TierKind
from holdfast.api.status import TrainingJobStatus
from holdfast.core.books.ledger import add_record, settle, split
from holdfast.core.capacity.rotation import PAUSES
from holdfast.core.draft import Draft

LENGTH = 20
BYTES = 16 * 1024


def append(draft: Draft, record: AttemptRecord, kind: TierKind, *, nodes: int = 1) -> None:
    """Add the record of an attempt that is over. A record that no longer fits is dropped; the ledger still counts it.
    If the steps that its end has cost are not known by then, they will never be.

    `nodes`: how many it had at once.

    While no tier has a node, every walk of the grid adds a record every few minutes. Only the newest walk is kept, so
    that waiting does not push out older events.
    """
    before = (*_without_old_walks(draft.status.history, len(draft.snapshot.grid)), record)
    history = before
    while len(history) > LENGTH or sum(_size(entry) for entry in history) > BYTES:
        history = history[1:]
    ledger = add_record(draft.status.ledger, record, kind, nodes)
    if (cut_short := _interrupted(before)) is not None and before[cut_short] not in history:
        ledger = ledger.model_copy(update={"uncounted_restarts": ledger.uncounted_restarts + 1})
    # A successor may be over before the attempt that it was to follow.
    alive = (one.number for one in (draft.status.current, draft.status.successor) if one)
    kept = [*(entry.number for entry in history), *(number for number in alive if number != record.number)]
    folded = max(ledger.folded_through, min(kept, default=record.number + 1) - 1)
    draft.set(history=history, ledger=ledger.model_copy(update={"folded_through": folded}))


def not_stopped(history: Sequence[AttemptRecord]) -> list[AttemptRecord]:
    """The records of attempts that failed or were lost, or completed: one that the operator stopped, such as one that
    got no node, says nothing of the program or of a node.
    """
    return [record for record in history if record.kind is not EndKind.STOPPED]


def settle_interruption(
    draft: Draft,
    attempt: Attempt,
    first_step_at: datetime,
    resumed_step: int | None,
    *,
    counted: bool = True,
    lags: bool = False,
) -> None:
    """The first step of a new attempt shows the cost of the last interruption: lost time and repeated steps.

    `counted`: the program said where it resumed, or that it started over. Otherwise the repeated steps are not known.
    `lags`: the last step that a record has may be some steps behind the one that the attempt trained last. If it is not
    after the checkpoint, it shows nothing of repeated steps.
    """
    history = draft.status.history
    if (index := _interrupted(history)) is None:
        return
    before, since = history[index], _stopped_at(history[index:], attempt)
    if lags and before.steps_lost is None and (before.last_step or 0) <= (resumed_step or 0):
        counted = False
    lost = max((before.last_step or 0) - (resumed_step or 0), 0) if counted else None
    recovery = split(before, since, attempt, first_step_at, lost or 0)
    settled = _with_resumed_step(before, resumed_step).model_copy(
        update={"seconds_lost": max(first_step_at - since, timedelta(0)), "steps_lost": lost, "recovery": recovery}
    )
    ledger = settle(draft.status.ledger, before, settled, _lost_by_tier(history, settled))
    draft.set(history=(*history[:index], settled, *history[index + 1 :]), ledger=ledger)


def _stopped_at(history: Sequence[AttemptRecord], attempt: Attempt) -> datetime:
    """Since when nothing trains, from the attempt that was cut short, the first of `history`, on; up to `attempt`."""
    since = history[0].last_step_at or history[0].ended_at
    after = (*(one.raised_at for one in history[1:]), attempt.raised_at)
    for one, next_raised_at in zip(history, after, strict=True):
        if one.reason in PAUSES or one.kind is EndKind.MISCONFIGURED:
            since = max(since, next_raised_at)  # the job waited for a person: only the restart counts
    return since


def open_gap(status: TrainingJobStatus, now: datetime) -> timedelta:
    """How long nothing has trained since the last interruption, while no step has followed it: no sum has it yet."""
    index, current = _interrupted(status.history), status.current
    if index is None or current is None or current.first_step is not None:
        return timedelta(0)
    return max(now - _stopped_at(status.history[index:], current), timedelta(0))


def _interrupted(history: tuple[AttemptRecord, ...]) -> int | None:
    """The index of the attempt that the last interruption cut short; None if none trained since the one before.

    The first step of an attempt ends an interruption. So attempts with smaller numbers than the newest that took one
    are accounted for, even if their records are newer. Attempts that ended before a step of their own are a part of the
    same interruption. If reports of an attempt did not arrive, its last step may be all that is known: the one that
    came furthest was cut short.
    """
    newest = max((one.number for one in history if one.first_step is not None), default=0)
    trained = [index for index, one in enumerate(history) if one.number >= newest and _may_have_trained(one)]
    return max(trained, key=lambda index: history[index].last_step or 0, default=None)


def _may_have_trained(record: AttemptRecord) -> bool:
    """True if the attempt took a step of its own, or its last step may be one."""
    if record.seconds_lost is not None or record.last_step is None:
        return False
    return record.first_step is not None or record.last_step > (record.resumed_step or 0)


def _lost_by_tier(history: tuple[AttemptRecord, ...], settled: AttemptRecord) -> Counter[str]:
    """The lost steps of the settled attempt by the tier on which each was trained last.

    The next attempt may have gone back further than the settled one had begun, after a rollback or behind checkpoints
    that were not intact. Steps of an attempt that is no longer in history count for the tier of the settled one.
    """
    found: Counter[str] = Counter()
    last = settled.last_step or 0
    unclaimed = [(last - (settled.steps_lost or 0) + 1, last)]  # first and last step of each range
    for one in sorted(history, key=lambda record: -record.number):
        if one.number > settled.number or one.first_step is None or one.last_step is None:
            continue
        rest = []
        for first, end in unclaimed:
            begin, until = max(first, one.first_step), min(end, one.last_step)
            if begin <= until:
                found[one.tier] += until - begin + 1
                rest += [(first, begin - 1), (until + 1, end)]
            else:
                rest.append((first, end))
        unclaimed = rest
    found[settled.tier] += sum(max(end - first + 1, 0) for first, end in unclaimed)
    return found


def has_unsettled_interruption(history: tuple[AttemptRecord, ...]) -> bool:
    """True from an interruption of an attempt that trained until the first step after it, which shows what the
    interruption cost."""
    index = _interrupted(history)
    return index is not None and history[index].kind is EndKind.INTERRUPTION


def _with_resumed_step(record: AttemptRecord, resumed_step: int | None) -> AttemptRecord:
    """The record with the resumed step, which may be newer than the last step that the attempt reported."""
    if resumed_step is None or record.last_step is None or resumed_step <= record.last_step:
        return record
    done = record.steps_trained if record.first_step is None else resumed_step - record.first_step + 1
    return record.model_copy(update={"last_step": resumed_step, "steps_trained": done})


def _without_old_walks(history: tuple[AttemptRecord, ...], tiers: int) -> tuple[AttemptRecord, ...]:
    """History without the oldest of the timed-out attempts at its end, if they are more than one walk of the grid."""
    waited = list(takewhile(lambda record: record.reason == EndReason.ACQUIRE_TIMEOUT, reversed(history)))
    first = len(history) - len(waited)
    return history if len(waited) < max(tiers, 1) else (*history[:first], *history[first + 1 :])


@lru_cache(maxsize=8192)
def _size(record: AttemptRecord) -> int:
    """Bytes of the record as it is stored. Cached: it is asked at the end of every attempt and does not change."""
    return len(record.model_dump_json(by_alias=True, exclude_none=True).encode())
