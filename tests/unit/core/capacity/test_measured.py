"""Typical and worst times, and how fast tiers are: a measured pace wins, then a stated one, then an assumed one."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.decisions.tier_views import SECOND, measured

from holdfast.api.knowledge import Measured
from holdfast.api.profile import ProfileTier
from holdfast.core.capacity.measured import at_worst, find_speeds, median


def test_typical_and_worst():
    assert median(measured(5, 900, 7)) == 7 * SECOND
    assert median(Measured(worst=SECOND)) == SECOND
    assert [at_worst(measured(*(10,) * count)) / SECOND for count in (1, 2, 4, 5)] == [20, 15, 12.5, 10]


# Speeds


def tier(name: str, kind: str = "Spot", price: str | None = None, pace: float | None = None) -> ProfileTier:
    fields: dict[str, Any] = {"name": name, "kind": kind}
    if price:
        fields["price_per_node_hour"] = price
    if pace:
        fields["pace"] = timedelta(seconds=pace)
    return ProfileTier(**fields)


V100, T4, ON_DEMAND, CPU = (
    tier("v100", price="1.02"), tier("t4", price="0.19"), tier("on-demand", "Dedicated", "3.06"), tier("cpu", "CPU"),
)  # fmt: skip


def speeds(*tiers: ProfileTier, paces: dict[str, float], shared: bool = False) -> dict[str, float]:
    found = find_speeds(tiers, paces, shared=shared)
    return {name: round(speed, 3) for name, speed in found.by_tier.items()}


def test_what_was_measured_wins():
    stated = tier("t4", price="0.19", pace=24)
    found = find_speeds((V100, stated), {"v100": 12, "t4": 30}, shared=False)
    assert found.by_tier == {"v100": 1.0, "t4": 0.4}
    assert (found.reference, found.pace, found.assumed) == ("v100", 12, frozenset())


@pytest.mark.parametrize("shared", [False, True])
def test_a_stated_pace_is_scaled_to_what_was_measured(shared: bool):
    tiers = tier("v100", pace=1), tier("t4", pace=2.5)
    found = find_speeds(tiers, {"v100": 12}, shared=shared)
    assert found.by_tier == {"v100": 1.0, "t4": 0.4}
    assert not found.assumed


def test_paces_of_a_profile_say_nothing_if_they_cannot_be_compared():
    stated = tier("t4", price="0.19", pace=2.5)
    assert speeds(V100, stated, paces={"v100": 12}) == {"v100": 1, "t4": 4.8}
    assert speeds(V100, stated, paces={"v100": 12}, shared=True)["t4"] == pytest.approx(0.432, abs=1e-3)


def test_before_anything_was_measured_stated_paces_are_compared():
    tiers = tier("a", pace=12), tier("b", "Dedicated", pace=6)
    found = find_speeds(tiers, {}, shared=True)
    assert found.by_tier == {"a": 0.5, "b": 1.0}
    assert (found.reference, found.pace) == (None, None), "in a profile they are of some other program"
    # Breaks if policy Deadline has to train some steps first although the job says how long its steps take.
    found = find_speeds(tiers, {}, shared=False)
    assert (found.by_tier, found.reference, found.pace) == ({"a": 0.5, "b": 1.0}, "b", 6)


def test_a_cheaper_accelerator_that_was_never_used_is_assumed_to_be_slower_and_cheaper_for_each_unit_of_work():
    found = find_speeds((V100, T4, ON_DEMAND), {"v100": 12}, shared=False)
    assert 0.19 / 1.02 < found.by_tier["t4"] < 0.5
    assert found.by_tier["on-demand"] == 1.0, "prices of Spot and dedicated tiers cannot be compared"
    assert found.assumed == {"t4", "on-demand"}


def test_a_more_expensive_accelerator_is_not_assumed_to_be_faster():
    a100 = tier("a100", price="2")
    assert speeds(V100, T4, a100, paces={"v100": 12, "t4": 30})["a100"] == 1.0
    assert speeds(T4, a100, paces={"t4": 30}) == {"t4": 1.0, "a100": 1.0}


def test_a_more_expensive_spot_accelerator_is_assumed_to_be_faster_than_a_slow_one():
    """Breaks if a job whose first node is a slow one never tries the faster Spot tier, and pays for dedicated nodes."""
    found = speeds(V100, T4, ON_DEMAND, paces={"t4": 30, "on-demand": 12})
    assert found == {"v100": 0.927, "t4": 0.4, "on-demand": 1.0}
    assert speeds(tier("h100", price="9"), T4, ON_DEMAND, paces={"t4": 30, "on-demand": 12})["h100"] == 1.0
    dedicated = tier("slow", "Dedicated", "0.75"), tier("fast", "Dedicated", "3")
    assert speeds(V100, *dedicated, paces={"v100": 12, "slow": 30})["fast"] == 1.0, "the promise counts on it"


def test_among_dedicated_tiers_that_were_never_used_the_most_expensive_one_counts_as_fast():
    found = speeds(V100, tier("slow", "Dedicated", "0.75"), tier("fast", "Dedicated", "3"), paces={"v100": 12})
    assert found == {"v100": 1.0, "slow": 0.5, "fast": 1.0}


def test_without_prices_accelerators_count_as_equally_fast():
    assert speeds(tier("a"), tier("b"), paces={"a": 1}) == {"a": 1.0, "b": 1.0}


def test_accelerators_count_as_far_faster_than_cpus():
    assert speeds(V100, CPU, paces={"v100": 1}) == {"v100": 1.0, "cpu": 0.02}
    assert speeds(V100, CPU, paces={"cpu": 50}) == {"v100": 10.0, "cpu": 1.0}
    assert speeds(CPU, tier("cpu-2", "CPU"), paces={"cpu": 1}) == {"cpu": 1.0, "cpu-2": 1.0}


def test_a_pace_of_a_tier_that_left_the_grid_is_not_used():
    assert find_speeds((V100,), {"gone": 5}, shared=False).pace is None
