"""Policy Deadline ("thirds"): as cheap as possible while there is slack, and never late.

Nobody knows how long Spot stays up. But in nearly every pool, the longer a spell (up or out) has lasted, the longer it
goes on: its hazard falls about as 1 / (age + 20 min). So the policy decides by the age of a spell. Before a job leaves
a dedicated tier for Spot, Spot must have been up for some time. A job waits for Spot only while the outage is young.
These times depend on three numbers:

    u  slack / work: how much time may be wasted for each hour of work that is left
    k  how many times more expensive a useful hour on the fallback is than on Spot
    d  the changeover

The fallback is the dependable tier on which it costs least to finish. Tiers of different speed are compared at what
work is worth to the job (holdfast.core.capacity.work_price). A job waits only for the best Spot tiers. A more expensive
one replaces the fallback after it has been up for longer: in 0.2 / u, slack counts at what the best tier saves with it.
The rules:

    on Spot                      stay; leave a slow tier for a better one that has proved itself, or if no slack is left
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
from holdfast.core.capacity.work_price import UP, WORTH_A_MOVE, YOUNG, Comparison, Kind, forecasts

LOOK = 3600.0  # seconds; the policy is asked again after an hour even if nothing happens
MIN_RATIO = 1.1  # below it, the thresholds would be longer than any job
PAID_PROOF = 0.5  # share of `proof` that is required where a job pays to watch Spot
WATCHED = 0.8  # share of View.watch_limit in which Spot must have proved itself: the switch takes time too


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
    case = _Case.of(view, net)
    if here is None or (here.dependable and here is not net.tier and spare(view, here) < 0):
        return _nowhere(case)
    if here.dependable:
        return _on_dependable(case, here)
    return _nowhere(case) if here.available is False else _on_spot(case, here)


def proof(view: View, trip: float, ratio: float, ample: float, scarcity: float = 1.0) -> float:
    """For how many seconds Spot must have been up before a job leaves its tier for it; `trip` is d in seconds.

    `scarcity` is how many times more the best Spot tier would save with the slack that an interruption uses up.

    Where a job pays for a node to watch Spot, the time is shorter, and ends while that node may still run beside the
    other. To trust Spot too early costs less than to give back one paid node after the other.
    """
    need = trip * (1.5 / (max(ratio, MIN_RATIO) - 1) + 0.2 * scarcity / ample)
    return min(need * PAID_PROOF, view.watch_limit * WATCHED) if view.paid_watch else need


def outage_wait(trip: float, ratio: float, pressing: float) -> float:
    """For how many seconds a job waits in an outage before it takes the fallback; for ever if nothing is pressing."""
    return trip / 2 * sqrt(2 / (max(ratio, MIN_RATIO) - 1)) / pressing if pressing > 0 else inf


def better_spots(view: View) -> list[TierView]:
    """The Spot tiers that the job would prefer to the Spot tier that it is on, if they are up for long enough."""
    here, net = view.here, find_net(view)
    if here is None or here.dependable or net is None or view.work <= 0:
        return []
    case = _Case.of(view, net)
    return [spot for spot in case.spots if case.pays(here, spot)]


@dataclass(frozen=True, slots=True)
class _Case(Comparison):
    """The comparison of the tiers, and the answers in words."""

    def choose(self, tier: TierView | None, why: str, again: float = LOOK, *, watch: bool = True) -> Choice:
        """A choice; `again` is limited to 1 second up to an hour."""
        name = tier.name if tier else None
        reason = f"{name or 'wait'}: {why}"
        return Choice(name, reason, min(max(again, 1.0), LOOK), promised=self.promised, watch=watch)

    def go(self, why: str) -> Choice:
        """Go to the net: no slack is left for anything else."""
        reason = f"{self.net.tier.name}: only {_left(self.view, self.net)}: {why}"
        return Choice(self.net.tier.name, reason, LOOK, promised=self.promised, urgent=True)

    def left(self) -> str:
        """Slack and work, in words."""
        return _left(self.view, self.plan)


def _left(view: View, net: Net) -> str:
    return f"{span(max(net.slack, 0.0))} of slack for {span(view.work)} of work"


def _on_spot(case: _Case, here: TierView) -> Choice:
    """The job is on Spot: stay while an interruption at the worst moment would still leave time for the net."""
    view, net, fallback = case.view, case.net, case.fallback
    room = net.room(view, here)
    if room < 0:
        return case.go(f"an interruption of {here.name} could make the job late")
    room = case.room(here)
    if room < 0:
        return case.choose(fallback, f"{case.left()} is too little for {here.name}")
    if view.returns == "Never":
        return case.choose(here, f"up for {span(here.spell_age)}, stay; {case.left()}", room, watch=False)
    if case.ratio(here) < WORTH_A_MOVE and fallback.available:
        return case.choose(fallback, f"it is cheaper than {here.name} now")
    if not case.is_fast_enough(here):
        return case.choose(fallback, f"{case.left()}: {here.name} is too slow")
    drift = max(net.drift(here), case.plan.drift(here))
    again, stay = room / drift if drift else LOOK, f"up for {span(here.spell_age)}, stay; {case.left()}"
    if other := _instead_of_stopgap(case, here):
        if other.tier and other.tier != here.name:
            return other
        again = min(again, other.again_within)
    better = [spot for spot in case.spots if case.pays(here, spot) and case.room(spot) >= 0]
    spot = case.best(better, available=True)
    if spot is None:
        return case.choose(here, stay, again, watch=bool(better))
    return _to_spot(case, here, spot, again)


def _on_dependable(case: _Case, here: TierView) -> Choice:
    """The job is on a dependable tier: go back to Spot once Spot has been up for long enough."""
    view, fallback = case.view, case.fallback
    if here.speed_assumed and case.net.room(view, here) < 0:
        return case.go(f"the speed of {here.name} is not known")
    if view.returns == "Never":
        return case.choose(here, f"in time, and returnPolicy is Never: stay; {case.left()}", watch=False)
    if fallback is not here:
        if here.speed < fallback.speed and case.surplus(here) > max(case.surplus(fallback), 0.0):
            return _nowhere(case)
        return case.choose(fallback, f"it is cheaper to finish on than {here.name}")
    spots = [spot for spot in case.spots if case.pays(here, spot)]
    if not spots:
        return case.choose(here, "no Spot tier can save anything now, stay until the work is done", watch=False)
    if max(case.plan.slack - spot.worst_changeover - case.plan.reserve for spot in spots) < 0:
        why = f"only {case.left()}: too little to go to Spot, stay until the work is done"
        return case.choose(here, why, watch=False)
    spot = case.best((spot for spot in spots if case.room(spot) >= 0), available=True)
    if spot is None and any(tier.available for tier in spots):
        return case.choose(here, f"too little slack, stay; {case.left()}")
    if spot is None:
        out = all(tier.available is False for tier in spots)
        return case.choose(here, f"{'Spot is out' if out else 'Spot is not known to be up'}, stay; {case.left()}")
    return _to_spot(case, here, spot, LOOK)


def _to_spot(case: _Case, here: TierView, spot: TierView, again: float) -> Choice:
    """Go to this Spot tier once it has been up for long enough."""
    view, up = case.view, spot.spell_age or 0.0
    if view.returns == "Eager":
        return case.choose(spot, f"up for {span(up)}, and returnPolicy is Eager; {case.left()}", view.step)
    need = _proof(case, here, spot) * case.regret(here)
    if up < need:
        move = "going back" if here.dependable else "a move"
        why = f"{spot.name} has been up for {span(up)}; {move} pays after {span(need)}; {case.left()}"
        return case.choose(here, why, min(again, need - up))
    return case.choose(spot, f"up for {span(up)}, longer than {span(need)}; {case.left()}", view.step)


def _nowhere(case: _Case) -> Choice:
    """Nothing trains, or only a tier that is too slow: take Spot, wait for it, or go to the fallback."""
    view, net, fallback = case.view, case.net, case.fallback
    spots = case.spots
    if not spots:
        return case.choose(fallback, f"no Spot tier is cheaper; {case.left()}")
    useful = [spot for spot in spots if case.is_useful(spot)]
    for known in (True, None):
        # A tier that refused this search is asked again while the job waits, but the job does not wait longer for it.
        asked = [spot for spot in spots if spot.available is known and (known or spot.refused_ago is None)]
        found = [spot for spot in asked if case.room(spot) >= 0 and _may_take(case, spot)]
        spot = case.best(found, available=known)
        if spot and any(one in useful for one in found):
            if (other := _instead_of_stopgap(case, spot)) and other.tier:
                return other
            return case.choose(spot, f"{'up, take it' if known else 'try it'}; {case.left()}", view.step)
    if net.room(view, None) < 0:
        return case.go("it is time to go")
    best = [spot for spot in case.spots if spot.name in case.best_spots]
    found = [spot for spot in best if spot in useful] or best
    return _in_outage(case, [spot for spot in found if not spot.available] or found)


def _may_take(case: _Case, spot: TierView) -> bool:
    """True if a job without a node may take this Spot tier: it is fast enough, and cheap or up for long enough.

    If another tier saves more, this one saves little, and each interruption of it uses up slack.
    """
    if not case.is_fast_enough(spot):
        return False
    if spot.name in case.best_spots or spot.available is None:
        return True
    return (spot.spell_age or 0.0) >= _proof(case, case.fallback, spot)


def _proof(case: _Case, here: TierView, spot: TierView) -> float:
    """For how many seconds this Spot tier must have been up before a job on `here` goes to it."""
    trip = (spot.changeover + here.changeover) / 2
    return proof(case.view, trip, case.gain(here, spot), case.ample, case.scarcity(here, spot))


def _in_outage(case: _Case, spots: list[TierView]) -> Choice:
    """No Spot tier that the job should use is up: wait for one, or go to the fallback."""
    view, plan, fallback = case.view, case.plan, case.fallback
    room = case.room(None)
    enter = plan.reserve + min(spot.worst_changeover for spot in spots)
    trip = enter + fallback.worst_changeover
    if room < 0 or plan.slack <= enter:
        return case.choose(fallback, f"{case.left()} is too little for Spot")
    if plan.slack < trip:
        return _wait(case, f"{case.left()}: wait for Spot while it can still be used", room)
    if plan.slack < trip + view.step:
        return case.choose(fallback, f"{case.left()}: keep one round trip to Spot in reserve")
    until = min(plan.slack - trip - view.step, room)
    other = min(
        (
            tier
            for tier in case.spots
            if tier.available
            and tier not in spots
            and case.room(tier) >= 0
            and _may_take(case, tier)
            and not case.is_stopgap(tier)
        ),
        key=case.unit,
        default=fallback,
    )
    used = Kind(case.hourly[other.name], other.speed, other.dependable)
    # Other Spot tiers do not make up for the time lost here: the job goes there only after they have been up for long.
    tiers = [tier for tier in view.tiers if tier not in case.spots or tier is other or tier.name in case.best_spots]
    slow, fast = forecasts(view, tiers, case.hourly, (UP,), aged=False)[0].speeds_with(used) or (0.0, 1.0)
    pressing = (1.0 - slow * view.left / view.work) / (1.0 - slow / fast) if slow < fast else 1.0
    if pressing <= 0:
        ample = view.left - view.work / slow
        return _wait(case, f"{case.left()}, ample: wait for Spot", min(until, ample or view.step))
    out = outage_age(view, spots)
    trips = min((spot.changeover + other.changeover) / 2 for spot in spots)
    wait = outage_wait(trips, min(map(case.ratio, spots)), min(pressing, 1.0))
    if out >= wait:
        return case.choose(
            other, f"Spot has been out for {span(out)}, longer than the wait of {span(wait)}; {case.left()}"
        )
    why = f"Spot has been out for {span(out)}; wait up to {span(wait)}"
    more = (slow / view.work) / (1.0 - slow / fast) if 0 < slow < fast else 0.0
    return _wait(case, f"{why}; {case.left()}", min(until, _wait_left(out, wait, min(pressing, 1.0), more)))


def _wait_left(out: float, wait: float, pressing: float, more: float) -> float:
    """For how many seconds the job still waits, `out` seconds into an outage.

    `wait` is how long it would wait now. Each second without work adds `more` to what is pressing, so it becomes less:
    t seconds from now the job goes if (out + t) * (pressing + more * t) reaches wait * pressing.
    """
    if more <= 0:
        return wait - out
    half = (pressing + more * out) / (2 * more)
    return sqrt(half * half + pressing * (wait - out) / more) - half


def _instead_of_stopgap(case: _Case, spot: TierView) -> Choice | None:
    """The choice in an outage of the faster Spot tiers if this one is a stopgap, otherwise None."""
    if not case.is_stopgap(spot):
        return None
    faster = [one for one in case.spots if not case.is_stopgap(one)]
    return None if not faster or any(one.available for one in faster) else _in_outage(case, faster)


def outage_age(view: View, spots: Iterable[TierView]) -> float:
    """For how long all these Spot tiers have been out.

    That is for as long as a job without a node has had none: it would have one if a tier had been up. Otherwise it is
    the age of the youngest spell. A tier that was not observed for some time has no age, and one that is asked again
    after that seems to have gone out only then.
    """
    return view.searching or min((spot.spell_age for spot in spots if spot.spell_age is not None), default=0.0)


def _wait(case: _Case, why: str, again: float) -> Choice:
    """Wait for Spot: on a slow dependable tier if that earns more than its price in this time, otherwise on no tier."""
    slow = [
        tier
        for tier in case.view.tiers
        if tier.dependable and tier.available and tier.speed < case.fallback.speed and case.earned(tier, again) > 0
    ]
    if slow:
        return case.choose(max(slow, key=case.surplus), f"slow but cheap; {why}", again)
    return case.choose(None, why, again)


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
        found = [_fastest(tier for tier in spots if tier.available is known) for known in (True, None)]
        chosen = next((tier for tier in (*found, *may, *dedicated) if tier), None)
        if chosen is None:
            late = 0.0 if view.left > 0 else view.work - view.left
            return Choice(None, f"wait: no tier is up; {why}", view.step, late=late, promised=False)
        tier = chosen
        why = f"{'up, take it' if tier.available else 'try it'}; {why}"
    return Choice(tier.name, f"{tier.name}: {why}", view.step, late=max(_lateness(view, tier), 0.0), promised=False)


def _fastest(spots: Iterable[TierView]) -> TierView | None:
    """Of these Spot tiers the fastest; of equally fast ones the one with the cheapest useful hour."""

    def rank(spot: TierView) -> tuple[float, float]:
        price = 1.0 if spot.price is None else float(spot.price)
        return -spot.speed, price * (1 + spot.changeover / ((spot.spell_age or 0.0) + YOUNG))

    return min(spots, key=rank, default=None)


def span(seconds: float | None) -> str:
    """A time in words: 40 s, 25 min, 3.2 h, 4.0 d."""
    if seconds is None:
        return "an unknown time"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 259_200 else f"{seconds / 86400:.1f} d"
