"""Policy Ordered: the order of the grid says what is better."""

from math import inf

from holdfast.core.capacity.deadline import LOOK
from holdfast.core.capacity.move_value import move
from holdfast.core.capacity.policy_input import Choice, TierView, View


def ordered(view: View) -> Choice:
    """The first tier that is not known to be out; a job that is well stays, until a tier above pays for the move."""
    here = view.here
    if here is None or here.available is False:
        free = [tier for tier in view.tiers if tier.available is not False]
        tier = (free or view.tiers)[0]
        why = "the first that may be had" if free else "nothing can be had now; wait for the first"
        return Choice(tier.name, f"{tier.name}: {why}", view.step, promised=False, watch=False)
    above = better_in_order(view)
    if not above:
        why = "the first of the grid" if here is view.tiers[0] else "returnPolicy is Never: stay"
        return Choice(here.name, f"{here.name}: {why}", LOOK, promised=False, watch=False)
    again, waits, watch = LOOK, "", False
    for tier in above:
        found = move(view, here, tier)
        watch = watch or found.after < inf
        if not tier.available:
            continue
        if found.now:
            return Choice(tier.name, f"{tier.name}: {found.in_words}", view.step, promised=False)
        again = max(min(again, found.after - found.held), 1.0)
        waits = waits or f"stay; {tier.name}: {found.in_words}"
    why = waits or ("nothing better can be had now" if watch else "stay; going back would not pay")
    return Choice(here.name, f"{here.name}: {why}", again, promised=False, watch=watch)


def better_in_order(view: View) -> tuple[TierView, ...]:
    """The tiers above the one that the job is on, best first; none if it does not want to go back."""
    here = view.here
    if here is None or view.returns == "Never":
        return ()
    return view.tiers[: view.tiers.index(here)]
