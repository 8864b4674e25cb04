"""What a profile knows of its tiers: what its jobs tell, folded into what it remembers of jobs that are gone. Pure.

Folding the same news in again changes nothing, and the order of jobs does not matter. How losses are counted is said in
holdfast.core.capacity.loss_counts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from holdfast.api.knowledge import MAX_MEASURED, Measured, Seen, TierKnowledge
from holdfast.api.profile import CapacityProfileStatus
from holdfast.core.capacity.knowledge import Known, find, spell_fields
from holdfast.core.capacity.loss_counts import NOTHING, Tallies, Tally, written
from holdfast.core.capacity.spells import FRESH, Spell, prevailing, stored

RENEW: Final = timedelta(minutes=5)  # what was seen is written again so often; it must not look stale to other jobs
SECOND: Final = timedelta(seconds=1)


def profile_status(
    tiers: Sequence[str],
    before: CapacityProfileStatus,
    jobs: Sequence[Known],
    *,
    totals: Tallies,
    level: Tallies,
    now: datetime,
) -> CapacityProfileStatus:
    """The status of a profile with these tiers, at most MAX_TIERS, of which nothing else is remembered.

    `before` is what it says now; `jobs` is what each of its jobs can tell others; `totals` and `level` are what was
    counted. The pace of a job says nothing about another one, and is left out.
    """
    known = []
    for tier in tiers:
        one, several = find(before.tiers, tier), [found for job in jobs if (found := find(job, tier))]
        if one or several or tier in totals:
            known.append(_together(one or TierKnowledge(tier=tier), several, totals.get(tier, NOTHING), now))
    return CapacityProfileStatus(
        up=", ".join(one.tier for one in known if one.state is Seen.UP),
        out=", ".join(one.tier for one in known if one.state not in (None, Seen.UP)),
        seen_at=max((one.seen_at for one in known if one.seen_at), default=None),
        tiers=tuple(known),
        counted=written(level, tiers),
    )


def is_news(before: CapacityProfileStatus, after: CapacityProfileStatus) -> bool:
    """True if others should hear of it: not only time went by, or what was seen will soon look stale."""
    if _timeless(before) != _timeless(after):
        return True
    for one in after.tiers:
        old = find(before.tiers, one.tier)
        if old and old.seen_at and one.seen_at and one.seen_at - old.seen_at >= RENEW:
            return True
    return False


def turned(before: CapacityProfileStatus, after: CapacityProfileStatus) -> bool:
    """True if a tier came or went, which is a reason to ask every policy again."""
    return any(_up(find(before.tiers, one.tier)) != _up(one) for one in after.tiers)


def pool(several: Sequence[Measured]) -> Measured | None:
    """All times together: of those that are recent evenly spaced ones, from the shortest to the longest."""
    times = sorted(time for one in several for time in one.recent)
    if not times:
        return None
    return Measured(recent=tuple(_spread(times, MAX_MEASURED)), worst=max(one.worst for one in several))


def remembered(before: Measured | None, jobs: Measured | None) -> Measured | None:
    """What the jobs measured; as long as that is little, what the profile remembers is added."""
    if before is None or jobs is None:
        return jobs or before
    if (room := MAX_MEASURED - len(jobs.recent)) <= 0:
        return jobs
    others = sorted((Counter(before.recent) - Counter(jobs.recent)).elements())
    times = sorted((*jobs.recent, *_spread(others, room)))
    return Measured(recent=tuple(times), worst=max(before.worst, jobs.worst))


def followed(before: Spell | None, jobs: Sequence[Spell], now: datetime) -> Spell | None:
    """The spell that all who ever watched the tier make of it: it is as old as their watch without a gap.

    A job that kept its node while another one was refused does not show that there was one to be had: the tier is up
    from the last refusal on.
    """
    if before is not None:  # what somebody wrote by hand, or another clock, must not hold back all news to come
        before = before._replace(seen_at=min(before.seen_at, now), since=min(before.since, now))
    spells = [spell for spell in (before, *jobs) if spell]
    best = prevailing(spells)
    if best is None:
        return None
    since = best.since
    if before is not None and before.up == best.up and since - before.seen_at <= FRESH:
        since = before.since
    if best.up:
        since = max([since, *(spell.seen_at for spell in spells if spell.state is Seen.REFUSED)])
    return best._replace(since=min(since, best.seen_at))  # the news that counts may be older than others


def _together(before: TierKnowledge, jobs: Sequence[TierKnowledge], count: Tally, now: datetime) -> TierKnowledge:
    told = [spell for one in jobs if (spell := stored(one))]
    observed = {one.observation for one in (before, *jobs)}
    return TierKnowledge(
        tier=before.tier,
        **spell_fields(followed(stored(before), told, now)),
        observation="Billed" if "Billed" in observed else "Free" if "Free" in observed else None,
        acquire=remembered(before.acquire, pool([one.acquire for one in jobs if one.acquire])),
        start=remembered(before.start, pool([one.start for one in jobs if one.start])),
        losses=count.losses,
        had=count.had // SECOND * SECOND,
    )


def _spread(times: Sequence[timedelta], places: int) -> Iterable[timedelta]:
    """At most so many of these sorted times, evenly spaced; of one, the middle."""
    last = len(times) - 1
    if last < places:
        return times
    return [times[last * place // (places - 1)] for place in range(places)] if places > 1 else [times[last // 2]]


def _timeless(status: CapacityProfileStatus) -> object:
    """What does not change by itself while jobs run."""
    known = [one.model_copy(update={"seen_at": None, "had": timedelta(0)}) for one in status.tiers]
    return known, [(one.tier, one.losses) for one in status.counted]


def _up(one: TierKnowledge | None) -> bool | None:
    return None if one is None or one.state is None else one.state is Seen.UP
