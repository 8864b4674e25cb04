"""The hard safety net: as long as it allows what the job does, a dependable tier still makes the deadline.

It is checked before any wish to save money, and knows nothing of prices.
"""

from typing import NamedTuple

from holdfast.core.capacity.policy_input import TierView, View


class Net(NamedTuple):
    """The dependable tier that finishes first, and what is left beyond the time it needs.

    `slack` is the time left minus the time of the work on that tier, without any changeover. `reserve` is what the way
    there can cost at worst: its worst changeover, and the work that a loss can cost done again.
    """

    tier: TierView
    slack: float
    reserve: float

    def room(self, view: View, tier: TierView | None) -> float:
        """How long the job may be on `tier` (None: on none) before only the net is left; negative: not at all.

        It is what remains of the slack if the tier is lost at the worst moment, less the step in which nobody asks.
        """
        if tier is None:
            return self.slack - self.reserve - view.step
        if tier.dependable:
            return max(self.slack - self.reserve - view.step, spare(view, tier))
        changing = view.changing if tier.name == view.tier else tier.worst_changeover
        blind = 0.0 if tier.available or tier.name == view.tier else view.step  # an attempt may end without a node
        return self.slack - changing - self.reserve - view.step * self.drift(tier) - blind

    def drift(self, tier: TierView) -> float:
        """Seconds of slack that an hour's second on `tier` uses up: 0 where it is as fast as the net, 1 where idle."""
        return max(1.0 - tier.speed / self.tier.speed, 0.0)


def spare(view: View, tier: TierView) -> float:
    """What is left at the end if the job goes to `tier` now, at the worst changeover, and stays; negative: late."""
    changing = view.changing if tier.name == view.tier else tier.worst_changeover
    return view.left - view.work / tier.speed - changing


def find_net(view: View) -> Net | None:
    """The net of this view, or None if no dependable tier is in the grid.

    Tiers that cannot be had now count only if no other can be had; the tier that the job is on is had.
    """
    best: Net | None = None
    best_key = (False, 0.0)
    for tier in view.tiers:
        if not tier.dependable:
            continue
        key = (tier.available is not False or tier.name == view.tier, spare(view, tier))
        if best is None or key > best_key:
            reserve = tier.worst_changeover + view.at_risk / tier.speed
            best, best_key = Net(tier, view.left - view.work / tier.speed, reserve), key
    return best
