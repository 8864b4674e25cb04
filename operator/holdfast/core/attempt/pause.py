"""What holds a job back although nothing is wrong with it: its user's word, or its budget."""

from datetime import timedelta
from decimal import Decimal
from typing import Literal

from holdfast.api.profile import ProfileTier
from holdfast.core.attempt import placement
from holdfast.core.books import ledger
from holdfast.core.capacity.budget import BudgetForecast, forecast
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft

Hold = Literal["Suspended", "BudgetExceeded"]


def held_back(draft: Draft) -> Hold | None:
    """Why the job must not run now, or None: spec.suspend, or a budget that it would exceed."""
    if draft.snapshot.job.spec.suspend:
        return "Suspended"
    found = outlay(draft)
    return "BudgetExceeded" if found is not None and found.pause else None


def why_held(draft: Draft) -> str:
    """What holds the job back, in words."""
    if draft.snapshot.job.spec.suspend or (found := outlay(draft)) is None:
        return "spec.suspend is true"
    return f"spec.capacity.budget: {found.reason}"


def outlay(draft: Draft) -> BudgetForecast | None:
    """What the budget allows, for the tier that the job is on or is to go to; None without a budget."""
    if draft.snapshot.job.spec.capacity.budget is None or not draft.snapshot.grid:
        return None
    return draft.once("outlay", lambda: _forecast(draft))


def _forecast(draft: Draft) -> BudgetForecast | None:
    spec, config, tiers = draft.snapshot.job.spec, draft.snapshot.config, draft.snapshot.grid
    answer, tier, successor = placement.ask(draft), _tier(draft), draft.status.successor
    if answer is None or spec.capacity.budget is None or (seen := placement.view_of(answer, tier.name)) is None:
        return None
    beside = successor.tier.price_per_node_hour if successor and successor.scheduled_at else None
    # After the last look the pod gets the whole of its grace, and an end is seen a moment later.
    leaving = spec.checkpoint.grace_period + config.end_margin + config.assumed.decision_gap
    return forecast(
        spec.capacity.budget,
        ledger.as_of(draft.status, tiers, draft.now).spent,
        answer.outlook.view,
        seen,
        leaving=leaving / timedelta(seconds=1),
        others=beside or Decimal(0),
    )


def _tier(draft: Draft) -> ProfileTier:
    """The tier to pay for. What could not be paid for is asked about until it can: nothing else would be quiet."""
    status = draft.status
    if status.current:
        return status.current.tier
    last = status.history[-1] if status.history else None
    stopped = find_tier(draft.snapshot.grid, last.tier) if last and last.reason == "BudgetExceeded" else None
    return stopped or placement.tier_to_start(draft)
