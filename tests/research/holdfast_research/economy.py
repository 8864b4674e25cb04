"""A small exact economy of one job, one dedicated tier and some Spot markets: what a capacity rule costs.

It shares only the signature of the rules with the code that ships, so it can check that code. Time runs in steps. At
the start of each step the markets move, the rule is asked, and the job does what it says:

- every hour on a tier is paid for, including the changeover, which does no useful work;
- when Spot goes, the job is on no tier, and loses its work on that tier since it came, at most `lost` seconds;
- the job and its bill end in the second in which its work is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

from holdfast.core.capacity.policy_input import Rule, TierView, View
from holdfast_cli.simulate.machines import Watched
from holdfast_cli.simulate.traces import Trace

DEDICATED = "dedicated"
SPOT = "spot-{}"
HOUR = 3600.0


Market = Callable[[int, Watched], bool]
"""Whether Spot is up in step i; asked once per step, in order. A hostile market reacts to the job."""


@dataclass(frozen=True, slots=True)
class Steady:
    """One more tier that is always up."""

    name: str
    price: Decimal
    speed: float = 1.0
    kind: Literal["Dedicated", "CPU"] = "Dedicated"


@dataclass(frozen=True, slots=True)
class Setting:
    """The job and the prices. Times are in seconds; `work` is on the dedicated tier, `deadline` counts from the start.

    `changeover` is what a move really takes: a number, or a function of the number of the move (1, 2, ...). `typical`
    is what rules expect of a move, by default that of move 1; `worst` is the longest that they expect, by default the
    same. `lost` is the most that an interruption of Spot costs; `at_risk` is what rules expect, by default the same.
    `billed_probe`: while a rule wants to watch, a market that is up is paid for even if the job is not on it, as where
    an autoscaler must create a node to show that Spot is up. What is not watched is not known. `steady` are the tiers
    that are always up, beside the dedicated one.
    """

    work: float
    deadline: float
    changeover: float | Callable[[int], float]
    gap: int = 600
    dedicated_price: Decimal = Decimal(3)
    spot_prices: tuple[Decimal, ...] = (Decimal(1),)
    spot_speeds: tuple[float, ...] = ()
    typical: float | None = None
    worst: float | None = None
    lost: float = 0.0
    at_risk: float | None = None
    billed_probe: bool = False
    steady: tuple[Steady, ...] = ()


@dataclass(slots=True)
class Outcome:
    """The result. `finished` is in seconds from the start, `cost` is money, `moves` counts starts on any tier."""

    cost: float = 0.0
    finished: float = 0.0
    late: float = 0.0
    moves: int = 0
    interruptions: int = 0
    hours: dict[str, float] = field(default_factory=dict)

    @property
    def missed(self) -> bool:
        """True if the work was done after the deadline, by more than a rounding error."""
        return self.late > 1e-6


def playback(trace: Trace, start: int = 0) -> Market:
    """The market of a trace, from its step `start` on."""
    return lambda step, _watched: trace.is_up(start + step)


def run(rule: Rule, markets: Sequence[Market], setting: Setting, ages: Sequence[float] = ()) -> Outcome:
    """Run the job under `rule`. `ages` is the age of each market's spell at the start, by default 0.

    Raises ValueError if the rule names an unknown tier, or has not finished in twice the deadline and the work.
    """
    economy = _Economy(setting, markets, ages)
    limit = int(2 * (setting.deadline + setting.work) / setting.gap) + 100
    for step in range(limit):
        if economy.step(rule, step):
            return economy.outcome
    raise ValueError(f"the rule has not finished in {limit} steps")


class _Economy:
    """The state of one run."""

    def __init__(self, setting: Setting, markets: Sequence[Market], ages: Sequence[float]) -> None:
        self.setting = setting
        self.markets = markets
        self.outcome = Outcome()
        self.spell_ages = list(ages) or [0.0] * len(markets)
        self.up = [False] * len(markets)
        self.work = float(setting.work)
        self.done_here = 0.0  # since the job came to this tier
        self.tier: str | None = None
        self.changing = 0.0
        self.watching = True
        self.known = [True] * len(markets)
        self.names = [SPOT.format(number) for number in range(len(markets))]
        typical = setting.typical if setting.typical is not None else self._changeover(1)
        worst = setting.worst if setting.worst is not None else typical
        speeds = setting.spot_speeds or (1.0,) * len(markets)
        self.spots = [
            TierView(name, "Spot", price, speed, None, None, typical, worst)
            for name, price, speed in zip(self.names, setting.spot_prices, speeds, strict=True)
        ]
        steady = (Steady(DEDICATED, setting.dedicated_price), *setting.steady)
        self.steady = [
            TierView(tier.name, tier.kind, tier.price, tier.speed, True, None, typical, worst) for tier in steady
        ]
        self.prices = {tier.name: float(tier.price or 0) for tier in (*self.spots, *self.steady)}
        self.speeds = {tier.name: tier.speed for tier in (*self.spots, *self.steady)}

    def step(self, rule: Rule, step: int) -> bool:
        """One step; True once the work is done."""
        self._move_markets(step)
        choice = rule(self._view(step))
        self.watching = choice.watch or not self.setting.billed_probe
        self._obey(choice.tier)
        return self._work(step)

    def _move_markets(self, step: int) -> None:
        for index, market in enumerate(self.markets):
            on = self.tier == self.names[index]
            was, now = self.up[index], market(step, Watched(on, self.changing if on else 0.0))
            knows = on or self.watching
            if step > 0:  # a spell starts where observation without a gap starts
                goes_on = was == now and knows and self.known[index]
                self.spell_ages[index] = self.spell_ages[index] + self.setting.gap if goes_on else 0.0
            self.up[index], self.known[index] = now, knows
            if on and not now:
                self.work += min(self.setting.lost, self.done_here)
                self.outcome.interruptions += 1
                self.tier, self.changing, self.done_here = None, 0.0, 0.0

    def _view(self, step: int) -> View:
        setting = self.setting
        spots = tuple(
            replace(spot, available=up, spell_age=age) if known else spot
            for spot, up, age, known in zip(self.spots, self.up, self.spell_ages, self.known, strict=True)
        )
        return View(
            (*spots, *self.steady),
            self.tier,
            self.work,
            setting.deadline - step * setting.gap,
            self.changing,
            at_risk=setting.lost if setting.at_risk is None else setting.at_risk,
            step=setting.gap,
            paid_watch=setting.billed_probe,
        )

    def _obey(self, wanted: str | None) -> None:
        if wanted == self.tier:
            return
        self.tier, self.changing, self.done_here = None, 0.0, 0.0
        if wanted is None or (wanted in self.names and not self.up[self.names.index(wanted)]):
            return  # that market is out
        self.outcome.moves += 1
        self.tier, self.changing = wanted, self._changeover(self.outcome.moves)

    def _work(self, step: int) -> bool:
        """Work and bill for one step."""
        seconds = float(self.setting.gap)
        if self.tier:
            speed, idle = self.speeds[self.tier], min(self.changing, seconds)
            need = idle + self.work / speed
            finished = need <= seconds
            seconds = min(need, seconds)
            useful = (seconds - idle) * speed
            self.changing -= idle
            self.work = 0.0 if finished else self.work - useful
            self.done_here += useful
            self._bill(self.tier, seconds)
            if finished:
                self.outcome.finished = step * self.setting.gap + seconds
                self.outcome.late = max(self.outcome.finished - self.setting.deadline, 0.0)
        if self.setting.billed_probe and self.watching:
            for name, up in zip(self.names, self.up, strict=True):
                if up and name != self.tier:
                    self._bill(name, seconds)
        return self.work <= 0

    def _bill(self, tier: str, seconds: float) -> None:
        hours = seconds / HOUR
        self.outcome.hours[tier] = self.outcome.hours.get(tier, 0.0) + hours
        self.outcome.cost += hours * self.prices[tier]

    def _changeover(self, move: int) -> float:
        changeover = self.setting.changeover
        return changeover(move) if callable(changeover) else changeover
