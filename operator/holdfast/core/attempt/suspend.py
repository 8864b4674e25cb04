"""Suspend and resume a job, and end it at spec.activeDeadline."""

from datetime import timedelta

from holdfast.api.scalars import format_duration
from holdfast.api.status import Phase
from holdfast.core.attempt import end
from holdfast.core.attempt.pause import held_back, why_held
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Situation


def suspend_before_start(draft: Draft, s: Situation) -> None:
    """Suspended while waiting for a node: the pending pod goes, nothing is counted."""
    end.stop_before_start(draft, s, held_back(draft) or "Suspended")


def suspended(draft: Draft, s: Situation) -> None:
    """Nothing runs and nothing is to run."""
    hold, why = held_back(draft), why_held(draft)
    draft.set(suspended_at=s.now, phase=Phase.SUSPENDED, reason=hold)
    draft.say("Suspend", why)
    draft.event("Suspended", f"{why}; checkpoints are kept", warning=hold != "Suspended")


def resume(draft: Draft, s: Situation) -> None:
    """The suspension is over, or the budget was raised: the clock of activeDeadline runs again."""
    if draft.status.suspended_at is None:
        raise AssertionError("only a suspended job resumes")
    paused = draft.status.suspended_for + max(s.now - draft.status.suspended_at, timedelta(0))
    draft.set(suspended_at=None, suspended_for=paused, fruitless_losses=0)
    draft.event("Resuming", "nothing holds the job back any more")


def past_active_deadline(draft: Draft, s: Situation) -> bool:
    """True if the job has been active longer than spec.activeDeadline; time in suspension does not count."""
    limit, started = draft.snapshot.job.spec.active_deadline, draft.status.started_at
    if limit is None or started is None or draft.status.suspended_at:
        return False
    at = started + draft.status.suspended_for + limit
    if s.now < at:
        draft.wake(at)
    return s.now >= at


def fail_active_deadline(draft: Draft, s: Situation) -> None:
    """The job took longer than the user allows."""
    limit = draft.snapshot.job.spec.active_deadline
    text = f"the job was active longer than spec.activeDeadline ({format_duration(limit)})" if limit else ""
    end.give_up(draft, s, "DeadlineExceeded", text)
