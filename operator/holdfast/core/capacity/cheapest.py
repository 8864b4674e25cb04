"""Policy Cheapest: lowest expected cost per useful step. It knows no deadline, and waits for nothing.

What a step costs on a tier: its price, at the pace that was measured there, over the share of time that is useful. The
rest goes into starts, which are paid for from the node to the first step, and into steps that a loss takes back.
"""

from math import inf

from holdfast.core.capacity.deadline import LOOK, WORTH_A_MOVE
from holdfast.core.capacity.move_value import move, rate
from holdfast.core.capacity.policy_input import Choice, TierView, View
from holdfast.core.capacity.rotation import whose_turn


def cheapest(view: View) -> Choice:
    """The tier, of those that may be had, on which work is expected to cost least; takes a few microseconds."""
    here = view.here
    if view.work <= 0:
        return Choice(here.name if here else None, "the work is done", LOOK, promised=False, watch=False)
    if here is None or here.available is False:
        return _anywhere(view)
    again, waits, watch = LOOK, "", False
    for tier in cheaper(view):
        found = move(view, here, tier)
        watch = watch or found.after < inf
        if not tier.available:
            continue
        if found.now:
            why = f"{_cost(view, tier)}, {_cost(view, here)} on {here.name}; {found.in_words}"
            return Choice(tier.name, f"{tier.name}: {why}", view.step, promised=False)
        again = max(min(again, found.after - found.held), 1.0)
        waits = waits or f"; {tier.name}: {_cost(view, tier)}, {found.in_words}"
    why = "nothing cheaper can be had now" if watch and not waits else "stay"
    return Choice(here.name, f"{here.name}: {_cost(view, here)}, {why}{waits}", again, promised=False, watch=watch)


def cheaper(view: View) -> list[TierView]:
    """The tiers on which work is clearly cheaper than where the job is, cheapest first; none if it never goes back."""
    here = view.here
    if here is None or view.returns == "Never" or (cost := rate(view, here)) is None:
        return []
    costs = [(found, tier) for tier in view.tiers if tier is not here and (found := rate(view, tier)) is not None]
    costs = [(found, tier) for found, tier in costs if found < cost * WORTH_A_MOVE]
    return [tier for _, tier in sorted(costs, key=lambda pair: pair[0])]


def _anywhere(view: View) -> Choice:
    """Nothing is running: the cheapest of the tiers that are not known to be out, else the cheapest to wait for.

    No tier is asked again before all that may be had were asked.
    """
    free = [tier for tier in view.tiers if tier.available is not False]
    turn = whose_turn(free)
    tier = min(turn or view.tiers, key=lambda one: _or_last(rate(view, one)))
    if not free:
        why = "nothing can be had now; wait for the cheapest"
    elif tier.refused is not None:
        why = f"{_cost(view, tier)}; all that may be had were asked in vain, and it longest ago"
    else:
        asked = ", and was not asked in vain" if len(turn) < len(free) else ""
        why = f"{_cost(view, tier)}, the cheapest of {len(turn)} that may be had{asked}"
    return Choice(tier.name, f"{tier.name}: {why}", view.step, promised=False, watch=False)


def _or_last(cost: float | None) -> float:
    return inf if cost is None else cost


def _cost(view: View, tier: TierView) -> str:
    """What work costs, in words."""
    cost = rate(view, tier)
    return "no price" if cost is None else f"{cost:.2f} for an hour's work"
