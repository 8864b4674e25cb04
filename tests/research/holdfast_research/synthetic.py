"""Generated Spot markets: seeded ones that resemble recorded ones, and hostile ones that react to the job.

In nearly every recorded pool the hazard of a spell, up or down, falls about as 1 / (age + 20 min): most spells are
short, a few last for days. A spell drawn here has the hazard `weight` / (age + `young`), so it lasts longer than x
seconds with probability (young / (young + x)) ** weight. This is a Lomax distribution; with a weight of 1 or less its
mean is infinite.
"""

from math import ceil, cos, pi
from random import Random

from holdfast_cli.simulate.climate import Climate
from holdfast_cli.simulate.machines import Watched
from holdfast_cli.simulate.traces import MAX_STEPS, Trace
from holdfast_research.economy import Market

DAY = 86_400
MADE_UP = 8  # markets of a study in which each job uses one
MADE_UP_ZONES = 3  # zones of the market of a study in which each job uses all zones
MADE_UP_STEPS = 60 * 144  # sixty days of ten minutes


def weather(seed: int | str, steps: int, climate: Climate = Climate(), gap: int = 600) -> Trace:
    """One market of `steps` samples; the same arguments give the same market on every machine.

    Raises ValueError if `steps` is above MAX_STEPS, or for a gap that a Trace cannot have.
    """
    if not 0 <= steps <= MAX_STEPS:
        raise ValueError(f"steps must be 0 to {MAX_STEPS}; got {steps}")
    random = Random(f"weather {seed}")
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
