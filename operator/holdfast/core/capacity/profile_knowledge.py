"""What a CapacityProfile knows of its tiers: what its present jobs know, merged with what the profile remembers.

The profile remembers what deleted jobs have found out. Merging the same news again changes nothing, and the order of
the jobs does not matter. Interruptions are counted in holdfast.core.capacity.interruptions.

No namespace alone changes what jobs of another one read, except by nodes that the cluster gave to it or took from it. A
tenant can make a pod that no node will ever take, so a refusal counts for all jobs only if jobs of two namespaces are
refused. Otherwise it counts for jobs of its own namespace, if a pod of its size is known to fit and more jobs of the
namespace are refused than have a node there now. The time of a start is the program's own: see outlook for its bounds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from holdfast.api.knowledge import (
    MAX_MEASURED,
    MAX_REFUSALS,
    MAX_SHAPES,
    Measured,
    NamespaceRefusal,
    Seen,
    ShapeKnowledge,
    TierKnowledge,
)
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import CapacityProfileStatus, Tier
from holdfast.core.capacity.interruptions import NOTHING, InterruptionCount, InterruptionCounts, stored_level
from holdfast.core.capacity.knowledge import Known, find, spell_fields
from holdfast.core.capacity.spells import (
    FRESH,
    Spell,
    interruption_known_at,
    prevailing_spell,
    refusal_spell,
    shape_spell,
    stored_spell,
)
from holdfast.core.observe.demand import Demand, accelerators_on
from holdfast.core.observe.digest import digest

RENEW: Final = timedelta(minutes=5)  # a tier's seen_at is written so often, so that it does not look old to other jobs
SECOND: Final = timedelta(seconds=1)


class JobView(NamedTuple):
    """What one job knows of the tiers, and what it takes to judge a refusal.

    `on` are the tiers on which the job has nodes now, with their number; `obtained` those on which it has one or had
    one. `accelerators` has the number that its pods ask for on each tier where that is not the number of `demand`.
    """

    namespace: str
    demand: Demand
    known: Known
    on: Mapping[str, int] = MappingProxyType({})
    obtained: frozenset[str] = frozenset()
    accelerators: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def of(cls, job: TrainingJob, known: Known, tiers: Iterable[Tier] = ()) -> Self:
        """The view of a job on these tiers; `known` is what it knows, updated by its present attempts."""
        trainer, attempts = job.spec.trainer, (job.status.current, job.status.successor)
        own = {tier.name: accelerators_on(trainer, tier) for tier in tiers if tier.accelerators_per_node}
        view = cls(job.metadata.namespace, Demand.of(trainer), known, accelerators=own)

        def is_same(tier: str, asked: int | None) -> bool:
            """What the job obtained before an edit says nothing of what it asks for now."""
            return asked in (None, view.demand_on(tier).accelerators)

        alive = [one for one in attempts if one and one.scheduled_at and is_same(one.tier.name, one.accelerators)]
        on = {one.tier.name: one.nodes for one in alive if interruption_known_at(one) is None}
        had = (one for one in known if (one.node_time or one.acquire) and is_same(one.tier, one.accelerators))
        return view._replace(on=on, obtained=frozenset(on).union(one.tier for one in had))

    def demand_on(self, tier: str) -> Demand:
        """What each pod asks for on this tier."""
        return self.demand._replace(accelerators=self.accelerators.get(tier, self.demand.accelerators))


def profile_status(
    tiers: Sequence[str],
    before: CapacityProfileStatus,
    jobs: Sequence[JobView],
    *,
    totals: InterruptionCounts,
    level: InterruptionCounts,
    now: datetime,
) -> CapacityProfileStatus:
    """The status of a profile with these tiers (at most MAX_TIERS). Other tiers are forgotten.

    `before` is the present status, `jobs` are the jobs of the profile, `totals` and `level` are as in
    interruptions. A job's pace says nothing about another job, and is left out.
    """
    known = []
    for tier in tiers:
        one, several = find(before.tiers, tier), [found for job in jobs if (found := find(job.known, tier))]
        if one or several or tier in totals:
            remembered = one or TierKnowledge(tier=tier)
            shared, at_home = _sightings(tier, jobs, now)
            shapes, refusals = _shapes(remembered, shared, now), _refusals(remembered, at_home, now)
            merged = _together(remembered, several, totals.get(tier, NOTHING))
            seen = spell_fields(_of_all(shapes, refusals))
            known.append(merged.model_copy(update={**seen, "shapes": shapes, "refusals": refusals}))
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
    """One job's spell of a tier, what its pods asked for then, and ask for now, and how many nodes it has there."""

    job: JobView
    spell: Spell
    accelerators: int
    demand: Demand
    nodes: int


def _sighting(job: JobView, known: TierKnowledge | None) -> _Sighting | None:
    if known is None or (spell := stored_spell(known)) is None:
        return None
    demand = job.demand_on(known.tier)
    accelerators = demand.accelerators if known.accelerators is None else known.accelerators
    return _Sighting(job, spell, accelerators, demand, job.on.get(known.tier, 1))


def _sightings(tier: str, jobs: Sequence[JobView], now: datetime) -> tuple[list[_Sighting], list[_Sighting]]:
    """What the jobs saw of a tier: what counts for all jobs, and the refusals that count only in their namespace."""
    seen = [one for job in jobs if (one := _sighting(job, find(job.known, tier)))]
    shared = [one for one in seen if one.spell.state in (Seen.UP, Seen.TOOK_BACK)]
    # The rest of what a job demanded before an edit is not known.
    unedited = [one for one in seen if one.accelerators == one.demand.accelerators]
    refused = [one for one in unedited if one.spell.state is Seen.REFUSED and now - one.spell.seen_at <= FRESH]
    least: dict[str, int] = {}  # the smallest number of accelerators that each namespace was refused
    for one in refused:
        asked, namespace = one.demand.accelerators, one.job.namespace
        least[namespace] = min(asked, least.get(namespace, asked))
    if len(least) > 1:
        of_two = sorted(least.values())[1]
        shared += [one for one in refused if one.demand.accelerators >= of_two]
        refused = [one for one in refused if one.demand.accelerators < of_two]  # these are of one namespace
    home = [job for job in jobs if refused and job.namespace == refused[0].job.namespace]
    demands = {one.demand for one in refused}
    counting = {demand for demand in demands if _counts_at_home(tier, demand, refused, home)}
    return shared, [one for one in refused if one.demand in counting]


def _counts_at_home(tier: str, demand: Demand, refused: Sequence[_Sighting], jobs: Sequence[JobView]) -> bool:
    """True if the refusal of a pod with this demand counts in its namespace; these are the namespace's jobs."""
    fits = any(tier in job.obtained and job.demand_on(tier).covers(demand) for job in jobs)
    holders = sum(tier in job.on and job.demand_on(tier).accelerators >= demand.accelerators for job in jobs)
    return fits and sum(one.demand.accelerators <= demand.accelerators for one in refused) > holders


def _refusals(before: TierKnowledge, seen: Sequence[_Sighting], now: datetime) -> tuple[NamespaceRefusal, ...]:
    """The refusals that count only in their namespace: at most MAX_REFUSALS, the newest."""
    merged = {(one.namespace, one.accelerators): refusal_spell(one) for one in before.refusals}
    spells: dict[tuple[str, int], list[Spell]] = {}
    for one in seen:
        key = digest(one.job.namespace), one.demand.accelerators
        spells.setdefault(key, []).append(one.spell)
    for key, found in spells.items():
        merged[key] = merge_spells(merged.get(key), found, now) or found[0]
    fresh = [key for key, spell in merged.items() if now - spell.seen_at <= FRESH]
    newest = sorted(fresh, key=lambda key: (merged[key].seen_at, *key))[-MAX_REFUSALS:]
    return tuple(
        NamespaceRefusal(namespace=key[0], accelerators=key[1], since=merged[key].since, seen_at=merged[key].seen_at)
        for key in sorted(newest)
    )


def _shapes(before: TierKnowledge, seen: Sequence[_Sighting], now: datetime) -> tuple[ShapeKnowledge, ...]:
    """The state of a tier by the number of accelerators that pods ask for; at most MAX_SHAPES, the newest.

    New refusals come first: one tenant can have nodes with many different numbers, but cannot refuse alone.
    """
    stored = {shape.accelerators: shape_spell(shape) for shape in before.shapes}
    nodes = {shape.accelerators: shape.nodes for shape in before.shapes if shape.state is Seen.UP}
    for one in seen:
        if one.spell.up:
            nodes[one.accelerators] = max(nodes.get(one.accelerators, 1), one.nodes)
    merged: dict[int, Spell] = {}
    for number in sorted({*stored, *(one.accelerators for one in seen)}):
        spells = [one.spell for one in seen if one.accelerators == number]
        if spell := merge_spells(stored.get(number), spells, now):
            merged[number] = spell

    def weight(number: int) -> tuple[bool, datetime, int]:
        spell = merged[number]
        return spell.state is Seen.REFUSED and now - spell.seen_at <= FRESH, spell.seen_at, number

    newest = sorted(merged, key=weight)[-MAX_SHAPES:]
    return tuple(
        ShapeKnowledge(
            accelerators=number,
            nodes=nodes.get(number, 1) if spell.up else 1,
            state=spell.state,
            since=spell.since,
            seen_at=spell.seen_at,
        )
        for number, spell in merged.items()
        if number in newest
    )


def _of_all(shapes: Sequence[ShapeKnowledge], refusals: Sequence[NamespaceRefusal]) -> Spell | None:
    """What people see of a tier: up if it gives nodes to pods of any shape, otherwise what was seen last."""
    spells = [*(shape_spell(shape) for shape in shapes), *(refusal_spell(one) for one in refusals)]
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


def _together(before: TierKnowledge, jobs: Sequence[TierKnowledge], count: InterruptionCount) -> TierKnowledge:
    """What was measured and counted of a tier."""
    observed = {one.observation for one in (before, *jobs)}
    return TierKnowledge(
        tier=before.tier,
        observation="Billed" if "Billed" in observed else "Free" if "Free" in observed else None,
        acquire=merge_measured(before.acquire, pool_measured([one.acquire for one in jobs if one.acquire])),
        start=merge_measured(before.start, pool_measured([one.start for one in jobs if one.start])),
        interruptions=count.interruptions,
        node_time=count.node_time // SECOND * SECOND,
    )


def _spread(times: Sequence[timedelta], places: int) -> Iterable[timedelta]:
    """At most `places` of these sorted times, evenly spaced; the middle one if there is one place."""
    last = len(times) - 1
    if last < places:
        return times
    return [times[last * place // (places - 1)] for place in range(places)] if places > 1 else [times[last // 2]]


def _timeless(status: CapacityProfileStatus) -> object:
    """The parts of a status that do not change merely because time passes."""
    timed = {"seen_at": None, "node_time": timedelta(0), "shapes": (), "refusals": ()}
    known = [one.model_copy(update=timed) for one in status.tiers]
    shapes = [
        [(shape.accelerators, shape.nodes, shape.state, shape.since) for shape in one.shapes] for one in status.tiers
    ]
    refusals = [[(its.namespace, its.accelerators, its.since) for its in one.refusals] for one in status.tiers]
    return known, shapes, refusals, status.faulty_nodes, [(one.tier, one.interruptions) for one in status.counted]


def _times(status: CapacityProfileStatus) -> dict[tuple[str, str, int], datetime]:
    """When each tier was last seen: at all, by each shape, and by the jobs of a namespace that were refused."""
    times: dict[tuple[str, str, int], datetime] = {}
    for one in status.tiers:
        if one.seen_at is not None:
            times[one.tier, "", -1] = one.seen_at
        times |= {(one.tier, "", shape.accelerators): shape.seen_at for shape in one.shapes}
        times |= {(one.tier, its.namespace, its.accelerators): its.seen_at for its in one.refusals}
    return times


def _up(one: TierKnowledge | None) -> object:
    """Whether the tier is up, at all and for each shape, and which namespaces it refuses; None if nothing is known."""
    if one is None or one.state is None:
        return None
    refused = [(its.namespace, its.accelerators) for its in one.refusals]
    return one.state is Seen.UP, [(shape.accelerators, shape.state is Seen.UP) for shape in one.shapes], refused
