"""What a CapacityProfile knows of its tiers: what its present jobs know, merged with what the profile remembers.

The profile remembers what deleted jobs have found out. Merging the same news again changes nothing, and the order of
the jobs does not matter. Losses are counted in holdfast.core.capacity.loss_counts.

A job that gets no node does not take a tier out for everybody. Its refusal counts if the refused jobs are of two
namespaces, or if a pod of its size is known to fit and more jobs are refused than have a node there now.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self

from holdfast.api.knowledge import MAX_MEASURED, MAX_SHAPES, Measured, Seen, ShapeKnowledge, TierKnowledge
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import CapacityProfileStatus
from holdfast.core.capacity.knowledge import Known, find, spell_fields
from holdfast.core.capacity.loss_counts import NOTHING, LossCount, LossCounts, stored_level
from holdfast.core.capacity.spells import FRESH, Spell, loss_known_at, prevailing_spell, shape_spell, stored_spell
from holdfast.core.observe.demand import Demand

RENEW: Final = timedelta(minutes=5)  # a tier's seen_at is written so often, so that it does not look old to other jobs
SECOND: Final = timedelta(seconds=1)


class JobView(NamedTuple):
    """What one job knows of the tiers, and what it takes to judge a refusal.

    `on` are the tiers on which the job has a node now, `had` those on which it has one or had one.
    """

    namespace: str
    demand: Demand
    known: Known
    on: frozenset[str] = frozenset()
    had: frozenset[str] = frozenset()

    @classmethod
    def of(cls, job: TrainingJob, known: Known) -> Self:
        """The view of a job; `known` is what it knows, updated by its present attempts."""
        attempts = (job.status.current, job.status.successor)
        on = frozenset(one.tier.name for one in attempts if one and one.scheduled_at and loss_known_at(one) is None)
        had = on.union(one.tier for one in known if one.had or one.acquire)
        return cls(job.metadata.namespace, Demand.of(job.spec.trainer), known, on, had)


def profile_status(
    tiers: Sequence[str],
    before: CapacityProfileStatus,
    jobs: Sequence[JobView],
    *,
    totals: LossCounts,
    level: LossCounts,
    now: datetime,
) -> CapacityProfileStatus:
    """The status of a profile with these tiers (at most MAX_TIERS). Other tiers are forgotten.

    `before` is the present status, `jobs` are the jobs of the profile, `totals` and `level` are as in loss_counts. A
    job's pace says nothing about another job, and is left out.
    """
    known = []
    for tier in tiers:
        one, several = find(before.tiers, tier), [found for job in jobs if (found := find(job.known, tier))]
        if one or several or tier in totals:
            remembered = one or TierKnowledge(tier=tier)
            shapes = _shapes(remembered, _sightings(tier, jobs, now), now)
            known.append(_together(remembered, several, shapes, totals.get(tier, NOTHING)))
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
    old = _times(before)
    return any(at - old[what] >= RENEW for what, at in _times(after).items() if what in old)


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


class _Sighting(NamedTuple):
    """One job's spell of a tier."""

    job: JobView
    spell: Spell


def _sightings(tier: str, jobs: Sequence[JobView], now: datetime) -> list[_Sighting]:
    """What the jobs saw of a tier, without the refusals that do not count."""
    seen = [_Sighting(job, spell) for job in jobs if (spell := stored_spell(find(job.known, tier)))]
    refused = [one for one in seen if one.spell.state is Seen.REFUSED and now - one.spell.seen_at <= FRESH]
    counting: dict[Demand, bool] = {}
    for demand in {one.job.demand for one in refused}:
        counting[demand] = _is_shared(tier, demand, [one.job for one in refused], jobs)
    return [
        one
        for one in seen
        if one.spell.state is not Seen.UNFIT
        and (one.spell.state is not Seen.REFUSED or counting.get(one.job.demand, False))
    ]


def _is_shared(tier: str, demand: Demand, refused: Sequence[JobView], jobs: Sequence[JobView]) -> bool:
    """True if the refusal of a pod with this demand counts for other jobs."""
    also = [job for job in refused if job.demand.accelerators <= demand.accelerators]
    if len({job.namespace for job in also}) > 1:
        return True
    fits = any(tier in job.had and job.demand.covers(demand) for job in jobs)
    holders = sum(tier in job.on and job.demand.accelerators >= demand.accelerators for job in jobs)
    return fits and len(also) > holders


def _shapes(before: TierKnowledge, seen: Sequence[_Sighting], now: datetime) -> tuple[ShapeKnowledge, ...]:
    """The state of a tier by the number of accelerators that pods ask for; at most MAX_SHAPES, the newest."""
    stored = {shape.accelerators: shape_spell(shape) for shape in before.shapes}
    merged: dict[int, Spell] = {}
    for number in sorted({*stored, *(one.job.demand.accelerators for one in seen)}):
        spells = [one.spell for one in seen if one.job.demand.accelerators == number]
        if spell := merge_spells(stored.get(number), spells, now):
            merged[number] = spell
    newest = sorted(merged, key=lambda number: (merged[number].seen_at, number))[-MAX_SHAPES:]
    return tuple(
        ShapeKnowledge(accelerators=number, state=spell.state, since=spell.since, seen_at=spell.seen_at)
        for number, spell in merged.items()
        if number in newest
    )


def _of_all_shapes(shapes: Sequence[ShapeKnowledge]) -> Spell | None:
    """What people see of a tier: up if it gives nodes to pods of any shape, otherwise what was seen last."""
    spells = [shape_spell(shape) for shape in shapes]
    newest = max((spell.seen_at for spell in spells), default=None)
    recent = [spell for spell in spells if newest is not None and newest - spell.seen_at <= FRESH]
    return max(recent, key=lambda spell: (spell.up, spell.seen_at, spell.since, spell.state), default=None)


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


def _together(
    before: TierKnowledge, jobs: Sequence[TierKnowledge], shapes: tuple[ShapeKnowledge, ...], count: LossCount
) -> TierKnowledge:
    observed = {one.observation for one in (before, *jobs)}
    return TierKnowledge(
        tier=before.tier,
        **spell_fields(_of_all_shapes(shapes)),
        observation="Billed" if "Billed" in observed else "Free" if "Free" in observed else None,
        acquire=merge_measured(before.acquire, pool_measured([one.acquire for one in jobs if one.acquire])),
        start=merge_measured(before.start, pool_measured([one.start for one in jobs if one.start])),
        losses=count.losses,
        had=count.node_time // SECOND * SECOND,
        shapes=shapes,
    )


def _spread(times: Sequence[timedelta], places: int) -> Iterable[timedelta]:
    """At most `places` of these sorted times, evenly spaced; the middle one if there is one place."""
    last = len(times) - 1
    if last < places:
        return times
    return [times[last * place // (places - 1)] for place in range(places)] if places > 1 else [times[last // 2]]


def _timeless(status: CapacityProfileStatus) -> object:
    """The parts of a status that do not change merely because time passes."""
    known = [one.model_copy(update={"seen_at": None, "had": timedelta(0), "shapes": ()}) for one in status.tiers]
    shapes = [[(shape.accelerators, shape.state, shape.since) for shape in one.shapes] for one in status.tiers]
    return known, shapes, [(one.tier, one.losses) for one in status.counted]


def _times(status: CapacityProfileStatus) -> dict[tuple[str, int | None], datetime]:
    """When each tier was last seen, at all (None) and by each shape."""
    times: dict[tuple[str, int | None], datetime] = {}
    for one in status.tiers:
        if one.seen_at is not None:
            times[one.tier, None] = one.seen_at
        times |= {(one.tier, shape.accelerators): shape.seen_at for shape in one.shapes}
    return times


def _up(one: TierKnowledge | None) -> object:
    """Whether the tier is up, at all and for each shape; None if that is not known."""
    if one is None or one.state is None:
        return None
    return one.state is Seen.UP, [(shape.accelerators, shape.state is Seen.UP) for shape in one.shapes]
