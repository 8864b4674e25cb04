"""Suspend and resume a job, and end it at spec.activeDeadline."""

from datetime import datetime, timedelta

from holdfast.api.attempt import EndReason
from holdfast.api.scalars import format_duration
from holdfast.api.status import Phase
from holdfast.core import made_from
from holdfast.core.attempt import end
from holdfast.core.attempt.pause import PauseReason, pause_message, pause_reason
from holdfast.core.draft import Draft
from holdfast.core.turn import Turn


def must_pause(turn: Turn) -> PauseReason | None:
    """The reason if spec.suspend is set, or the job would exceed its budget."""
    return pause_reason(turn.draft)


def other_work(turn: Turn) -> tuple[str, ...] | None:
    """The fields if the attempt has to leave because spec names another program, goal or storage than it runs."""
    return made_from.leaves_for(turn.attempt, turn.draft.snapshot.job.spec) or None


def must_give_up(turn: Turn) -> EndReason | None:
    """The reason if the job must pause, or spec names another program, goal or storage than the attempt is to run."""
    is_other = made_from.other_work(turn.attempt, turn.draft.snapshot.job.spec)
    return must_pause(turn) or (EndReason.SPEC_CHANGED if is_other else None)


def must_be_marked(draft: Draft) -> PauseReason | None:
    """The reason if spec.suspend is set, or the job would exceed its budget, and status does not say so yet."""
    return pause_reason(draft) if draft.status.suspended_at is None else None


def mark_suspended(draft: Draft, reason: PauseReason) -> None:
    """Write down that the job is suspended: no attempt runs, and none is to run."""
    text = pause_message(draft)
    draft.set(suspended_at=draft.now, phase=Phase.SUSPENDED, reason=reason)
    draft.explain("Suspend", text)
    draft.event("Suspended", f"{text}; checkpoints are kept", warning=reason is not EndReason.SUSPENDED)


def may_resume(draft: Draft) -> datetime | None:
    """The time of the suspension if the job is suspended, and nothing pauses it any more."""
    return draft.status.suspended_at if draft.status.suspended_at and not pause_reason(draft) else None


def resume(draft: Draft, suspended_at: datetime) -> None:
    """End the suspension: the clock of activeDeadline runs again."""
    paused = draft.status.suspended_for + max(draft.now - suspended_at, timedelta(0))
    known = tuple(one.model_copy(update={"fruitless": None, "rests_until": None}) for one in draft.status.tiers)
    draft.set(suspended_at=None, suspended_for=paused, fruitless_interruptions=0, fruitless_attempts=0, tiers=known)
    draft.event("Resuming", "nothing pauses the job any more")


def past_active_deadline(draft: Draft) -> timedelta | None:
    """The limit if the job was active longer than spec.activeDeadline; time in suspension does not count."""
    limit, started = draft.snapshot.job.spec.active_deadline, draft.status.started_at
    if limit is None or started is None or draft.status.suspended_at:
        return None
    return limit if draft.is_due(started + draft.status.suspended_for + limit) else None


def fail_active_deadline(draft: Draft, limit: timedelta) -> None:
    """Fail the job: it took longer than the user allows."""
    text = f"the job was active longer than spec.activeDeadline ({format_duration(limit)})"
    end.fail_job(draft, EndReason.DEADLINE_EXCEEDED, text)
