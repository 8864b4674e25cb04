"""The Deadline rule ("thirds"): cheap while there is slack, never late.

Nobody knows how long Spot will stay. But in nearly every pool the longer it has been up, or out, the longer it stays
so: the hazard of a spell falls about as 1 / (age + 20 min). Hence the age of a spell decides. Spot that has come back
has to prove itself before a job leaves a dedicated tier for it, and an outage is waited for only while it is young.
How long follows from the slack per work left, u = slack / work, from how much dearer the fallback is than Spot, k,
both per useful hour, and from the changeover d:

    on Spot                      stay
    nowhere, Spot up             take it
    on the fallback              go back once Spot has held d * (1.5 / (k - 1) + 0.2 / u)
    nowhere, Spot out            u >= 1/4: wait; else go to the fallback after (d / 2) * sqrt(2 / (k - 1)) / (1 - 4 u)
    nowhere, the last slack      keep one round trip; below it, wait for as long as Spot could still be entered

Before any of that stands the net (holdfast.core.capacity.safety_net), which is all that the promise rests on.
The constants were found by simulation, not from one market: the rule comes within a hundredth of a dynamic programme
that assumes the hazard above. Related: Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines",
NSDI'24.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, sqrt

from holdfast.core.capacity.policy_input import Choice, TierView, View
from holdfast.core.capacity.rotation import whose_turn
from holdfast.core.capacity.safety_net import Net, find_net, spare

LOOK = 3600.0  # seconds; a choice is looked at again after an hour even if nothing happens
YOUNG = 1200.0  # seconds; the 20 minutes of the hazard
USUAL_RATIO = 3.0  # k where a price is not known: Spot is usually sold at a third
MAX_RATIO = 10.0  # beyond it, that Spot is even cheaper changes nothing
MIN_RATIO = 1.1  # below it, the thresholds would be longer than any job
WORTH_A_MOVE = 0.9  # another tier has to be a tenth cheaper before a job leaves a dependable one for it
PAID_PROOF = 0.5  # where the time in which Spot proves itself is paid for, it has to be shorter
WATCHED = 0.8  # of the time for which a node may be held beside the one that works, for the switch takes time too
AMPLE = 0.25  # u above which one can afford to wait for Spot for as long as it takes


def deadline(view: View) -> Choice:
    """The tier to be on, for the lowest cost that is known how to get at no risk for the deadline.

    Takes a few microseconds. Without a dedicated tier, or a CPU tier that is fast enough, nothing can be promised.
    """
    if view.work <= 0:
        return Choice(view.here.name if view.here else None, "the work is done", LOOK, watch=False)
    net = find_net(view)
    if net is None or (net.tier.kind == "CPU" and spare(view, net.tier) < 0):
        refused = (f"{tier.name} cannot be had now" for tier in view.tiers if tier.kind == "Dedicated")
        return _unpromised(view, next(refused, "no dedicated tier"))
    if net.tier.available is False and net.tier.name != view.tier:
        return _unpromised(view, f"{net.tier.name} cannot be had now")
    here = view.here
    late = _lateness(view, net.tier)
    if late >= 1:
        return _late(view, net, late)
    case = _Case(view, net, _fallback(view, net))
    if here is None or (here.dependable and here is not net.tier and spare(view, here) < 0):
        return _nowhere(case)
    if here.dependable:
        return _on_dependable(case, here)
    return _nowhere(case) if here.available is False else _on_spot(case, here)


def proof(view: View, trip: float, ratio: float, ample: float) -> float:
    """For how many seconds Spot must have been up before the fallback is left for it; `trip` is d, in seconds.

    Where it proves itself on a node that is paid for, it has to be done while the node may be held: better to trust it
    sooner than to give one node back after the other.
    """
    need = trip * (1.5 / (max(ratio, MIN_RATIO) - 1) + 0.2 / ample)
    return min(need * PAID_PROOF, view.watch_limit * WATCHED) if view.paid_watch else need


def patience(trip: float, ratio: float, ample: float) -> float:
    """For how many seconds an outage is waited for before the fallback is taken, in seconds; for ever if u is AMPLE."""
    return trip / 2 * sqrt(2 / (max(ratio, MIN_RATIO) - 1)) / (1 - ample / AMPLE) if ample < AMPLE else inf


@dataclass(frozen=True, slots=True)
class _Case:
    """A view with its net, and the dependable tier that costs least to finish on: the fallback."""

    view: View
    net: Net
    fallback: TierView

    @property
    def promised(self) -> bool:
        return spare(self.view, self.net.tier) >= 0

    @property
    def slack(self) -> float:
        """What is left beyond the work if all of it is done on the fallback; above 0."""
        return max(self.view.left - self.view.work / self.fallback.speed, 1.0)

    @property
    def ample(self) -> float:
        """u: slack per work."""
        return self.slack * self.fallback.speed / self.view.work

    def ratio(self, spot: TierView) -> float:
        """k: how many times dearer a useful hour on the fallback is."""
        dear, cheap = self.fallback.unit_price, spot.unit_price
        if dear is None or cheap is None:
            return USUAL_RATIO
        if cheap == 0:
            return MAX_RATIO if dear else 1.0
        return min(dear / cheap, MAX_RATIO)

    def pays(self, spot: TierView) -> bool:
        """Whether going from the fallback to this tier would pay if it were never lost."""
        return self.view.work * (self.ratio(spot) - 1) > spot.changeover * spot.speed

    def trip(self, spot: TierView) -> float:
        """d: the mean of the changeovers to the fallback and back."""
        return (spot.changeover + self.fallback.changeover) / 2

    def spots(self) -> list[TierView]:
        """The Spot tiers that are cheaper than the fallback."""
        return [tier for tier in self.view.tiers if tier.kind == "Spot" and self.ratio(tier) > 1]

    def choose(self, tier: TierView | None, why: str, again: float = LOOK, *, watch: bool = True) -> Choice:
        """A choice; `again` is kept within reason."""
        name = tier.name if tier else None
        said = f"{name or 'wait'}: {why}"
        return Choice(name, said, min(max(again, 1.0), LOOK), promised=self.promised, watch=watch)

    def go(self, why: str) -> Choice:
        """To the net, since no slack is left for anything else."""
        said = f"{self.net.tier.name}: only {self.left()}: {why}"
        return Choice(self.net.tier.name, said, LOOK, promised=self.promised, urgent=True)

    def left(self) -> str:
        """Slack and work, in words."""
        return f"{span(max(self.net.slack, 0.0))} of slack for {span(self.view.work)} of work"


def _on_spot(case: _Case, here: TierView) -> Choice:
    """Stay, for as long as a loss at the worst moment would still leave the net."""
    view, net = case.view, case.net
    room = net.room(view, here)
    if room < 0:
        return case.go(f"a loss of {here.name} could make the job late")
    if case.ratio(here) < WORTH_A_MOVE and case.fallback.available and view.returns != "Never":
        return case.choose(case.fallback, f"it is cheaper than {here.name} now")
    drift = net.drift(here)
    again = room / drift if drift else LOOK
    return case.choose(here, f"up for {span(here.held)}, stay; {case.left()}", again, watch=False)


def _on_dependable(case: _Case, here: TierView) -> Choice:
    """Go back to Spot once it has proved itself."""
    view, net, fallback = case.view, case.net, case.fallback
    if view.returns == "Never":
        return case.choose(here, f"in time, and returnPolicy is Never: stay; {case.left()}", watch=False)
    if fallback is not here:
        return case.choose(fallback, f"it is cheaper to finish on than {here.name}")
    spots = [spot for spot in case.spots() if case.pays(spot)]
    if not spots:
        return case.choose(here, "no Spot tier can save anything now, stay until the work is done", watch=False)
    if max(net.slack - spot.worst_changeover - net.reserve for spot in spots) < 0:
        why = f"only {case.left()}: too little to leave for Spot, stay until the work is done"
        return case.choose(here, why, watch=False)
    spot = _best(spots, available=True)
    if spot is None:
        out = all(tier.available is False for tier in spots)
        return case.choose(here, f"{'Spot is out' if out else 'nobody sees Spot up'}, stay; {case.left()}")
    if net.room(view, spot) < 0:
        return case.choose(here, f"too little slack, stay; {case.left()}")
    held = spot.held or 0.0
    need = proof(view, case.trip(spot), case.ratio(spot), case.ample)
    if held >= need or view.returns == "Eager":
        pays = "returnPolicy is Eager" if view.returns == "Eager" else f"going back pays after {span(need)}"
        return case.choose(spot, f"up for {span(held)}, and {pays}; {case.left()}", view.step)
    why = f"{spot.name} is back for {span(held)}; going back pays once it has held {span(need)}"
    return case.choose(here, f"{why}; {case.left()}", need - held)


def _nowhere(case: _Case) -> Choice:
    """Nothing is running, or only something too slow: take Spot, wait for it, or go to the fallback."""
    view, net, fallback = case.view, case.net, case.fallback
    spots = case.spots()
    if not spots:
        return case.choose(fallback, f"no Spot tier is cheaper; {case.left()}")
    for known in (True, None):
        spot = _best(spots, available=known)
        if spot and net.room(view, spot) >= 0:
            return case.choose(spot, f"{'up, take it' if known else 'try it'}; {case.left()}", view.step)
    room = net.room(view, None)
    if room < 0:
        return case.go("it is time to go")
    enter = net.reserve + min(spot.worst_changeover for spot in spots)
    trip = enter + fallback.worst_changeover
    if net.slack <= enter:
        return case.choose(fallback, f"{case.left()} is too little for Spot")
    if net.slack < trip:
        return _wait(case, spots, f"{case.left()}: hold out for Spot while it can still be used", room)
    if net.slack < trip + view.step:
        return case.choose(fallback, f"{case.left()}: keep one round trip to Spot in reserve")
    until = min(net.slack - trip - view.step, room)
    if case.ample >= AMPLE:
        ample = case.slack - AMPLE * view.work / fallback.speed
        return _wait(case, spots, f"{case.left()}, ample: wait for Spot", min(until, ample or view.step))
    out = min((spot.held or 0.0) for spot in spots)
    wait = patience(min(map(case.trip, spots)), min(map(case.ratio, spots)), case.ample)
    if out >= wait:
        return case.choose(fallback, f"Spot is out for {span(out)}, and {span(wait)} can be waited; {case.left()}")
    why = f"Spot is out for {span(out)}; wait up to {span(wait)}"
    return _wait(case, spots, f"{why}; {case.left()}", min(until, wait - out))


def _wait(case: _Case, spots: list[TierView], why: str, again: float) -> Choice:
    """Wait for Spot; on a tier too slow for the deadline if its work is no dearer than Spot's, else on none."""
    cheapest = min((spot.unit_price for spot in spots if spot.unit_price is not None), default=None)
    for tier in case.view.tiers:
        slow = tier.dependable and tier.available and spare(case.view, tier) < 0
        if slow and cheapest is not None and tier.unit_price is not None and tier.unit_price <= cheapest:
            return case.choose(tier, f"it is slow, but cheap; {why}", again)
    return case.choose(None, why, again)


def _fallback(view: View, net: Net) -> TierView:
    """The dependable tier that is cheapest to finish on, of those that can be had and are in time; else the net's."""
    best, lowest = net.tier, inf
    for tier in view.tiers:
        if not tier.dependable or (tier.available is False and tier.name != view.tier) or spare(view, tier) < 0:
            continue
        here = tier.name == view.tier
        changing = view.changing if here else tier.changeover
        unit = inf if tier.unit_price is None else tier.unit_price
        cost = unit * (view.work + changing * tier.speed) * (WORTH_A_MOVE if here else 1.0)
        if cost < lowest or (here and cost == lowest):
            best, lowest = tier, cost
    return best


def _best(spots: Iterable[TierView], *, available: bool | None) -> TierView | None:
    """Of those, the one whose useful hour is cheapest, each loss costing a changeover: the oldest, weighed by price."""
    best, lowest = None, inf
    for spot in spots:
        if spot.available is available:
            unit = 1.0 if spot.unit_price is None else spot.unit_price
            cost = unit * (1 + spot.changeover / ((spot.held or 0.0) + YOUNG))
            if best is None or cost < lowest:
                best, lowest = spot, cost
    return best


def _lateness(view: View, tier: TierView) -> float:
    """By how many seconds the job is late if it goes to this tier now and all goes well; negative: in time."""
    changing = view.changing if tier.name == view.tier else tier.changeover
    return view.work / tier.speed + changing - view.left


def _late(view: View, net: Net, late: float) -> Choice:
    name = net.tier.name
    why = "the deadline is over" if view.left <= 0 else f"the deadline is in {span(view.left)}"
    return Choice(
        name,
        f"{name}: {why}, the work takes {span(view.work / net.tier.speed)} here: {span(late)} late if nothing is lost",
        LOOK,
        late=late,
        promised=False,
        watch=False,
    )


def _unpromised(view: View, why: str) -> Choice:
    """No net: be as fast as can be. Stay on Spot while it holds; else Spot, a dedicated tier, a CPU tier, as they come.

    If nothing can be had, a dedicated tier is waited for: whoever gets it keeps it.
    """
    here = view.here
    why = f"{why}, so the deadline cannot be promised"
    if here and here.kind == "Spot" and here.available is not False:
        tier, why = here, f"up for {span(here.held)}, stay; {why}"
    else:
        turn = whose_turn([tier for tier in view.tiers if tier.available is not False or tier is here])
        spots = [tier for tier in turn if tier.kind == "Spot"]
        may = [tier for kind in ("Dedicated", "CPU") for tier in turn if tier.kind == kind]
        dedicated = [tier for tier in view.tiers if tier.kind == "Dedicated"]
        chosen = _best(spots, available=True) or _best(spots, available=None) or next(iter((*may, *dedicated)), None)
        if chosen is None:
            late = 0.0 if view.left > 0 else view.work - view.left
            return Choice(None, f"wait: no tier can be had; {why}", view.step, late=late, promised=False)
        tier = chosen
        why = f"{'up, take it' if tier.available else 'try it'}; {why}"
    return Choice(tier.name, f"{tier.name}: {why}", view.step, late=max(_lateness(view, tier), 0.0), promised=False)


def span(seconds: float | None) -> str:
    """A span of time as people say it: 40 s, 25 min, 3.2 h, 4.0 d."""
    if seconds is None:
        return "an unknown time"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 259_200 else f"{seconds / 86400:.1f} d"
