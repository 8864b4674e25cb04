"""What work is worth to a job with a deadline, so that tiers of different price and speed can be compared.

A slow tier may be cheap for each unit of work and still be a bad choice: it uses up time, and the work that is left
then has to be done on an expensive tier. So tiers are compared at a price of work. An hour on a tier earns this price
times the speed of the tier, and costs the price of the tier; the difference is the surplus of the tier. The best tier
is the one with the highest surplus. To wait has a surplus of 0.

The higher the price of work, the faster is the tier with the highest surplus. The price of work of a job is the lowest
one at which the job is expected to be in time. The forecast assumes:

    a dependable tier is always up
    a Spot tier is up for a share of the time; since nobody knows it, the price of work is the mean of the prices for
    each of SHARES
    outages come together: a further Spot tier is up for that share times ALSO_UP while the better ones are out
    the hazard of a spell is 1 / (age + YOUNG), so a tier that has been out for long stays out for long
    the job changes tiers TRIPS times in SPELL, and each change takes a changeover

The forecast is rough. It never puts the deadline at risk, because holdfast.core.capacity.safety_net does not use it.
The constants were found by simulation: tests/model/added_tier.py shows what they are for.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import inf, log
from typing import NamedTuple, Self

from holdfast.core.capacity.policy_input import TierView, View
from holdfast.core.capacity.safety_net import Net, net_on, spare

YOUNG = 1200.0  # seconds; the 20 minutes of the hazard
UP = 0.8  # share of time in which Spot is taken to be up where one share has to do
SHARES = (0.3, 0.6, 0.9)
USUALLY_UP = 0.6  # their mean
ALSO_UP = 0.625
TRIPS, SPELL = 3, 36_000.0
MOST_TRIPS = 0.5  # the share of time that changeovers take is at most this
USUAL_RATIO = 3.0  # price of a dependable tier divided by that of Spot, if one of them is not known
LEAST_GAIN = 1.15  # a job leaves Spot for another Spot tier only if that saves this
TIGHT = 0.1  # share of the work that costs the price of the fallback, if it leaves no slack
TINY = 1e-9
ROUNDING = 1e-7  # seconds
MAX_RATIO = 10.0  # above it, an even cheaper Spot changes nothing
WORTH_A_MOVE = 0.9  # a job leaves a dependable tier only for one that is a tenth cheaper
AMPLE = 0.25  # u above which the job can afford to wait for Spot as long as it takes
BEYOND = 1.5  # the price of work, if no tier is fast enough, as a multiple of the highest step


class Kind(NamedTuple):
    """Tiers of one price and speed: the price of an hour, and the work in it in hours of the reference tier."""

    price: float
    speed: float
    dependable: bool


IDLE = Kind(0.0, 0.0, dependable=True)


class Step(NamedTuple):
    """A price of work at which the best choice changes: below it `slow` is the order of the kinds, above it `fast`.

    An order has the numbers of the kinds, best first, up to the first one that is always up.
    """

    price: float
    slow: tuple[int, ...]
    fast: tuple[int, ...]


class Forecast(NamedTuple):
    """The kinds of tiers of a job, and the share of the time that is left in which each is expected to be up."""

    kinds: tuple[Kind, ...]
    up: tuple[float, ...]

    def mean_speed(self, order: Sequence[int]) -> float:
        """The expected mean speed of a job that always takes the first kind in this order that is up."""
        speed, rest, first = 0.0, 1.0, True
        for number in order:
            kind = self.kinds[number]
            if kind.dependable:
                return speed + rest * kind.speed
            up = self.up[number] if first else self.up[number] * ALSO_UP
            speed, rest, first = speed + rest * up * kind.speed, rest * (1.0 - up), False
        return speed

    def speeds_with(self, kind: Kind) -> tuple[float, float] | None:
        """The mean speeds just before and just after the price of work at which this kind is used too.

        None if it is used at no price, or at every price.
        """
        if kind not in self.kinds:
            return None
        number = self.kinds.index(kind)
        step = next((step for step in steps(self.kinds) if number in step.fast and number not in step.slow), None)
        return (self.mean_speed(step.slow), self.mean_speed(step.fast)) if step else None

    def work_price(self, need: float) -> float:
        """The price of work of a job that must work at the mean speed `need` to be in time; 0 if all tiers are free.

        It is interpolated between steps, because the forecast is rough: a little less time changes it a little.
        """
        known = steps(self.kinds)
        if not known:
            return 0.0
        at = bisect_left(known, need, key=lambda step: self.mean_speed(step.fast))
        if at == len(known):
            return known[-1].price * BEYOND
        price, slow, fast = known[at].price, self.mean_speed(known[at].slow), self.mean_speed(known[at].fast)
        share = min(max((need - slow) / (fast - slow), 0.0), 1.0) if fast > slow else 1.0
        if share < 0.5:
            below = (known[at - 1].price + price) / 2 if at else price
            return below + (price - below) * 2 * share
        above = (price + known[at + 1].price) / 2 if at + 1 < len(known) else price * BEYOND
        return price + (above - price) * (2 * share - 1)


def hourly_prices(tiers: Sequence[TierView]) -> dict[str, float]:
    """The price of an hour on each tier. A price that is missing is derived from the known ones at the usual ratio."""
    known = {tier.name: float(tier.price) for tier in tiers if tier.price is not None}
    if len(known) == len(tiers):
        return known
    spot = min((known[tier.name] for tier in tiers if tier.name in known and not tier.dependable), default=None)
    other = min((known[tier.name] for tier in tiers if tier.name in known and tier.dependable), default=None)
    low = spot if spot is not None else (USUAL_RATIO if other is None else other) / USUAL_RATIO
    high = other if other is not None else low * USUAL_RATIO
    return {tier.name: known.get(tier.name, high if tier.dependable else low) for tier in tiers}


def forecasts(
    view: View, tiers: Sequence[TierView], hourly: dict[str, float], shares: Sequence[float], *, aged: bool
) -> list[Forecast]:
    """The forecasts for these tiers if Spot is up for each of these shares of the time.

    A dependable tier that is out is left out. If `aged`, the present spell of each Spot tier goes on for some time.
    """
    left = max(view.left, 1.0)
    spells: dict[Kind, list[tuple[bool | None, float]]] = {IDLE: []}  # of the Spot tiers of a kind
    for tier in tiers:
        if not tier.dependable:
            goes_on = _goes_on(tier, left) if aged and tier.available is not None else 0.0
            spells.setdefault(Kind(hourly[tier.name], tier.speed, dependable=False), []).append(
                (tier.available, goes_on)
            )
        elif tier.available is not False or tier.name == view.tier:
            spells[Kind(hourly[tier.name], tier.speed, dependable=True)] = []
    kinds, more = tuple(spells), ALSO_UP if aged else 0.0
    return [Forecast(kinds, tuple([_share(found, up, more) for found in spells.values()])) for up in shares]


def _share(spells: Sequence[tuple[bool | None, float]], up: float, more: float) -> float:
    """The share of time in which one of these Spot tiers is up; 1 for dependable tiers."""
    out = 1.0 if spells else 0.0
    for available, goes_on in spells:
        share = up + (1.0 - up) * goes_on if available else up - up * goes_on
        out = out * (1.0 - share * more) if out < 1.0 else 1.0 - share
    return 1.0 - out


def _goes_on(spot: TierView, left: float) -> float:
    """The share of the time that is left in which the present spell of this Spot tier is expected to go on."""
    age = (spot.spell_age or 0.0) + YOUNG
    return age / left * log(1.0 + left / age)


def work_price(view: View, hourly: dict[str, float], trip: float) -> float:
    """The price of work: the mean of those for several shares of time in which Spot may be up.

    `trip` is a changeover in seconds; the time that changeovers will take does no work.
    """
    need = view.work / max(view.left * (1.0 - min(TRIPS * trip / SPELL, MOST_TRIPS)), 1.0)
    found = [one.work_price(need) for one in forecasts(view, view.tiers, hourly, SHARES, aged=True)]
    return sum(found) / len(found)


@lru_cache(maxsize=256)
def steps(kinds: tuple[Kind, ...]) -> tuple[Step, ...]:
    """The prices of work at which two of these kinds have the same surplus, in order."""
    prices = sorted({price for one, other in combinations(kinds, 2) if (price := _same_surplus(one, other)) > 0})
    return tuple(
        [Step(price, _order(kinds, price * (1 - 1e-9)), _order(kinds, price * (1 + 1e-9))) for price in prices]
    )


def _order(kinds: Sequence[Kind], price: float) -> tuple[int, ...]:
    """The kinds by their surplus at this price of work, up to the first dependable one."""
    order = sorted(
        range(len(kinds)), key=lambda number: price * kinds[number].speed - kinds[number].price, reverse=True
    )
    last = next(place for place, number in enumerate(order) if kinds[number].dependable)
    return tuple(order[: last + 1])


def _same_surplus(one: Kind, other: Kind) -> float:
    """The price of work at which both kinds have the same surplus; 0 if one of them is better at every price."""
    if one.speed == other.speed or (one.price - other.price) * (one.speed - other.speed) <= 0:
        return 0.0
    return (one.price - other.price) / (one.speed - other.speed)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The tiers of a view, to be compared: with its net, its fallback and what work is worth to it.

    The fallback is the dependable tier on which the job finishes if Spot fails. `plan` is the net of this tier: the
    slack that the job tries to keep. The net itself may be faster and more expensive; it is only used in need. `spots`
    are the Spot tiers that are cheaper than the fallback. `hourly` is the price of each tier, `worth` that of work.
    `scarce` is the price of work while the fallback is in use: what it costs there, and what the slack is worth.
    `most_saved` is the most that an hour on one of `spots` saves then, compared with the fallback. `best_spots` are the
    names of those that a job without a node waits for, and takes as soon as they are up: the tier that saves most, and
    tiers whose work is about as cheap as that of the cheapest fast one, or cheaper.
    """

    view: View
    net: Net
    plan: Net
    spots: list[TierView]
    hourly: dict[str, float]
    worth: float
    scarce: float
    most_saved: float
    best_spots: frozenset[str]

    @property
    def fallback(self) -> TierView:
        return self.plan.tier

    @property
    def promised(self) -> bool:
        return spare(self.view, self.net.tier) >= 0

    @property
    def ample(self) -> float:
        """u: slack per work."""
        return max(self.plan.slack, 1.0) * self.fallback.speed / self.view.work

    def unit(self, tier: TierView) -> float:
        """What the work of an hour on the reference tier costs."""
        return self.hourly[tier.name] / tier.speed

    def ratio(self, spot: TierView) -> float:
        """k: how many times more expensive a useful hour on the fallback is."""
        high, low = self.unit(self.fallback), self.unit(spot)
        if low == 0:
            return MAX_RATIO if high else 1.0
        return min(high / low, MAX_RATIO)

    def surplus(self, tier: TierView, worth: float | None = None) -> float:
        """What an hour on the tier earns beyond its price."""
        return (self.worth if worth is None else worth) * tier.speed - self.hourly[tier.name]

    def earned(self, tier: TierView, seconds: float) -> float:
        """What so many seconds on the tier earn beyond their price: no work is done during the changeover to it."""
        changing = self.view.changing if tier.name == self.view.tier else tier.changeover
        return self.worth * tier.speed * max(seconds - changing, 0.0) - self.hourly[tier.name] * seconds

    def is_fast_enough(self, spot: TierView) -> bool:
        """False if work is worth so much that the fallback is better than this Spot tier."""
        return spot.speed >= self.fallback.speed or self.surplus(spot) >= self.surplus(self.fallback)

    def is_useful(self, spot: TierView) -> bool:
        """True if work on the tier is worth its price."""
        return self.is_fast_enough(spot) and self.surplus(spot) >= -TINY

    def is_stopgap(self, spot: TierView) -> bool:
        """True if the fallback is better than this slow Spot tier once the job no longer waits for a faster one."""
        saved = self.surplus(spot, self.scarce) - self.surplus(self.fallback, self.scarce)
        return spot.speed < self.fallback.speed and saved < 0

    def gain(self, here: TierView, spot: TierView) -> float:
        """How many times the price of this Spot tier the job saves by an hour there instead of here, plus 1.

        From the fallback to Spot of the same speed, this is k. On a dependable tier, work is worth at least what it
        costs there.
        """
        worth = self.scarce if here.dependable else self.worth
        saved, price = self.surplus(spot, worth) - self.surplus(here, worth), self.hourly[spot.name]
        return min(1 + saved / price, MAX_RATIO) if price else MAX_RATIO if saved > 0 else 1.0

    def scarcity(self, here: TierView, spot: TierView) -> float:
        """How many times more an hour on the best Spot tier saves than one on this tier; at least 1.

        A trip to an expensive Spot tier uses up as much slack as a trip to a cheap one.
        """
        worth = self.scarce if here.dependable else self.worth
        saved = self.surplus(spot, worth) - self.surplus(here, worth)
        return max(self.most_saved / saved, 1.0) if saved > 0 else 1.0

    def regret(self, here: TierView) -> float:
        """What a move costs that has to be taken back: at most 1, as from the fallback; 0 if nothing is done here.

        The job loses what it earns here for two changeovers, and pays for one of them.
        """
        worth = self.scarce if here.dependable else self.worth
        lost, most = 2 * max(self.surplus(here, worth), 0.0) + self.hourly[here.name], self.unit(self.fallback)
        return min(lost / most, 1.0) if most else 1.0

    def pays(self, here: TierView, spot: TierView) -> bool:
        """True if going to this Spot tier saves money, provided the tier is never lost."""
        gain = self.gain(here, spot)
        least = 1.0 if here.dependable else LEAST_GAIN
        return gain > least and self.view.work * (gain - 1) > spot.changeover * spot.speed

    def room(self, tier: TierView | None) -> float:
        """As Net.room, for the net and for the plan."""
        return min(self.net.room(self.view, tier), self.plan.room(self.view, tier))

    def best(self, spots: Iterable[TierView], *, available: bool | None) -> TierView | None:
        """Of these Spot tiers, the one with the highest surplus, less a changeover for each expected interruption.

        The older a tier's spell, the fewer interruptions are expected.
        """
        best, highest = None, -inf
        for spot in spots:
            if spot.available is available:
                lost = self.hourly[spot.name] * spot.changeover / ((spot.spell_age or 0.0) + YOUNG)
                surplus = self.surplus(spot) - lost
                if best is None or surplus > highest:
                    best, highest = spot, surplus
        return best

    @classmethod
    def of(cls, view: View, net: Net) -> Self:
        """The comparison for a view with work left, in time on the tier of `net`."""
        hourly = hourly_prices(view.tiers)
        plan = _plan(view, net, hourly)
        fallback, unit = plan.tier, hourly[plan.tier.name] / plan.tier.speed
        spots = [tier for tier in view.tiers if tier.kind == "Spot" and hourly[tier.name] < unit * tier.speed]
        worth = unit
        if len({(tier.speed, hourly[tier.name] * (tier.kind == "Spot")) for tier in view.tiers}) > 2 or any(
            tier.speed != fallback.speed for tier in view.tiers
        ):  # otherwise there is nothing to compare
            worth = work_price(view, hourly, fallback.changeover)
        spots_are_fast = any(spot.speed >= fallback.speed for spot in spots)
        if not spots_are_fast:
            worth = min(worth, unit)  # no fast Spot tier needs the slack later
        cheapest = min((hourly[spot.name] / spot.speed for spot in spots), default=unit)
        ample = max(plan.slack, 0.0) * fallback.speed / view.work
        scarce = unit + (unit - cheapest) / 2 / (1 + ample) / (1 + ample) if spots_are_fast else unit
        scarce = max(worth, scarce)
        saved = {
            spot.name: scarce * (spot.speed - fallback.speed) - hourly[spot.name] + hourly[fallback.name]
            for spot in spots
        }
        most = max(saved.values(), default=0.0)
        fast = min((hourly[spot.name] / spot.speed for spot in spots if spot.speed >= fallback.speed), default=inf)
        best = {
            spot.name
            for spot in spots
            if hourly[spot.name] <= LEAST_GAIN * fast * spot.speed or saved[spot.name] >= most - TINY
        }
        return cls(view, net, plan, spots, hourly, worth, scarce, most, frozenset(best))


def _plan(view: View, net: Net, hourly: dict[str, float]) -> Net:
    """The net of the fallback: the dependable tier on which it costs least to finish, if Spot does what it can.

    It is one that is in time and not out; otherwise it is the tier of the net.
    """
    usable = [
        tier
        for tier in view.tiers
        if tier.dependable and spare(view, tier) >= -ROUNDING and _is_usable(view, net, tier)
    ]
    if len(usable) < 2:
        return net_on(view, usable[0]) if usable else net
    best, lowest = net.tier, inf
    for tier in usable:
        here = tier.name == view.tier
        changing, unit = view.changing if here else tier.changeover, hourly[tier.name] / tier.speed
        spots = [one for one in view.tiers if one.kind == "Spot" and hourly[one.name] / one.speed < unit]
        speed = USUALLY_UP * max((one.speed for one in spots), default=0.0)
        done = min(speed * view.left, view.work)
        ample = (view.left - view.work / tier.speed) * tier.speed / view.work
        tight = TIGHT * done * max(1 - ample / AMPLE, 0.0)
        cost = unit * (view.work - done + changing * tier.speed + tight) * (WORTH_A_MOVE if here else 1.0)
        cost += done * min((hourly[one.name] / one.speed for one in spots), default=0.0)
        if cost < lowest or (here and cost == lowest):
            best, lowest = tier, cost
    return net_on(view, best)


def _is_usable(view: View, net: Net, tier: TierView) -> bool:
    """True if the tier is not out, and the net is still there if the tier is slower than assumed."""
    if tier.name == view.tier:
        return True
    return tier.available is not False and (not tier.speed_assumed or tier is net.tier or net.room(view, tier) >= 0)
