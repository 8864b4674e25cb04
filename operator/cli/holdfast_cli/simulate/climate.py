"""How a Spot market behaves on average, and times when one is up that are drawn from that."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from random import Random

DAY = 86_400
SETTLING = 30 * DAY  # how long before its beginning an endless market may have begun
SHORTEST_SPELL, LONGEST_SPELL = 60, 30 * DAY  # seconds


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
