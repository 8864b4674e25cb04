"""What work costs on a tier, and whether a move to a better tier pays: for policies without a deadline."""

from dataclasses import dataclass
from math import inf

from holdfast.core.capacity.deadline import proof, span
from holdfast.core.capacity.policy_input import TierView, View
from holdfast.core.capacity.work_price import MAX_RATIO, USUAL_RATIO

LEAST_USEFUL = 0.01  # share of the time on a tier that is useful at the very least


def useful(view: View, tier: TierView) -> float:
    """The share of time on a tier that is useful: each interruption costs a changeover and half of the work at risk."""
    lost = tier.changeover + view.at_risk / 2 / tier.speed
    return max(1.0 - lost / tier.lifetime, LEAST_USEFUL)


def cost_rate(view: View, tier: TierView) -> float | None:
    """Expected cost of an hour's work of the reference tier, with the changeover; None without a price."""
    if tier.unit_price is None:
        return None
    entry = view.changing if tier.name == view.tier else tier.changeover
    return tier.unit_price * (1 / useful(view, tier) + entry * tier.speed / max(view.work, 1.0))


@dataclass(frozen=True, slots=True)
class MoveValue:
    """Whether a job that trains should move to a better tier.

    `up_for` is for how many seconds the better tier has been up, `after` is how many are needed; infinite if the move
    does not pay at all.
    """

    after: float
    up_for: float

    @property
    def now(self) -> bool:
        """True if the job should move now."""
        return self.up_for >= self.after

    @property
    def in_words(self) -> str:
        """Why the job moves, or why it does not move yet."""
        if self.after == inf:
            return "going back no longer pays"
        if self.after == 0:
            return "it is up now"
        verb = "pays" if self.now else "pays only"
        return f"up for {span(self.up_for)}, and going back {verb} after {span(self.after)}"


def ratio(here: TierView, there: TierView) -> float:
    """How many times more expensive useful work is here than there.

    If a price is missing, or work here is not more expensive, the usual ratio of Spot, 3.
    """
    high, low = here.unit_price, there.unit_price
    if high is None or low is None or high <= low:
        return USUAL_RATIO
    return min(high / low, MAX_RATIO) if low else MAX_RATIO


def move_value(view: View, here: TierView, there: TierView) -> MoveValue:
    """The value of a move between two tiers. The job's return policy is not Never.

    A Spot tier must first be up for some time, because a new spell usually ends soon. A dependable tier need not.
    """
    up_for, times = there.spell_age or 0.0, ratio(here, there)
    if not _pays(view, here, there, times):
        return MoveValue(inf, up_for)
    if there.dependable or view.returns == "Eager":
        return MoveValue(0.0, up_for)
    return MoveValue(proof(view, (here.changeover + there.changeover) / 2, times, inf), up_for)


def replacement_pays(view: View, here: TierView, share: float) -> bool:
    """True if another node of the same tier saves clearly more time than it costs to get there.

    `share` is the share of the time that the present node wastes. It wastes it until the work is done, or the node is
    lost. A changeover counts twice, because the other node may have a fault of its own.
    """
    return min(view.work / here.speed, here.lifetime) * share > 2 * here.changeover


def _pays(view: View, here: TierView, there: TierView, times: float) -> bool:
    """True if a move saves more than it costs.

    It must save more than its changeover on the remaining work. If the node is expected to be lost before the work is
    done, it must also, in the node's lifetime, save more than the way there, the way back and the work that an
    interruption takes. Return policy Eager asks for the first only.
    """
    if view.work * (times - 1) <= there.changeover * there.speed:
        return False
    if view.returns == "Eager" or there.lifetime * there.speed >= view.work:
        return True
    cost = there.changeover + (here.changeover + view.at_risk / here.speed) * times
    return there.lifetime * (times - 1) > cost
