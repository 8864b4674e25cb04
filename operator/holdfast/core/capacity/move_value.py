"""What work costs on a tier, and whether going to a better one pays: for the policies that know no deadline."""

from dataclasses import dataclass
from math import inf

from holdfast.core.capacity.deadline import MAX_RATIO, USUAL_RATIO, proof, span
from holdfast.core.capacity.policy_input import TierView, View

LEAST_USEFUL = 0.01  # share of the time on a tier that is useful at the very least


def useful(view: View, tier: TierView) -> float:
    """The share of the time on a tier that is useful: each loss costs a changeover, and half of what is at risk."""
    lost = tier.changeover + view.at_risk / 2 / tier.speed
    return max(1.0 - lost / tier.life, LEAST_USEFUL)


def rate(view: View, tier: TierView) -> float | None:
    """Expected money for the work that the reference tier does in an hour, the way there included; None: no price."""
    if tier.unit_price is None:
        return None
    entry = view.changing if tier.name == view.tier else tier.changeover
    return tier.unit_price * (1 / useful(view, tier) + entry * tier.speed / max(view.work, 1.0))


@dataclass(frozen=True, slots=True)
class Move:
    """Whether to leave a tier on which the job is well for a better one.

    `held` is for how many seconds the better one has been up, `after` for how many it has to be; infinite if going
    does not pay at all.
    """

    after: float
    held: float

    @property
    def now(self) -> bool:
        """Whether it is time."""
        return self.held >= self.after

    @property
    def in_words(self) -> str:
        """Why, or why not yet."""
        if self.after == inf:
            return "going back would not pay any more"
        if self.after == 0:
            return "it can be had now"
        verb = "pays" if self.now else "pays only"
        return f"up for {span(self.held)}, and going back {verb} after {span(self.after)}"


def ratio(here: TierView, there: TierView) -> float:
    """How many times dearer useful work is here; if prices say nothing, or that it is not, as is usual for Spot."""
    dear, cheap = here.unit_price, there.unit_price
    if dear is None or cheap is None or dear <= cheap:
        return USUAL_RATIO
    return min(dear / cheap, MAX_RATIO) if cheap else MAX_RATIO


def move(view: View, here: TierView, there: TierView) -> Move:
    """The move between two tiers, at the job's return policy, which is not Never.

    Spot has to prove itself, for a fresh spell usually ends soon; a tier that nobody takes away does not.
    """
    held, times = there.held or 0.0, ratio(here, there)
    if not _pays(view, here, there, times):
        return Move(inf, held)
    if there.dependable or view.returns == "Eager":
        return Move(0.0, held)
    return Move(proof(view, (here.changeover + there.changeover) / 2, times, inf), held)


def _pays(view: View, here: TierView, there: TierView, times: float) -> bool:
    """Whether what is saved there is more than what the way costs: in the work that is left, and, if the node is not
    expected to be kept for so long, in its life, with the way back and what a loss takes. Eager asks for no more than
    the first.
    """
    if view.work * (times - 1) <= there.changeover * there.speed:
        return False
    if view.returns == "Eager" or there.life * there.speed >= view.work:
        return True
    cost = there.changeover + (here.changeover + view.at_risk / here.speed) * times
    return there.life * (times - 1) > cost
