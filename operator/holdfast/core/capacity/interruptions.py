"""How often tiers take nodes back: counted over all jobs of a profile, and the node lifetime that follows from it.

Each job counts in its own status, and its counts go when the job is deleted. So a profile stores two things: a total
per tier, and the level: the sum of what its present jobs had counted when the total was written. A new operator adds to
the total by how much the level has risen since then. So nothing is counted twice, and no count is lost.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, NamedTuple

from holdfast.api.knowledge import TierKnowledge
from holdfast.api.profile import CapacityProfileStatus, Counted, TierKind
from holdfast.api.scalars import LONGEST
from holdfast.api.status import TrainingJobStatus
from holdfast.core.observe.config import Assumptions
from holdfast.core.observe.members import node_time

MEMORY: Final = 100  # interruptions; a market changes, and old interruptions must not outweigh recent ones
LONG: Final = LONGEST / 2
MOST: Final = 2**31 - 1
REMEMBERED: Final = timedelta(hours=24)  # a tier that was not seen for longer may have improved
ZERO: Final = timedelta(0)
_HOUR: Final = timedelta(hours=1)
_EXACT: Final = Decimal("0.000001")


class InterruptionCount(NamedTuple):
    """How many nodes a tier took back, and how long its nodes were used. A difference of two may be negative."""

    interruptions: int = 0
    node_time: timedelta = ZERO

    def plus(self, other: "InterruptionCount") -> "InterruptionCount":
        """The sum of both."""
        return InterruptionCount(self.interruptions + other.interruptions, self.node_time + other.node_time)

    def minus(self, other: "InterruptionCount") -> "InterruptionCount":
        """The difference of both."""
        return InterruptionCount(self.interruptions - other.interruptions, self.node_time - other.node_time)


InterruptionCounts = Mapping[str, InterruptionCount]  # by tier
NOTHING: Final = InterruptionCount()


def of_job(status: TrainingJobStatus, now: datetime) -> dict[str, InterruptionCount]:
    """What a job has counted by now, including the node time of attempts that are not over.

    Only nodes count that the cluster gave: see PodRecord.granted.
    """
    found = {
        one.tier: InterruptionCount(one.interruptions, one.node_time)
        for one in status.tiers
        if one.interruptions or one.node_time
    }
    for attempt in (status.current, status.successor):
        if attempt is not None and (attempt.scheduled_at or attempt.inherited_at) and attempt.granted:
            tier, used = attempt.tier.name, min(node_time(attempt, attempt.scheduled_at, now), LONGEST)
            found[tier] = found.get(tier, NOTHING).plus(InterruptionCount(0, used))
    return found


def total(several: Iterable[InterruptionCounts]) -> dict[str, InterruptionCount]:
    """The sum of all, by tier."""
    found: dict[str, InterruptionCount] = {}
    for counts in several:
        for tier, count in counts.items():
            found[tier] = found.get(tier, NOTHING).plus(count)
    return found


def take_over(status: CapacityProfileStatus, level: InterruptionCounts) -> dict[str, InterruptionCount]:
    """The totals of a profile for an operator that has just started; `level` is what its jobs have counted by now.

    A level that fell shows that jobs were deleted. The total contains what they had counted.
    """
    found = {one.tier: InterruptionCount(one.interruptions, one.node_time) for one in status.tiers}
    before = {one.tier: InterruptionCount(one.interruptions, float(one.hours) * _HOUR) for one in status.counted}
    for tier, now in level.items():
        rise = now.minus(before.get(tier, NOTHING))
        found[tier] = found.get(tier, NOTHING).plus(
            InterruptionCount(max(rise.interruptions, 0), max(rise.node_time, ZERO))
        )
    return found


def fade(count: InterruptionCount) -> InterruptionCount:
    """The total, with both numbers halved until they are below the limits. Their ratio stays."""
    interruptions, node_time = max(count.interruptions, 0), max(count.node_time, ZERO)
    while interruptions >= MEMORY or node_time > LONG:
        interruptions, node_time = interruptions // 2, node_time / 2
    return InterruptionCount(interruptions, node_time)


def stored_level(level: InterruptionCounts, tiers: Iterable[str]) -> tuple[Counted, ...]:
    """The level of these tiers as status stores it, without tiers of which nothing was counted."""
    return tuple(
        Counted(tier=tier, interruptions=min(count.interruptions, MOST), hours=_hours(count.node_time))
        for tier in tiers
        if (count := level.get(tier, NOTHING)) != NOTHING
    )


def _hours(span: timedelta) -> Decimal:
    exact = Decimal(span // timedelta(microseconds=1)) / Decimal(3_600_000_000)
    return exact.quantize(_EXACT, ROUND_HALF_UP)


def interruptions_and_node_time(
    own: TierKnowledge | None, shared: TierKnowledge | None, now: datetime
) -> tuple[int, timedelta]:
    """Interruptions on a tier and total node time, from this job or from the profile: the one with more node time.

    Both are 0 if the tier was not seen for 24 hours.
    """
    known = shared if own is None or (shared and shared.node_time > own.node_time) else own
    if known is None or (known.seen_at is not None and now - known.seen_at > REMEMBERED):
        return 0, ZERO
    return known.interruptions, known.node_time


def mean_lifetime(kind: TierKind, interruptions: int, node_time: timedelta, assumed: Assumptions) -> float:
    """The expected lifetime of a node in seconds.

    The assumed lifetime of the kind counts like one more node that was lost, so that few interruptions change little.
    """
    prior = assumed.spot_lifetime if kind == "Spot" else assumed.other_lifetime
    return (node_time + prior).total_seconds() / (interruptions + 1)
