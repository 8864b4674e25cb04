"""When to save: what `checkpoint.every` and `checkpoint.maxLoss` ask for, reckoned from what saves have cost. Pure.

All times are seconds. The age of a state counts from the moment at which a save has taken hold of it, not from its
commit: that is the work that a loss takes.
"""

import math
from dataclasses import dataclass
from typing import Final

from holdfast_train.environment import DEFAULT_EVERY_SECONDS, Every

__all__ = [
    "LONGEST",
    "MOST_SHARE",
    "RECENT",
    "SHORTEST",
    "Cost",
    "at_most",
    "auto",
    "daly",
    "due",
    "middle",
    "remark",
    "remember",
]

RECENT: Final = 5  # saves that are remembered: enough for one that was slow not to count, few enough to follow a change
ASSUMED_COST: Final = 10.0  # of a save, before the first was measured
SHORTEST: Final = 30.0  # between two saves of `auto`: each writes the whole state, and a record that stays in the log
LONGEST: Final = 3600.0  # what is known of losses may be wrong, and the operator reckons with no more than this
MOST_SHARE: Final = 0.05  # of the time that saving may cost


@dataclass(frozen=True)
class Cost:
    """What a save cost: `lost` seconds of training; `commit` seconds from its beginning to its commit; `size` in bytes.

    A save for which training waits costs the same in both; one in the background loses little and takes long.
    """

    lost: float
    commit: float
    size: int


def remember(costs: tuple[Cost, ...], cost: Cost) -> tuple[Cost, ...]:
    """The last few costs, oldest first, `cost` among them."""
    return (*costs, cost)[-RECENT:]


def middle(values: list[float]) -> float:
    """The median, the upper of two: one save that met a storage in trouble does not move it."""
    return sorted(values)[len(values) // 2]


def daly(cost: float, between_losses: float) -> float:
    """Seconds of training between two saves with which the least time is lost to saves and losses together.

    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
    Computer Systems 22 (2006), pages 303-312. With `cost` d of a save and mean time M between losses that come at
    random:

        sqrt(2 d M) * (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d    where d < 2M
        M                                                          elsewhere

    The time of the save itself is not part of it.
    """
    if cost >= 2 * between_losses:
        return between_losses
    ratio = cost / (2 * between_losses)
    return math.sqrt(2 * cost * between_losses) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def auto(costs: tuple[Cost, ...], between_losses: float | None) -> float:
    """From one save's beginning to the next one's as `auto` wants it, with what the last saves cost.

    Daly's interval and the save, but no less than SHORTEST and no more than LONGEST; above both, so long that saving
    costs no more than MOST_SHARE of the time and that one save is committed before the next one begins. Before the
    first save it starts from ASSUMED_COST, and with ten minutes at most, since there is a cost to be measured. Where
    nobody knows how often losses come it is ten minutes.
    """
    lost = middle([cost.lost for cost in costs]) if costs else ASSUMED_COST
    wanted = DEFAULT_EVERY_SECONDS if between_losses is None else daly(lost, between_losses) + lost
    wanted = min(max(wanted, SHORTEST), LONGEST)
    if not costs:
        return min(wanted, DEFAULT_EVERY_SECONDS)
    return max(wanted, lost / MOST_SHARE, middle([cost.commit for cost in costs]))


def at_most(costs: tuple[Cost, ...], max_loss: float) -> float:
    """From one save's beginning to the next one's so that a loss costs no more than `max_loss`.

    A loss just before a commit takes that interval and the time until the commit, so the longest of these has to fit
    in. If two of them do not, the promise cannot be kept (`remark` says so): one save then follows the other.
    """
    commit = max((cost.commit for cost in costs), default=max_loss / 2)
    return max(max_loss - commit, commit)


def due(every: Every, costs: tuple[Cost, ...], *, step: int, age: float, last_step: float = 0.0) -> bool:
    """Is it time to save, after `step`?

    `age`: of the state in the newest checkpoint, also if that is still on its way, or of the run if there is none;
    `last_step`: how long the last step took. Whatever `every` says, a save begins before another such step would make
    the state older than `max_loss` allows.
    """
    if every.max_loss is not None and age + last_step > at_most(costs, every.max_loss):
        return True
    if every.steps is not None:
        return step % every.steps == 0
    if every.seconds is not None:
        return age >= every.seconds
    return age >= auto(costs, every.between_losses)


def remark(every: Every, costs: tuple[Cost, ...]) -> str | None:
    """What people should know of `max_loss`: that it cannot be kept, or that keeping it is dear. None: all is well."""
    if every.max_loss is None or not costs:
        return None
    commit, lost = max(cost.commit for cost in costs), middle([cost.lost for cost in costs])
    wanted = at_most(costs, every.max_loss)
    if 2 * commit > every.max_loss:
        return (
            f"checkpoint.maxLoss ({every.max_loss:g} s) cannot be kept: a save takes {commit:.1f} s until it is "
            f"committed, so a loss may cost {2 * commit:.1f} s; allow at least that, or a faster storage"
        )
    if lost / wanted > MOST_SHARE:
        return (
            f"checkpoint.maxLoss ({every.max_loss:g} s) asks for a save every {wanted:.1f} s, and each costs "
            f"{lost:.1f} s: {lost / wanted:.0%} of the time; a longer one makes training faster"
        )
    return None
