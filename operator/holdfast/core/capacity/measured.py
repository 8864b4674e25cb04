"""What was measured of tiers: the typical and the worst of a few times, and how fast each tier of a grid is.

A pace that was measured wins. `capacity.tiers[].pace` states the pace of a tier on which the job has not trained yet.
Stated paces are scaled so that they agree with what was measured, so then only their ratios count. Before anything was
measured, those that are written in the job itself count as they are. Without either, a tier with a CPU counts as far
slower than accelerators. Among accelerators, the price is the only hint: a tier that costs less is assumed to be
slower, but still cheaper for each unit of work, so that the job tries it where there is time. A Spot tier that costs
more than the known Spot tiers is assumed to be faster than they are, or a job whose first node is slow would never try
it. No tier is assumed to be faster than the fastest known one.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import sqrt
from typing import Final, NamedTuple

from holdfast.api.knowledge import MAX_MEASURED, Measured
from holdfast.api.profile import ProfileTier

CPU_SPEED: Final = 0.02  # assumed speed of a CPU tier that was never used, relative to accelerators
ACCELERATED: Final = 10.0  # assumed speed of accelerators that were never used, relative to CPUs


def median(measured: Measured) -> timedelta:
    """The typical time: the median, the upper of two. An outlier, such as a first image pull, does not move it."""
    times = sorted(measured.recent)
    return times[len(times) // 2] if times else measured.worst


def at_worst(measured: Measured) -> timedelta:
    """The time to plan with in the worst case: the longest time seen, and more while there are few measurements.

    With n < 5 measurements it is longest * (n + 1) / n.
    """
    count = max(len(measured.recent), 1)
    return measured.worst if count >= MAX_MEASURED else measured.worst * (count + 1) / count


class Speeds(NamedTuple):
    """The speed of each tier, relative to the tier `reference`.

    `pace` is in seconds per step on the reference tier; None if no pace was measured and the job states none. `assumed`
    are the tiers whose speed was neither measured nor stated.
    """

    by_tier: Mapping[str, float]
    reference: str | None
    pace: float | None
    assumed: frozenset[str]


def find_speeds(tiers: Sequence[ProfileTier], measured: Mapping[str, float], *, shared: bool) -> Speeds:
    """The speeds of these tiers. `measured` is the pace by tier in seconds; it may contain other tiers.

    `shared`: the tiers are those of a CapacityProfile. Its paces are of some other program, so they say nothing as long
    as no tier has both a measured and a stated pace.
    """
    used = [tier for tier in tiers if tier.name in measured]
    first = _reference(used)
    paces = {tier.name: measured[tier.name] for tier in used} | _stated(tiers, measured, shared=shared)
    reference = first or _reference([tier for tier in tiers if tier.name in paces])
    on_cpu = reference is not None and reference.kind == "CPU"
    speeds = {name: paces[reference.name] / pace for name, pace in paces.items()} if reference else {}
    for tier in tiers:
        if tier.name not in paces:
            speeds[tier.name] = _assumed(tier, tiers, {name: speeds[name] for name in paces}, on_cpu=on_cpu)
    unknown = frozenset(tier.name for tier in tiers if tier.name not in paces)
    base = first if shared else reference
    return Speeds(speeds, base.name if base else None, paces[base.name] if base else None, unknown)


def _reference(tiers: Sequence[ProfileTier]) -> ProfileTier | None:
    """The first dedicated one of these tiers, otherwise the first one."""
    return next((tier for tier in tiers if tier.kind == "Dedicated"), tiers[0] if tiers else None)


def _stated(tiers: Sequence[ProfileTier], measured: Mapping[str, float], *, shared: bool) -> dict[str, float]:
    """The pace in seconds of each tier that has a stated pace and no measured one."""
    stated = {tier.name: tier.pace.total_seconds() for tier in tiers if tier.pace}
    both = _reference([tier for tier in tiers if tier.name in stated and tier.name in measured])
    if both is None and shared and measured:
        return {}
    scale = measured[both.name] / stated[both.name] if both else 1.0
    return {name: pace * scale for name, pace in stated.items() if name not in measured}


def _assumed(tier: ProfileTier, tiers: Sequence[ProfileTier], known: Mapping[str, float], *, on_cpu: bool) -> float:
    """The speed of a tier that is not known. Prices are compared only within a kind, since Spot is cheaper anyway."""
    if tier.kind == "CPU":
        return 1.0 if on_cpu else CPU_SPEED
    fastest = ACCELERATED if on_cpu else 1.0
    alike = [one for one in tiers if one.kind == tier.kind]
    compared = [(known[one.name], one.price_per_node_hour) for one in alike if one.name in known]
    if not compared:
        prices = (one.price_per_node_hour for one in alike if one.price_per_node_hour)
        compared = [(fastest, max(prices, default=None))]
    price = tier.price_per_node_hour
    found = max(speed * sqrt(price / other) if price and other else speed for speed, other in compared)
    # The promise of a deadline counts on dedicated tiers: they are not assumed to be faster than others of their kind.
    limited_by = (
        [one.name for one in tiers if one.kind != "CPU"] if tier.kind == "Spot" else [one.name for one in alike]
    )
    return min(found, max((known[name] for name in limited_by if name in known), default=fastest))
