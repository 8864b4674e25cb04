"""Policy Cheapest: lowest expected cost per useful step. It ignores deadlines, and never waits for a better price.

The cost of a step on a tier is the tier's price, at the pace measured there, divided by the share of time that is
useful. The other share goes into starts, which are paid for from the node to the first step, and into steps that are
trained again after an interruption.
"""

from math import inf

from holdfast.core.capacity.deadline import LOOK
from holdfast.core.capacity.move_value import cost_rate, move_value
from holdfast.core.capacity.policy_input import Choice, TierView, View
from holdfast.core.capacity.rotation import whose_turn
from holdfast.core.capacity.work_price import WORTH_A_MOVE


def cheapest(view: View) -> Choice:
    """Of the tiers that may be up, the one with the lowest expected cost of work. Takes a few microseconds."""
    here = view.here
    if view.work <= 0:
        return Choice(here.name if here else None, "the work is done", LOOK, promised=False, watch=False)
    if here is None or here.available is False:
        return _anywhere(view)
    again, waits, watch = LOOK, "", False
    for tier in cheaper(view):
        found = move_value(view, here, tier)
        watch = watch or found.after < inf
        if not tier.available:
            continue
        if found.now:
            why = f"{_cost(view, tier)}, {_cost(view, here)} on {here.name}; {found.in_words}"
            return Choice(tier.name, f"{tier.name}: {why}", view.step, promised=False)
        again = max(min(again, found.after - found.up_for), 1.0)
        waits = waits or f"; {tier.name}: {_cost(view, tier)}, {found.in_words}"
    why = "no cheaper tier is up now" if watch and not waits else "stay"
    return Choice(here.name, f"{here.name}: {_cost(view, here)}, {why}{waits}", again, promised=False, watch=watch)


def cheaper(view: View) -> list[TierView]:
    """The tiers on which work is at least a tenth cheaper than where the job is, cheapest first.

    Empty if the return policy is Never.
    """
    here = view.here
    if here is None or view.returns == "Never" or (cost := cost_rate(view, here)) is None:
        return []
    costs = [(found, tier) for tier in view.tiers if tier is not here and (found := cost_rate(view, tier)) is not None]
    costs = [(found, tier) for found, tier in costs if found < cost * WORTH_A_MOVE]
    return [tier for _, tier in sorted(costs, key=lambda pair: pair[0])]


def _anywhere(view: View) -> Choice:
    """The choice of a job without a node: the cheapest tier that may be up; if all are out, the cheapest one.

    The job asks no tier again before it has asked all that may be up.
    """
    free = [tier for tier in view.tiers if tier.available is not False]
    turn = whose_turn(free)
    tier = min(turn or view.tiers, key=lambda one: _or_last(cost_rate(view, one)))
    if not free:
        why = "no tier is up now; wait for the cheapest"
    elif tier.refused_ago is not None:
        why = f"{_cost(view, tier)}; all tiers that may be up refused, this one longest ago"
    else:
        asked = ", and has not refused yet" if len(turn) < len(free) else ""
        why = f"{_cost(view, tier)}, the cheapest of {len(turn)} that may be up{asked}"
    return Choice(tier.name, f"{tier.name}: {why}", view.step, promised=False, watch=False)


def _or_last(cost: float | None) -> float:
    return inf if cost is None else cost


def _cost(view: View, tier: TierView) -> str:
    """The cost of work, in words."""
    cost = cost_rate(view, tier)
    return "no price" if cost is None else f"{cost:.2f} for an hour's work"
