"""TierResting: the condition of a job that leaves a tier out for a while, because its attempts there were fruitless."""

from holdfast.api.scalars import say_time
from holdfast.core.attempt.placement import in_order
from holdfast.core.capacity.knowledge import find, resting
from holdfast.core.draft import Draft
from holdfast.core.status.conditions import find_condition, set_condition

CONDITION = "TierResting"


def show_resting_tiers(draft: Draft) -> None:
    """Say which tiers of the grid rest, why, and until when. Only tiers that are tried in their order rest."""
    status, tiers = draft.status, [tier.name for tier in draft.snapshot.grid]
    rests, over = resting(status.tiers, draft.now), status.is_over
    names = [name for name in tiers if name in rests] if rests and not over and in_order(draft) else []
    before = find_condition(draft, CONDITION)
    if not names:
        if before and before.status == "True":
            set_condition(draft, CONDITION, "False", "NotResting")
        return
    draft.is_due(min(rests[name] for name in names))  # until then nothing changes by itself
    said = "; ".join(_sentence(draft, name) for name in names)
    text = f"{said}; no other tier is left, so attempts go on" if len(names) == len(tiers) else said
    if before is None or (before.status, before.message) != ("True", text):
        draft.event(CONDITION, text, warning=True)
    set_condition(draft, CONDITION, "True", "FruitlessAttempts", text)


def _sentence(draft: Draft, tier: str) -> str:
    known = find(draft.status.tiers, tier)
    if known is None or known.rests_until is None:
        return tier
    until, count = say_time(known.rests_until), known.fruitless
    return f"{tier}: {count} attempts in a row ended before they made progress; it is left out until {until}"
