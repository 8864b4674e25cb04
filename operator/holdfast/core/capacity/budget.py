"""The budget: what a job will have spent when it is done, and when it has to stop to spend no more than it may.

What was spent is exact. What is to come is an estimate, from the work left and where it is done.
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
class Forecast:
    """What the budget allows.

    `rest` is the money that the work left is expected to cost, None if that is not known. `short` says that the budget
    is not expected to last, `pause` to stop now, or not to start, so that no more than the budget is spent.
    `again_within` is when that has to be asked again at the latest, in seconds.
    """

    rest: Decimal | None
    short: bool
    pause: bool
    again_within: float
    reason: str


def forecast(
    budget: Decimal, spent: Decimal, view: View, tier: TierView, *, leaving: float, others: Decimal = Decimal(0)
) -> Forecast:
    """The forecast for a job that is on `tier`, or is to go there.

    `spent` holds all nodes up to now, `others` is the price of an hour of nodes besides that of this tier: those of a
    successor. `leaving` is for how many seconds a node is still paid for once the job is told to stop.
    """
    left, here = budget - spent, tier.name == view.tier
    hourly = others + (tier.price or Decimal(0))
    # To start is worth it only if there is money for as much work as the start takes.
    entry = 0.0 if here else 2 * tier.changeover
    needed = _money(hourly, entry + leaving)
    rest = rest_cost(view, tier)
    total = None if rest is None else spent + rest
    pause = hourly > 0 and left <= needed
    short = pause or (total is not None and total > budget)
    lasts = float(left / hourly) * HOUR - leaving - entry if hourly else inf
    said = f"{_round(spent)} of {budget} spent"
    if pause:
        what = "the next" if here else "starting for"
        words = f"{said}: {what} {span(entry + leaving)} on {tier.name} would cost {_round(needed)}"
    elif total is None:
        words = f"{said}; what the rest costs is not known"
    elif short:
        words = f"{said}; finishing on {tier.name} takes about {_round(rest)}: {_round(total - budget)} too much"
    else:
        words = f"{said}; finishing on {tier.name} takes about {_round(rest)}"
    if tier.price is None:
        words += f"; {tier.name} has no price and counts as free"
    return Forecast(rest, short, pause, min(max(lasts, 1.0), LOOK), words)


def rest_cost(view: View, tier: TierView) -> Decimal | None:
    """What it is expected to cost to finish on this tier; None if its price or the work is not known."""
    if tier.price is None or view.work == inf:
        return None
    entry = view.changing if tier.name == view.tier else tier.changeover
    return _money(tier.price, entry + view.work / tier.speed / useful(view, tier))


def _money(hourly: Decimal, seconds: float) -> Decimal:
    return (hourly * Decimal(round(min(seconds, LONGEST.total_seconds()))) / HOUR).quantize(MONEY)


def _round(money: Decimal | None) -> str:
    return format((money or Decimal(0)).quantize(CENT), "f")
