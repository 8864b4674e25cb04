"""Policy Ordered: the order of the grid says which tier is better."""

from math import inf

from holdfast.core.capacity.deadline import LOOK
from holdfast.core.capacity.move_value import move_value
from holdfast.core.capacity.policy_input import Choice, TierView, View


def ordered(view: View) -> Choice:
    """The first tier that is not known to be out, and does not rest. A job that trains stays until a move up pays."""
    here = view.here
    if here is None or here.available is False:
        free = [tier for tier in view.tiers if tier.available is not False]
        tier = ([tier for tier in free if not tier.resting] or free or view.tiers)[0]
        why = "the first that may be up" if free else "no tier is up now; wait for the first"
        return Choice(tier.name, f"{tier.name}: {why}", view.step, promised=False, watch=False)
    above = better_in_order(view)
    if not above:
        why = "returnPolicy is Never: stay" if view.returns == "Never" else "stay; the tiers above rest"
        why = "the first of the grid" if here is view.tiers[0] else why
        return Choice(here.name, f"{here.name}: {why}", LOOK, promised=False, watch=False)
    again, waits, watch = LOOK, "", False
    for tier in above:
        found = move_value(view, here, tier)
        watch = watch or found.after < inf
        if not tier.available:
            continue
        if found.now:
            return Choice(tier.name, f"{tier.name}: {found.in_words}", view.step, promised=False)
        again = max(min(again, found.after - found.up_for), 1.0)
        waits = waits or f"stay; {tier.name}: {found.in_words}"
    why = waits or ("no better tier is up now" if watch else "stay; going back does not pay")
    return Choice(here.name, f"{here.name}: {why}", again, promised=False, watch=watch)


def better_in_order(view: View) -> tuple[TierView, ...]:
    """The tiers above the job's own that do not rest, best first; empty if the return policy is Never."""
    here = view.here
    if here is None or view.returns == "Never":
        return ()
    return tuple(tier for tier in view.tiers[: view.tiers.index(here)] if not tier.resting)
