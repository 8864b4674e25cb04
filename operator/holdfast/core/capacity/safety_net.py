"""The safety net: policy Deadline does only what still leaves time to finish on a dependable tier.

The cloud does not take a dependable tier away (Dedicated, CPU). The net is the dependable tier on which the job would
finish first. Policy Deadline checks the net before it tries to save money. The net does not look at prices.
"""

from typing import NamedTuple

from holdfast.core.capacity.policy_input import TierView, View


class Net(NamedTuple):
    """The net's tier, and the time that is left beyond what the job needs there.

    `slack` is the time to the deadline minus the time of the remaining work on that tier, without a changeover.
    `reserve` is what the way to that tier costs in the worst case: its worst changeover, and the work that an
    interruption makes the job repeat.
    """

    tier: TierView
    slack: float
    reserve: float

    def room(self, view: View, tier: TierView | None) -> float:
        """Seconds that the job may be on `tier` (None: on none) before it must go to the net; negative: not at all.

        This is the slack that is left if the tier is lost at the worst moment, minus one `step`: the longest time in
        which the policy is not asked.
        """
        if tier is None:
            return self.slack - self.reserve - view.step
        if tier.dependable and (tier is self.tier or not tier.speed_assumed):
            return max(self.slack - self.reserve - view.step, spare(view, tier))
        changing = view.changing if tier.name == view.tier else tier.worst_changeover
        unseen = 0.0 if tier.available or tier.name == view.tier else view.step  # the attempt may get no node
        return self.slack - changing - self.reserve - view.step * self.drift(tier) - unseen

    def drift(self, tier: TierView) -> float:
        """Seconds of slack that a second on `tier` uses up: 0 if it is as fast as the net, up to 1 if it is idle.

        If its speed is only assumed, it may be as good as idle.
        """
        return 1.0 if tier.speed_assumed and tier is not self.tier else max(1.0 - tier.speed / self.tier.speed, 0.0)


def spare(view: View, tier: TierView) -> float:
    """Seconds left at the deadline if the job goes to `tier` now at its worst changeover; negative: late."""
    changing = view.changing if tier.name == view.tier else tier.worst_changeover
    return view.left - view.work / tier.speed - changing


def find_net(view: View) -> Net | None:
    """The net of this view, or None if the grid has no dependable tier.

    A tier that is out counts only if every dependable tier is out, and one whose speed is only assumed only if there is
    no other. The tier that the job is on always counts as available.
    """
    best: Net | None = None
    best_key = (False, False, 0.0)
    for tier in view.tiers:
        if not tier.dependable:
            continue
        available = tier.available is not False or tier.name == view.tier
        key = (available, not tier.speed_assumed, spare(view, tier))
        if best is None or key > best_key:
            best, best_key = net_on(view, tier), key
    return best


def net_on(view: View, tier: TierView) -> Net:
    """The net of a job that keeps enough time to finish on this tier."""
    return Net(tier, view.left - view.work / tier.speed, tier.worst_changeover + view.at_risk / tier.speed)
