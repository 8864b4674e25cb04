"""When to save: what `checkpoint.every` and `checkpoint.maxLostWork` ask for, with the costs of earlier saves. Pure.

All times are seconds. The age of a state counts from the moment when a save begins to copy it, not from its commit: the
work since that moment is what an interruption costs.
"""

import math
from dataclasses import dataclass
from typing import Final

from holdfast_protocol.saving import LONGEST, MOST_SHARE
from holdfast_protocol.settings import Every

RECENT: Final = 5  # saves that are remembered: enough to ignore one slow save, few enough to follow a change
ASSUMED_COST: Final = 10.0  # of a save, before the first one is measured
DEFAULT_EVERY_SECONDS: Final = 600.0
SHORTEST: Final = 30.0  # between two saves of `auto`: each writes the whole state, and a record that stays in the log


@dataclass(frozen=True)
class Cost:
    """What a save cost: `lost` seconds of training; `commit` seconds from its beginning to its commit.

    `size`: the bytes that it uploaded, without frozen parameters that were stored before.

    If training waits for the save, `lost` equals `commit`. A save in the background loses little and takes long.
    """

    lost: float
    commit: float
    size: int


def remember(costs: tuple[Cost, ...], cost: Cost) -> tuple[Cost, ...]:
    """The last RECENT costs with `cost` added, oldest first."""
    return (*costs, cost)[-RECENT:]


def median(values: list[float]) -> float:
    """The median, the upper one of two: a single slow save does not change it."""
    return sorted(values)[len(values) // 2]


def daly_interval(cost: float, between_interruptions: float) -> float:
    """Seconds of training between two saves that minimise the time lost to saves and interruptions together.

    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
    Computer Systems 22 (2006), pages 303-312. With `cost` d of a save and mean time M between random interruptions:

        sqrt(2 d M) * (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d    where d < 2M
        M                                                          otherwise

    The time of the save itself is not part of it.
    """
    if cost >= 2 * between_interruptions:
        return between_interruptions
    ratio = cost / (2 * between_interruptions)
    return math.sqrt(2 * cost * between_interruptions) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def auto_interval(costs: tuple[Cost, ...], between_interruptions: float | None) -> float:
    """Seconds from the beginning of one save to the beginning of the next for `every: auto`.

    Daly's interval plus the cost of the save, between SHORTEST and LONGEST. It becomes longer if saving would otherwise
    cost more than MOST_SHARE of the time, or if a save is not committed before the next one begins. Before the first
    save the cost is assumed (ASSUMED_COST), and the interval is ten minutes at most, so that a cost gets measured.
    Without a known rate of interruptions it is ten minutes.
    """
    lost = median([cost.lost for cost in costs]) if costs else ASSUMED_COST
    wanted = (
        DEFAULT_EVERY_SECONDS if between_interruptions is None else daly_interval(lost, between_interruptions) + lost
    )
    wanted = min(max(wanted, SHORTEST), LONGEST)
    if not costs:
        return min(wanted, DEFAULT_EVERY_SECONDS)
    return max(wanted, lost / MOST_SHARE, median([cost.commit for cost in costs]))


def longest_interval(costs: tuple[Cost, ...], max_lost_work: float) -> float:
    """Seconds from the beginning of one save to the beginning of the next so that an interruption costs at most
    `max_lost_work`.

    An interruption just before a commit costs the interval plus the time until the commit, so the longest measured
    commit is subtracted. If two commits take longer than `max_lost_work`, the limit cannot be met (`warning` says so):
    one save then follows the other.
    """
    commit = max((cost.commit for cost in costs), default=max_lost_work / 2)
    return max(max_lost_work - commit, commit)


def is_due(every: Every, costs: tuple[Cost, ...], *, step: int, age: float, last_step: float = 0.0) -> bool:
    """True if it is time to save after `step`.

    `age`: of the newest saved state, even if its save is still in flight; of the run if nothing is saved yet.
    `last_step`: how long the last step took. For any `every`, a save begins if one more step of that length would
    make the state older than `max_lost_work` allows.
    """
    if every.max_lost_work is not None and age + last_step > longest_interval(costs, every.max_lost_work):
        return True
    if every.steps is not None:
        return step % every.steps == 0
    if every.seconds is not None:
        return age >= every.seconds
    return age >= auto_interval(costs, every.mean_time_between_interruptions)


def warning(every: Every, costs: tuple[Cost, ...]) -> str | None:
    """What to say about `max_lost_work`: that it cannot be met, or that it is expensive. None if neither is true."""
    if every.max_lost_work is None or not costs:
        return None
    commit, lost = max(cost.commit for cost in costs), median([cost.lost for cost in costs])
    wanted = longest_interval(costs, every.max_lost_work)
    if 2 * commit > every.max_lost_work:
        return (
            f"checkpoint.maxLostWork ({every.max_lost_work:g} s) cannot be met: a save takes {commit:.1f} s until it "
            f"is committed, so an interruption may cost {2 * commit:.1f} s; allow at least that, or use a faster "
            "storage"
        )
    if lost / wanted > MOST_SHARE:
        return (
            f"checkpoint.maxLostWork ({every.max_lost_work:g} s) needs a save every {wanted:.1f} s, and each costs "
            f"{lost:.1f} s of training: {lost / wanted:.0%} of the time; a longer maxLostWork makes training faster"
        )
    return None
