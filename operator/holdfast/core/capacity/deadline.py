"""Policy Deadline ("thirds"): as cheap as possible while there is slack, and never late.

Nobody knows how long Spot stays up. But in nearly every pool, the longer a spell (up or out) has lasted, the longer it
goes on: its hazard falls about as 1 / (age + 20 min). So the policy decides by the age of a spell. Before a job leaves
a dedicated tier for Spot, Spot must have been up for some time. A job waits for Spot only while the outage is young.
These times depend on three numbers:

    u  slack / work: how much time may be wasted for each hour of work that is left
    k  how many times more expensive a useful hour on the fallback is than on Spot
    d  the changeover

The fallback is the dependable tier on which it costs least to finish. The rules:

    on Spot                      stay
    on no tier, Spot is up       take Spot
    on the fallback              go back to Spot after it has been up for d * (1.5 / (k - 1) + 0.2 / u)
    on no tier, Spot is out      u >= 1/4: wait; otherwise wait (d / 2) * sqrt(2 / (k - 1)) / (1 - 4 u),
                                 then go to the fallback
    on no tier, little slack     keep enough slack for one round trip to Spot; once it is used up,
                                 wait only as long as Spot could still be used

The safety net (holdfast.core.capacity.safety_net) is checked before these rules. The promise rests on the net alone.
The constants were found by simulation on several markets. The costs are within a hundredth of those of a dynamic
programme that assumes the hazard above. Related: Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under
Deadlines", NSDI'24.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, sqrt

from holdfast.core.capacity.policy_input import Choice, TierView, View
from holdfast.core.capacity.rotation import whose_turn
from holdfast.core.capacity.safety_net import Net, find_net, spare

LOOK = 3600.0  # seconds; the policy is asked again after an hour even if nothing happens
YOUNG = 1200.0  # seconds; the 20 minutes of the hazard
USUAL_RATIO = 3.0  # k where a price is not known: Spot is usually sold at a third
MAX_RATIO = 10.0  # above it, an even cheaper Spot changes nothing
MIN_RATIO = 1.1  # below it, the thresholds would be longer than any job
WORTH_A_MOVE = 0.9  # a job leaves a dependable tier only for one that is a tenth cheaper
PAID_PROOF = 0.5  # share of `proof` that is required where a job pays to watch Spot
WATCHED = 0.8  # share of View.watch_limit in which Spot must have proved itself: the switch takes time too
AMPLE = 0.25  # u above which the job can afford to wait for Spot as long as it takes


def deadline(view: View) -> Choice:
    """The tier to be on, for the lowest cost that is possible without a risk for the deadline.

    Takes a few microseconds. Nothing can be promised without a dedicated tier or a CPU tier that is fast enough.
    """
    if view.work <= 0:
        return Choice(view.here.name if view.here else None, "the work is done", LOOK, watch=False)
    net = find_net(view)
    if net is None or (net.tier.kind == "CPU" and spare(view, net.tier) < 0):
        refused = (f"{tier.name} is out" for tier in view.tiers if tier.kind == "Dedicated")
        return _unpromised(view, next(refused, "no dedicated tier"))
    if net.tier.available is False and net.tier.name != view.tier:
        return _unpromised(view, f"{net.tier.name} is out")
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
    """For how many seconds Spot must have been up before a job leaves the fallback for it; `trip` is d in seconds.

    Where a job pays for a node to watch Spot, the time is shorter, and ends while that node may still run beside the
    other. To trust Spot too early costs less than to give back one paid node after the other.
    """
    need = trip * (1.5 / (max(ratio, MIN_RATIO) - 1) + 0.2 / ample)
    return min(need * PAID_PROOF, view.watch_limit * WATCHED) if view.paid_watch else need


def outage_wait(trip: float, ratio: float, ample: float) -> float:
    """For how many seconds a job waits in an outage before it takes the fallback; for ever if u is AMPLE or more."""
    return trip / 2 * sqrt(2 / (max(ratio, MIN_RATIO) - 1)) / (1 - ample / AMPLE) if ample < AMPLE else inf


@dataclass(frozen=True, slots=True)
class _Case:
    """A view with its net and its fallback: the dependable tier on which it costs least to finish."""

    view: View
    net: Net
    fallback: TierView

    @property
    def promised(self) -> bool:
        return spare(self.view, self.net.tier) >= 0

    @property
    def slack(self) -> float:
        """Seconds left at the deadline if all remaining work is done on the fallback; above 0."""
        return max(self.view.left - self.view.work / self.fallback.speed, 1.0)

    @property
    def ample(self) -> float:
        """u: slack per work."""
        return self.slack * self.fallback.speed / self.view.work

    def ratio(self, spot: TierView) -> float:
        """k: how many times more expensive a useful hour on the fallback is."""
        high, low = self.fallback.unit_price, spot.unit_price
        if high is None or low is None:
            return USUAL_RATIO
        if low == 0:
            return MAX_RATIO if high else 1.0
        return min(high / low, MAX_RATIO)

    def pays(self, spot: TierView) -> bool:
        """True if going from the fallback to this tier saves money, provided the tier is never lost."""
        return self.view.work * (self.ratio(spot) - 1) > spot.changeover * spot.speed

    def trip(self, spot: TierView) -> float:
        """d: the mean of the changeovers to the fallback and back."""
        return (spot.changeover + self.fallback.changeover) / 2

    def spots(self) -> list[TierView]:
        """The Spot tiers that are cheaper than the fallback."""
        return [tier for tier in self.view.tiers if tier.kind == "Spot" and self.ratio(tier) > 1]

    def choose(self, tier: TierView | None, why: str, again: float = LOOK, *, watch: bool = True) -> Choice:
        """A choice; `again` is limited to 1 second up to an hour."""
        name = tier.name if tier else None
        reason = f"{name or 'wait'}: {why}"
        return Choice(name, reason, min(max(again, 1.0), LOOK), promised=self.promised, watch=watch)

    def go(self, why: str) -> Choice:
        """Go to the net: no slack is left for anything else."""
        reason = f"{self.net.tier.name}: only {self.left()}: {why}"
        return Choice(self.net.tier.name, reason, LOOK, promised=self.promised, urgent=True)

    def left(self) -> str:
        """Slack and work, in words."""
        return f"{span(max(self.net.slack, 0.0))} of slack for {span(self.view.work)} of work"


def _on_spot(case: _Case, here: TierView) -> Choice:
    """The job is on Spot: stay while a loss at the worst moment would still leave time for the net."""
    view, net = case.view, case.net
    room = net.room(view, here)
    if room < 0:
        return case.go(f"a loss of {here.name} could make the job late")
    if case.ratio(here) < WORTH_A_MOVE and case.fallback.available and view.returns != "Never":
        return case.choose(case.fallback, f"it is cheaper than {here.name} now")
    drift = net.drift(here)
    again = room / drift if drift else LOOK
    return case.choose(here, f"up for {span(here.spell_age)}, stay; {case.left()}", again, watch=False)


def _on_dependable(case: _Case, here: TierView) -> Choice:
    """The job is on a dependable tier: go back to Spot once Spot has been up for long enough."""
    view, net, fallback = case.view, case.net, case.fallback
    if view.returns == "Never":
        return case.choose(here, f"in time, and returnPolicy is Never: stay; {case.left()}", watch=False)
    if fallback is not here:
        return case.choose(fallback, f"it is cheaper to finish on than {here.name}")
    spots = [spot for spot in case.spots() if case.pays(spot)]
    if not spots:
        return case.choose(here, "no Spot tier can save anything now, stay until the work is done", watch=False)
    if max(net.slack - spot.worst_changeover - net.reserve for spot in spots) < 0:
        why = f"only {case.left()}: too little to go to Spot, stay until the work is done"
        return case.choose(here, why, watch=False)
    spot = _best(spots, available=True)
    if spot is None:
        out = all(tier.available is False for tier in spots)
        return case.choose(here, f"{'Spot is out' if out else 'Spot is not known to be up'}, stay; {case.left()}")
    if net.room(view, spot) < 0:
        return case.choose(here, f"too little slack, stay; {case.left()}")
    up_for = spot.spell_age or 0.0
    need = proof(view, case.trip(spot), case.ratio(spot), case.ample)
    if up_for >= need or view.returns == "Eager":
        pays = "returnPolicy is Eager" if view.returns == "Eager" else f"going back pays after {span(need)}"
        return case.choose(spot, f"up for {span(up_for)}, and {pays}; {case.left()}", view.step)
    why = f"{spot.name} has been up for {span(up_for)}; going back pays after {span(need)}"
    return case.choose(here, f"{why}; {case.left()}", need - up_for)


def _nowhere(case: _Case) -> Choice:
    """Nothing trains, or only a tier that is too slow: take Spot, wait for it, or go to the fallback."""
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
        return _wait(case, spots, f"{case.left()}: wait for Spot while it can still be used", room)
    if net.slack < trip + view.step:
        return case.choose(fallback, f"{case.left()}: keep one round trip to Spot in reserve")
    until = min(net.slack - trip - view.step, room)
    if case.ample >= AMPLE:
        ample = case.slack - AMPLE * view.work / fallback.speed
        return _wait(case, spots, f"{case.left()}, ample: wait for Spot", min(until, ample or view.step))
    out = min((spot.spell_age or 0.0) for spot in spots)
    wait = outage_wait(min(map(case.trip, spots)), min(map(case.ratio, spots)), case.ample)
    if out >= wait:
        return case.choose(
            fallback, f"Spot has been out for {span(out)}, longer than the wait of {span(wait)}; {case.left()}"
        )
    why = f"Spot has been out for {span(out)}; wait up to {span(wait)}"
    return _wait(case, spots, f"{why}; {case.left()}", min(until, wait - out))


def _wait(case: _Case, spots: list[TierView], why: str, again: float) -> Choice:
    """Wait for Spot: on a slow dependable tier if its work costs no more than Spot's, otherwise on no tier."""
    cheapest = min((spot.unit_price for spot in spots if spot.unit_price is not None), default=None)
    for tier in case.view.tiers:
        slow = tier.dependable and tier.available and spare(case.view, tier) < 0
        if slow and cheapest is not None and tier.unit_price is not None and tier.unit_price <= cheapest:
            return case.choose(tier, f"slow but cheap; {why}", again)
    return case.choose(None, why, again)


def _fallback(view: View, net: Net) -> TierView:
    """The cheapest dependable tier to finish on that is not out and is in time; otherwise the net's tier."""
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
    """Of these Spot tiers, the one with the cheapest useful hour: its price, plus a changeover for each expected loss.

    The older a tier's spell, the fewer losses are expected.
    """
    best, lowest = None, inf
    for spot in spots:
        if spot.available is available:
            unit = 1.0 if spot.unit_price is None else spot.unit_price
            cost = unit * (1 + spot.changeover / ((spot.spell_age or 0.0) + YOUNG))
            if best is None or cost < lowest:
                best, lowest = spot, cost
    return best


def _lateness(view: View, tier: TierView) -> float:
    """By how many seconds the job is late if it goes to this tier now and nothing goes wrong; negative: in time."""
    changing = view.changing if tier.name == view.tier else tier.changeover
    return view.work / tier.speed + changing - view.left


def _late(view: View, net: Net, late: float) -> Choice:
    name = net.tier.name
    why = "the deadline has passed" if view.left <= 0 else f"the deadline is in {span(view.left)}"
    return Choice(
        name,
        f"{name}: {why}, the work takes {span(view.work / net.tier.speed)} here: {span(late)} late if no node is lost",
        LOOK,
        late=late,
        promised=False,
        watch=False,
    )


def _unpromised(view: View, why: str) -> Choice:
    """The choice without a net: finish as early as possible.

    Stay on Spot while it is up. Otherwise take Spot, a dedicated tier or a CPU tier, in this order. If every tier is
    out, wait for a dedicated tier, because the job keeps it once it has it.
    """
    here = view.here
    why = f"{why}, so the deadline cannot be promised"
    if here and here.kind == "Spot" and here.available is not False:
        tier, why = here, f"up for {span(here.spell_age)}, stay; {why}"
    else:
        turn = whose_turn([tier for tier in view.tiers if tier.available is not False or tier is here])
        spots = [tier for tier in turn if tier.kind == "Spot"]
        may = [tier for kind in ("Dedicated", "CPU") for tier in turn if tier.kind == kind]
        dedicated = [tier for tier in view.tiers if tier.kind == "Dedicated"]
        chosen = _best(spots, available=True) or _best(spots, available=None) or next(iter((*may, *dedicated)), None)
        if chosen is None:
            late = 0.0 if view.left > 0 else view.work - view.left
            return Choice(None, f"wait: no tier is up; {why}", view.step, late=late, promised=False)
        tier = chosen
        why = f"{'up, take it' if tier.available else 'try it'}; {why}"
    return Choice(tier.name, f"{tier.name}: {why}", view.step, late=max(_lateness(view, tier), 0.0), promised=False)


def span(seconds: float | None) -> str:
    """A time in words: 40 s, 25 min, 3.2 h, 4.0 d."""
    if seconds is None:
        return "an unknown time"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 259_200 else f"{seconds / 86400:.1f} d"
