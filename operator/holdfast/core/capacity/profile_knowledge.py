"""What a CapacityProfile knows of its tiers: what its present jobs know, merged with what the profile remembers.

The profile remembers what deleted jobs have found out. Merging the same news again changes nothing, and the order of
the jobs does not matter. Losses are counted in holdfast.core.capacity.loss_counts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from holdfast.api.knowledge import MAX_MEASURED, Measured, Seen, TierKnowledge
from holdfast.api.profile import CapacityProfileStatus
from holdfast.core.capacity.knowledge import Known, find, spell_fields
from holdfast.core.capacity.loss_counts import NOTHING, LossCount, LossCounts, stored_level
from holdfast.core.capacity.spells import FRESH, Spell, prevailing_spell, stored_spell

RENEW: Final = timedelta(minutes=5)  # a tier's seen_at is written so often, so that it does not look old to other jobs
SECOND: Final = timedelta(seconds=1)


def profile_status(
    tiers: Sequence[str],
    before: CapacityProfileStatus,
    jobs: Sequence[Known],
    *,
    totals: LossCounts,
    level: LossCounts,
    now: datetime,
) -> CapacityProfileStatus:
    """The status of a profile with these tiers (at most MAX_TIERS). Other tiers are forgotten.

    `before` is the present status, `jobs` is what each job of the profile knows, `totals` and `level` are as in
    loss_counts. A job's pace says nothing about another job, and is left out.
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
        counted=stored_level(level, tiers),
    )


def is_news(before: CapacityProfileStatus, after: CapacityProfileStatus) -> bool:
    """True if other jobs need the new status: something other than times changed, or a time is 5 minutes old."""
    if _timeless(before) != _timeless(after):
        return True
    for one in after.tiers:
        old = find(before.tiers, one.tier)
        if old and old.seen_at and one.seen_at and one.seen_at - old.seen_at >= RENEW:
            return True
    return False


def availability_changed(before: CapacityProfileStatus, after: CapacityProfileStatus) -> bool:
    """True if a tier came up or went out: then every job's policy is asked again."""
    return any(_up(find(before.tiers, one.tier)) != _up(one) for one in after.tiers)


def pool_measured(several: Sequence[Measured]) -> Measured | None:
    """All measurements together; the recent ones are thinned out evenly from the shortest to the longest."""
    times = sorted(time for one in several for time in one.recent)
    if not times:
        return None
    return Measured(recent=tuple(_spread(times, MAX_MEASURED)), worst=max(one.worst for one in several))


def merge_measured(before: Measured | None, jobs: Measured | None) -> Measured | None:
    """What the jobs measured; while that is little, filled up with what the profile remembers."""
    if before is None or jobs is None:
        return jobs or before
    if (room := MAX_MEASURED - len(jobs.recent)) <= 0:
        return jobs
    others = sorted((Counter(before.recent) - Counter(jobs.recent)).elements())
    times = sorted((*jobs.recent, *_spread(others, room)))
    return Measured(recent=tuple(times), worst=max(before.worst, jobs.worst))


def merge_spells(before: Spell | None, jobs: Sequence[Spell], now: datetime) -> Spell | None:
    """Combine all observations of a tier into one spell; it starts where gap-free observation starts.

    While one job keeps its node, the tier may refuse another one. So the tier counts as up only since the last refusal.
    """
    if before is not None:  # a time in the future (another clock, an edit by hand) must not outweigh all later news
        before = before._replace(seen_at=min(before.seen_at, now), since=min(before.since, now))
    spells = [spell for spell in (before, *jobs) if spell]
    best = prevailing_spell(spells)
    if best is None:
        return None
    since = best.since
    if before is not None and before.up == best.up and since - before.seen_at <= FRESH:
        since = before.since
    if best.up:
        since = max([since, *(spell.seen_at for spell in spells if spell.state is Seen.REFUSED)])
    return best._replace(since=min(since, best.seen_at))  # the prevailing spell may be older than others


def _together(before: TierKnowledge, jobs: Sequence[TierKnowledge], count: LossCount, now: datetime) -> TierKnowledge:
    seen = [spell for one in jobs if (spell := stored_spell(one))]
    observed = {one.observation for one in (before, *jobs)}
    return TierKnowledge(
        tier=before.tier,
        **spell_fields(merge_spells(stored_spell(before), seen, now)),
        observation="Billed" if "Billed" in observed else "Free" if "Free" in observed else None,
        acquire=merge_measured(before.acquire, pool_measured([one.acquire for one in jobs if one.acquire])),
        start=merge_measured(before.start, pool_measured([one.start for one in jobs if one.start])),
        losses=count.losses,
        had=count.node_time // SECOND * SECOND,
    )


def _spread(times: Sequence[timedelta], places: int) -> Iterable[timedelta]:
    """At most `places` of these sorted times, evenly spaced; the middle one if there is one place."""
    last = len(times) - 1
    if last < places:
        return times
    return [times[last * place // (places - 1)] for place in range(places)] if places > 1 else [times[last // 2]]


def _timeless(status: CapacityProfileStatus) -> object:
    """The parts of a status that do not change merely because time passes."""
    known = [one.model_copy(update={"seen_at": None, "had": timedelta(0)}) for one in status.tiers]
    return known, [(one.tier, one.losses) for one in status.counted]


def _up(one: TierKnowledge | None) -> bool | None:
    return None if one is None or one.state is None else one.state is Seen.UP
