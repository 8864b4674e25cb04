"""How often a tier took nodes back, and how long they were had, counted over all jobs of a profile. Pure.

Every job counts for itself, in its own status, and takes its counts along when it is deleted. So a profile keeps a
total, and beside it the level: the sum of what its jobs had counted when the total was written. An operator that takes
over adds what the level has risen by since then, and nothing twice; what was written is never taken back.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, NamedTuple

from holdfast.api.profile import CapacityProfileStatus, Counted
from holdfast.api.scalars import LONGEST
from holdfast.api.status import TrainingJobStatus

MEMORY: Final = 100  # losses; a market changes, and what is long past is not to outweigh what is so now
LONG: Final = LONGEST / 2
MOST: Final = 2**31 - 1
ZERO: Final = timedelta(0)
_HOUR: Final = timedelta(hours=1)
_EXACT: Final = Decimal("0.000001")


class Tally(NamedTuple):
    """Nodes that were taken back, and how long nodes were had. A difference of two may be negative."""

    losses: int = 0
    had: timedelta = ZERO

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        return Tally(self.losses + other.losses, self.had + other.had)

    def minus(self, other: "Tally") -> "Tally":
        """Without the other."""
        return Tally(self.losses - other.losses, self.had - other.had)


Tallies = Mapping[str, Tally]  # by tier
NOTHING: Final = Tally()


def of_job(status: TrainingJobStatus, now: datetime) -> dict[str, Tally]:
    """What a job has counted by now: of attempts that are over, and the time of those that are not."""
    found = {one.tier: Tally(one.losses, one.had) for one in status.tiers if one.losses or one.had}
    for attempt in (status.current, status.successor):
        if attempt is not None and attempt.scheduled_at is not None:
            tier, had = attempt.tier.name, max(now - attempt.scheduled_at, ZERO)
            found[tier] = found.get(tier, NOTHING).plus(Tally(0, had))
    return found


def total(several: Iterable[Tallies]) -> dict[str, Tally]:
    """The sum of all."""
    found: dict[str, Tally] = {}
    for tallies in several:
        for tier, tally in tallies.items():
            found[tier] = found.get(tier, NOTHING).plus(tally)
    return found


def taken_over(status: CapacityProfileStatus, level: Tallies) -> dict[str, Tally]:
    """The totals of a profile whose jobs have counted `level` by now, though nobody watched since it was written.

    A level that fell shows that jobs are gone. What they had counted is in the total already.
    """
    found = {one.tier: Tally(one.losses, one.had) for one in status.tiers}
    before = {one.tier: Tally(one.losses, float(one.hours) * _HOUR) for one in status.counted}
    for tier, now in level.items():
        rise = now.minus(before.get(tier, NOTHING))
        found[tier] = found.get(tier, NOTHING).plus(Tally(max(rise.losses, 0), max(rise.had, ZERO)))
    return found


def faded(tally: Tally) -> Tally:
    """A total that is not too long a memory: both numbers halved, more than once if need be; how they relate stays."""
    losses, had = max(tally.losses, 0), max(tally.had, ZERO)
    while losses >= MEMORY or had > LONG:
        losses, had = losses // 2, had / 2
    return Tally(losses, had)


def written(level: Tallies, tiers: Iterable[str]) -> tuple[Counted, ...]:
    """The level as status keeps it, of these tiers; without those of which nothing was counted."""
    return tuple(
        Counted(tier=tier, losses=min(tally.losses, MOST), hours=_hours(tally.had))
        for tier in tiers
        if (tally := level.get(tier, NOTHING)) != NOTHING
    )


def _hours(had: timedelta) -> Decimal:
    exact = Decimal(had // timedelta(microseconds=1)) / Decimal(3_600_000_000)
    return exact.quantize(_EXACT, ROUND_HALF_UP)
