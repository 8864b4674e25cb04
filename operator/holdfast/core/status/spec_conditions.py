"""SettingsPending and Misconfigured: what an edit of the job, or of its profile, does; and what a person has to do."""

from typing import Final, NamedTuple

from holdfast.api.attempt import Attempt, AttemptState, EndReason
from holdfast.core.capacity.grid import find_tier, offers
from holdfast.core.draft import Draft
from holdfast.core.made_from import changed_fields, leaves_for, tier_changes
from holdfast.core.observe.members import inherited
from holdfast.core.status.columns import PROFILE_NOT_FOUND
from holdfast.core.status.conditions import drop_condition, find_condition, set_condition

PENDING: Final = "SettingsPending"
MISCONFIGURED: Final = "Misconfigured"
NEXT: Final = "NextAttempt"  # reason of SettingsPending


def show_spec_conditions(draft: Draft) -> None:
    """Set both conditions as status and spec say."""
    _show_pending(draft)
    _show_misconfigured(draft)


def _show_pending(draft: Draft) -> None:
    """SettingsPending, while the current attempt goes on with other values than spec, or its tier, has now."""
    found = find_pending(draft)
    if not found:
        drop_condition(draft, PENDING)
        return
    reason, text = found[-1].reason, "; ".join(one.text for one in found)
    known = find_condition(draft, PENDING)
    if known is None or known.message != text:
        draft.event(PENDING, text, warning=reason == PROFILE_NOT_FOUND)
    set_condition(draft, PENDING, "True", reason, text)


class Pending(NamedTuple):
    """What the attempt runs with otherwise than it would start now: a reason of the condition, and words."""

    reason: str
    text: str


def find_pending(draft: Draft) -> list[Pending]:
    """What is pending of spec, then of the tier. A pod that is yet to be created is made from what spec says then."""
    found, snapshot, current = list[Pending](), draft.snapshot, draft.status.current
    if current is None:
        return [_missing_profile(draft)] if draft.status.suspended_at and not snapshot.grid else found
    created = current.state is not AttemptState.INTENDED
    goes_on = f"attempt {current.number} goes on with the values that it was started with"
    changed, leaves = changed_fields(current, snapshot.job.spec), leaves_for(current, snapshot.job.spec)
    names = [name for name in changed if name not in leaves] if created else []
    if names:
        fields = ", ".join(f"spec.{name}" for name in names)
        found.append(Pending(NEXT, f"{fields}: {goes_on}; a change counts from the next attempt on"))
    if (created or inherited(current)) and not offers(snapshot.grid, current.tier):
        found.append(_pending_of_tier(draft, current))
    return found


def _missing_profile(draft: Draft, goes_on: str = "") -> Pending:
    """The profile is gone; `goes_on`: what goes on without it."""
    profile = draft.snapshot.job.spec.capacity.profile
    todo = "a new start needs the profile: create it, or name another one in spec.capacity.profile"
    return Pending(PROFILE_NOT_FOUND, f"capacity profile {profile} does not exist: {goes_on}{todo}")


def _pending_of_tier(draft: Draft, current: Attempt) -> Pending:
    """Why the attempt's tier is not in the grid as its pods are made, and what follows."""
    tier, grid, profile = current.tier, draft.snapshot.grid, draft.snapshot.job.spec.capacity.profile
    also = ", also in pods that replace lost ones" if current.nodes > 1 else ""
    goes_on = f"attempt {current.number} goes on with tier {tier.name} as it was started with{also}"
    if not grid:
        return _missing_profile(draft, f"{goes_on}; ")
    where = f"capacity profile {profile}" if profile else "spec.capacity.tiers"
    if (now := find_tier(grid, tier.name)) is None:
        listed = ", ".join(one.name for one in grid)
        return Pending(
            EndReason.TIER_REMOVED, f"{where} has no tier {tier.name}: {goes_on}; a new start is on one of {listed}"
        )
    changed = ", ".join(tier_changes(tier, now))
    return Pending(NEXT, f"{changed} of tier {tier.name} in {where}: {goes_on}; a change counts from a new start on")


def _show_misconfigured(draft: Draft) -> None:
    """Misconfigured, while the job is paused until a person corrects something; False from then on."""
    if wrong := draft.status.misconfigured:
        set_condition(draft, MISCONFIGURED, "True", wrong.reason, wrong.message)
    elif find_condition(draft, MISCONFIGURED):
        set_condition(draft, MISCONFIGURED, "False", "Corrected")
