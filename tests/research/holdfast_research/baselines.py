"""Baselines: rules of other systems, to compare with. Each maps a View to a Choice, as core.capacity.deadline does.

Each takes the first Spot tier that is up, and otherwise the net's tier. All use the same safety net as policy Deadline,
so that only their costs differ:

- never_return, eager: the two readings of an ordered list of tiers, as in SkyPilot's managed jobs and in priorities of
  node pools. After an interruption the job goes down the list. It goes up again never, or as soon as Spot is up.
- greedy: wait for Spot as long as the deadline allows, then stay on dedicated.
- uniform_progress: Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines", NSDI'24, section 4:
  keep up with the straight line from no work at the start to all work at the deadline.
"""

from holdfast.core.capacity.policy_input import Choice, Rule, TierView, View
from holdfast.core.capacity.safety_net import Net, find_net

SOON = 60.0  # seconds; these rules are asked at every step


def never_return(deadline: float) -> Rule:
    """Spot if it is up at the start of a job with `deadline` seconds; after an interruption, dedicated to the end."""

    def rule(view: View) -> Choice:
        net, here = _net(view), view.here
        if here and _stays(view, net, here):
            return _go(here, watch=False)
        return _go((view.left >= deadline and _spot(view, net)) or net.tier, watch=False)

    return rule


def eager(view: View) -> Choice:
    """Spot whenever it is up, otherwise dedicated."""
    net, here = _net(view), view.here
    if here and here.kind == "Spot" and _stays(view, net, here):
        return _go(here, watch=False)
    return _go(_spot(view, net) or net.tier)


def greedy(view: View) -> Choice:
    """Spot whenever it is up, otherwise no tier until the net is reached."""
    net, here = _net(view), view.here
    if here and _stays(view, net, here):
        return _go(here, watch=False)
    if spot := _spot(view, net):
        return _go(spot)
    return _go(None if net.room(view, None) >= 0 else net.tier)


def uniform_progress(work: float, deadline: float) -> Rule:
    """Uniform Progress for a job of `work` seconds that has `deadline` seconds from its start.

    On no tier and behind the line: dedicated. On dedicated: back to Spot once the job has done as much as the line
    demands two changeovers from now. On no tier, Spot is taken whenever it is up.
    """

    def rule(view: View) -> Choice:
        net, here = _net(view), view.here
        done, now = work - view.work, deadline - view.left
        if here and here.kind == "Spot" and _stays(view, net, here):
            return _go(here, watch=False)
        spot = _spot(view, net)
        if here and here.dependable:
            changeover = max((tier.changeover for tier in view.tiers if tier.kind == "Spot"), default=0.0)
            ahead = done >= (now + 2 * changeover) * work / deadline
            return _go((ahead and spot) or here, watch=ahead)
        if spot:
            return _go(spot)
        behind = done < now * work / deadline or net.room(view, None) < 0
        return _go(net.tier if behind else None)

    return rule


def _net(view: View) -> Net:
    """The net. Raises ValueError if there is no dependable tier: these rules need one."""
    net = find_net(view)
    if net is None:
        raise ValueError("a baseline needs a dependable tier")
    return net


def _spot(view: View, net: Net) -> TierView | None:
    """The first Spot tier that is up, if the net allows the job to go there; otherwise None."""
    up = (tier for tier in view.tiers if tier.kind == "Spot" and tier.available and net.room(view, tier) >= 0)
    return next(up, None)


def _stays(view: View, net: Net, here: TierView) -> bool:
    return here.dependable or (here.available is not False and net.room(view, here) >= 0)


def _go(tier: TierView | None, *, watch: bool = True) -> Choice:
    return Choice(tier.name if tier else None, "baseline", SOON, watch=watch)
