"""The budget: what a job will have spent at its end, and when it must stop to stay within its budget.

The money spent so far is exact. The money still to come is an estimate from the remaining work and its tier.
"""

from dataclasses import dataclass
from decimal import Decimal
from math import inf

from holdfast.api.scalars import LONGEST
from holdfast.core.capacity.deadline import LOOK, span
from holdfast.core.capacity.move_value import useful
from holdfast.core.capacity.policy_input import TierView, View

CENT = Decimal("0.01")
MONEY = Decimal("0.0001")
HOUR = 3600


@dataclass(frozen=True, slots=True)
class BudgetForecast:
    """What the budget allows.

    `rest` is the expected cost of the remaining work, None if it is not known. `short`: the budget is not expected to
    be enough. `pause`: the job must stop now, or must not start, to stay within the budget. `again_within`: ask again
    after so many seconds at the latest.
    """

    rest: Decimal | None
    short: bool
    pause: bool
    again_within: float
    reason: str


def forecast(
    budget: Decimal, spent: Decimal, view: View, tier: TierView, *, leaving: float, others: Decimal = Decimal(0)
) -> BudgetForecast:
    """The budget forecast of a job that is on `tier`, or is to start there.

    `spent` is the cost of all nodes so far. `others` is the hourly price of nodes beside this tier's: those of a
    successor. `leaving` is for how many seconds a node is still paid for after the order to stop.
    """
    left, here = budget - spent, tier.name == view.tier
    hourly = others + (tier.price or Decimal(0))
    # A start pays only if there is money for at least as much work as the start takes: two changeovers.
    entry = 0.0 if here else 2 * tier.changeover
    needed = _money(hourly, entry + leaving)
    rest = rest_cost(view, tier)
    total = None if rest is None else spent + rest
    pause = hourly > 0 and left <= needed
    short = pause or (total is not None and total > budget)
    lasts = float(left / hourly) * HOUR - leaving - entry if hourly else inf
    so_far = f"{_round(spent)} of {budget} spent"
    if pause:
        what = "the next" if here else "starting for"
        words = f"{so_far}: {what} {span(entry + leaving)} on {tier.name} would cost {_round(needed)}"
    elif total is None:
        words = f"{so_far}; the cost of the remaining work is not known"
    elif short:
        words = f"{so_far}; finishing on {tier.name} costs about {_round(rest)}: {_round(total - budget)} too much"
    else:
        words = f"{so_far}; finishing on {tier.name} costs about {_round(rest)}"
    if tier.price is None:
        words += f"; {tier.name} has no price and counts as free"
    return BudgetForecast(rest, short, pause, min(max(lasts, 1.0), LOOK), words)


def rest_cost(view: View, tier: TierView) -> Decimal | None:
    """The expected cost of finishing on this tier; None if its price or the work is not known."""
    if tier.price is None or view.work == inf:
        return None
    entry = view.changing if tier.name == view.tier else tier.changeover
    return _money(tier.price, entry + view.work / tier.speed / useful(view, tier))


def _money(hourly: Decimal, seconds: float) -> Decimal:
    return (hourly * Decimal(round(min(seconds, LONGEST.total_seconds()))) / HOUR).quantize(MONEY)


def _round(money: Decimal | None) -> str:
    return format((money or Decimal(0)).quantize(CENT), "f")
