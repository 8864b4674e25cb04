"""Why a job is paused: spec.suspend, its budget, or something that a person has to correct."""

from datetime import timedelta
from decimal import Decimal
from typing import Literal

from holdfast.api.attempt import Attempt, EndReason
from holdfast.api.profile import ProfileTier
from holdfast.api.status import Ledger, Misconfigured
from holdfast.core.attempt import placement
from holdfast.core.books import ledger
from holdfast.core.capacity.budget import BudgetForecast, forecast
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft, Role
from holdfast.core.made_from import pods_hash
from holdfast.core.observe.members import is_waiting, paid_nodes
from holdfast.core.turn import take_turn

PauseReason = Literal[EndReason.SUSPENDED, EndReason.MISCONFIGURED, EndReason.BUDGET_EXCEEDED]


def pause_reason(draft: Draft) -> PauseReason | None:
    """Why the job must not run now, or None: spec.suspend, no attempt can work, or a budget that it would exceed."""
    if draft.snapshot.job.spec.suspend:
        return EndReason.SUSPENDED
    if draft.status.misconfigured:
        return EndReason.MISCONFIGURED
    found = budget_forecast(draft)
    is_over = _stays_paused(draft) if found is None else found.pause
    return EndReason.BUDGET_EXCEEDED if is_over else None


def _stays_paused(draft: Draft) -> bool:
    """True if the job is paused for a budget that nobody has changed since, while no tier says what an attempt costs:
    its profile is gone.
    """
    status, job = draft.status, draft.snapshot.job
    was_paused = status.suspended_at is not None and status.reason == EndReason.BUDGET_EXCEEDED
    return was_paused and not draft.snapshot.grid and status.observed_generation == job.metadata.generation


def pause_message(draft: Draft) -> str:
    """Why the job must not run now, in words."""
    if (wrong := draft.status.misconfigured) and not draft.snapshot.job.spec.suspend:
        return f"the job needs a correction: {wrong.reason}: {wrong.message}".rstrip(": ")
    if draft.snapshot.job.spec.suspend or (found := budget_forecast(draft)) is None:
        return "spec.suspend is true"
    return f"spec.capacity.budget: {found.reason}"


def pause_until_corrected(draft: Draft, attempt: Attempt, reason: str, message: str) -> None:
    """Pause the job: `attempt` ended in a way in which every attempt would end whose pods are made from the same."""
    used = [attempt.tier if tier.name == attempt.tier.name else tier for tier in draft.snapshot.grid]
    if used and attempt.tier not in used:
        used.append(attempt.tier)  # its tier may have been corrected since, or removed
    pods = pods_hash(attempt.made_from, used)
    found = Misconfigured(reason=reason, message=message, tier=attempt.tier.name, pods=pods, at=draft.now)
    draft.set(misconfigured=found)


def may_try_again(draft: Draft) -> bool:
    """True if the job was misconfigured, and its next pods may be made from other values, or a person suspends it.

    Another order of its tiers, or one more of them, may be what helps; a profile that is gone is not.
    """
    wrong, snapshot = draft.status.misconfigured, draft.snapshot
    if wrong is None:
        return False
    return snapshot.job.spec.suspend or (
        bool(snapshot.grid) and wrong.pods != pods_hash(draft.made_from, snapshot.grid)
    )


def try_again(draft: Draft) -> None:
    """Forget what was wrong: nobody knows any more."""
    draft.set(misconfigured=None)


def budget_forecast(draft: Draft) -> BudgetForecast | None:
    """What the budget allows on the tier that the job is on, or is to go to; None without a budget."""
    if draft.snapshot.job.spec.capacity.budget is None:
        return None
    return draft.memo("budget", lambda: _forecast(draft))


def costs_so_far(draft: Draft) -> Ledger:
    """The ledger up to now, with the nodes that a training on several nodes holds while it waits for the others."""
    waiting = [turn for role in Role if (turn := take_turn(draft, role)) and is_waiting(turn.attempt)]
    held = {str(turn.role): ledger.hold(turn.attempt, turn.pods, draft.now) for turn in waiting}
    return ledger.as_of(draft.status.model_copy(update=held), draft.snapshot.grid, draft.now)


def _forecast(draft: Draft) -> BudgetForecast | None:
    spec, config = draft.snapshot.job.spec, draft.snapshot.config
    answer, successor = placement.ask(draft), draft.status.successor
    if answer is None or spec.capacity.budget is None:
        return None
    if (seen := placement.view_of(answer, _tier(draft).name)) is None:
        return None
    beside = Decimal(0)
    if successor and (price := successor.tier.price_per_node_hour):
        beside = price * paid_nodes(successor)
    # After the last decision the pod gets its whole grace period, and its end is seen a moment later.
    leaving = spec.checkpoint.grace_period + config.end_margin + config.assumed.decision_gap
    return forecast(
        spec.capacity.budget,
        costs_so_far(draft).spent,
        answer.outlook.view,
        seen,
        leaving=leaving / timedelta(seconds=1),
        others=beside,
    )


def _tier(draft: Draft) -> ProfileTier:
    """The tier whose price counts against the budget.

    After a budget stop it stays the tier that was too expensive, so that the answer, and with it status, does not flip.
    """
    status = draft.status
    if status.current:
        return status.current.tier
    last = status.history[-1] if status.history else None
    stopped = find_tier(draft.snapshot.grid, last.tier) if last and last.reason == EndReason.BUDGET_EXCEEDED else None
    return stopped or placement.tier_to_start(draft)
