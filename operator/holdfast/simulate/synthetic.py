"""Generated Spot markets: seeded ones that resemble recorded ones, and hostile ones that react to the job.

In nearly every recorded pool the hazard of a spell, up or down, falls about as 1 / (age + 20 min): most spells are
short, a few last for days. A spell drawn here has the hazard `weight` / (age + `young`), so it lasts longer than x
seconds with probability (young / (young + x)) ** weight. This is a Lomax distribution; with a weight of 1 or less its
mean is infinite.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, cos, log, pi
from random import Random

from holdfast.simulate.economy import Market, Watched
from holdfast.simulate.traces import MAX_STEPS, Trace

DAY = 86_400
SETTLING = 30 * DAY  # how long before its beginning an endless market may have begun
SHORTEST_SPELL, LONGEST_SPELL = 60, 30 * DAY  # seconds
MADE_UP = 8  # markets of a study in which each job uses one
MADE_UP_ZONES = 3  # zones of the market of a study in which each job uses all zones
MADE_UP_STEPS = 60 * 144  # sixty days of ten minutes


@dataclass(frozen=True, slots=True)
class Climate:
    """The properties of a market.

    `up` and `down` are the weights of the hazards of spells, above 0: the larger the weight, the shorter the spells.
    `young` is in seconds, above 0. `swing`, from 0 to below 1, is how much day and night differ: at noon the hazard of
    spells up is 1 + swing times the average, that of spells down 1 - swing times; at midnight it is the other way
    round.
    """

    up: float = 1.0
    down: float = 1.0
    young: float = 1200.0
    swing: float = 0.0

    def __post_init__(self) -> None:
        if min(self.up, self.down, self.young) <= 0 or not 0 <= self.swing < 1:
            raise ValueError(f"weights and young must be above 0, swing from 0 to below 1; got {self}")


def weather(seed: int | str, steps: int, climate: Climate = Climate(), gap: int = 600) -> Trace:
    """One market of `steps` samples; the same arguments give the same market on every machine.

    Raises ValueError if `steps` is above MAX_STEPS, or for a gap that a Trace cannot have.
    """
    if not 0 <= steps <= MAX_STEPS:
        raise ValueError(f"steps must be 0 to {MAX_STEPS}; got {steps}")
    random = Random(f"weather {seed}")  # noqa: S311  not for secrets
    up = random.random() < climate.down / (climate.up + climate.down)
    age = 0.0
    samples = bytearray()
    for step in range(steps):
        samples.append(up)
        noon = -cos(2 * pi * (step * gap % DAY) / DAY)  # -1 at midnight, where a trace begins
        weight = climate.up * (1 + climate.swing * noon) if up else climate.down * (1 - climate.swing * noon)
        survives = ((age + climate.young) / (age + gap + climate.young)) ** weight
        if random.random() < survives:
            age += gap
        else:
            up, age = not up, 0.0
    return Trace(f"weather-{seed}", gap, bytes(samples))


def zones(
    seed: int | str,
    steps: int,
    count: int,
    *,
    climate: Climate = Climate(),
    region: Climate = Climate(up=0.3, down=1.5),
    gap: int = 600,
) -> tuple[Trace, ...]:
    """Markets of one region: each has its own weather, and all are out while the region is out."""
    shared = weather(f"{seed} region", steps, region, gap).up
    own = [weather(f"{seed} zone {zone}", steps, climate, gap) for zone in range(count)]
    return tuple(Trace(trace.name, gap, bytes(a & b for a, b in zip(trace.up, shared, strict=True))) for trace in own)


def endless(seed: int | str, climate: Climate = Climate()) -> Iterator[tuple[float, float]]:
    """When a market is up, from one time to another in seconds, without an end; always the same for the same arguments.

    Unlike `weather` it begins in the middle of a spell, as a market is found, and times are not rounded to steps. A
    spell lasts LONGEST_SPELL at most. The swing of the climate is left out.
    """
    random = Random(f"endless {seed}")  # noqa: S311  not for secrets
    up, begun = random.random() < 0.5, -SETTLING * random.random()
    while True:
        weight = climate.up if up else climate.down
        drawn = climate.young * ((1 - random.random()) ** (-1 / weight) - 1)
        end = begun + min(max(drawn, SHORTEST_SPELL), LONGEST_SPELL)
        if up and end > 0:
            yield max(begun, 0.0), end
        up, begun = not up, end


def weight_of(mean: float, young: float = 1200.0) -> float:
    """The weight of spells that last `mean` seconds on average, those that would be longer cut off at LONGEST_SPELL.

    Without the cut, spells of a weight of 1 or less have no mean. Raises ValueError unless `mean` is from a minute to
    half of LONGEST_SPELL.
    """
    if not SHORTEST_SPELL <= mean <= LONGEST_SPELL / 2:
        raise ValueError(f"the mean of spells must be {SHORTEST_SPELL} to {LONGEST_SPELL / 2:.0f} seconds; got {mean}")
    low, high = 1e-3, 1e3
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if mean_spell(middle, young) > mean else (low, middle)
    return (low + high) / 2


def mean_spell(weight: float, young: float = 1200.0) -> float:
    """The mean of spells of this weight in seconds, those that would be longer cut off at LONGEST_SPELL."""
    ratio, beyond = 1 + LONGEST_SPELL / young, weight - 1
    return young * (log(ratio) if abs(beyond) < 1e-9 else (1 - ratio**-beyond) / beyond)


def made_up(seed: int | str, *, together: bool = False) -> list[tuple[Trace, ...]]:
    """The markets of a study without traces: MADE_UP of one zone each or, `together`, one of MADE_UP_ZONES zones."""
    if together:
        return [zones(seed, MADE_UP_STEPS, MADE_UP_ZONES)]
    return [(weather(f"{seed}-{number}", MADE_UP_STEPS),) for number in range(MADE_UP)]


def comb(steps: int, up: int, down: int, gap: int = 600, first: int = 0) -> Trace:
    """Up for `up` steps, out for `down` steps, and so on; out for the first `first` steps."""
    if up + down < 1 or min(steps, up, down, first) < 0:
        raise ValueError("up + down must be 1 or more, and no number may be below 0")
    times = steps // (up + down) + 1
    return Trace(f"comb-{up}-{down}", gap, (bytes(first) + (b"\1" * up + bytes(down)) * times)[:steps])


def sniper(useful: float, out: int, gap: int = 600) -> Market:
    """A hostile market: Spot goes for `out` steps once the job has done useful work on it for `useful` seconds.

    With 0, Spot goes right at the end of every changeover; with the age of a checkpoint, when an interruption costs
    most.
    """
    wait = ceil(useful / gap)
    worked = gone = 0

    def market(_step: int, watched: Watched) -> bool:
        nonlocal worked, gone
        if gone:
            gone -= 1
            return False
        worked = worked + 1 if watched.on and watched.changing <= 0 else 0
        if worked > wait:
            worked, gone = 0, max(out - 1, 0)
            return False
        return True

    return market


def siren(patience: int, gone: int) -> Market:
    """A hostile market: up while the job is not on it, so that it looks old and dependable.

    It goes `patience` steps after the job has come, even during the changeover, and stays out for `gone` steps.
    """
    on = out = 0

    def market(_step: int, watched: Watched) -> bool:
        nonlocal on, out
        if out:
            out -= 1
            return False
        on = on + 1 if watched.on else 0
        if on > patience:
            on, out = 0, max(gone - 1, 0)
            return False
        return True

    return market
