"""What a job knows of its tiers. Each function folds one event into `status.tiers`.

The patch that records an event (an attempt's node, its first step, its end) also folds it in. So a crash cannot count
an event twice, and a second decision from the same status finds the same knowledge.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from holdfast.api.attempt import Attempt, AttemptRecord, AttemptState, EndKind
from holdfast.api.knowledge import MAX_MEASURED, MAX_TIERS, Measured, Observation, Seen, TierKnowledge
from holdfast.api.objects import CapacityProfile
from holdfast.api.profile import Tier
from holdfast.api.scalars import LONGEST
from holdfast.api.status import TrainingJobStatus
from holdfast.core.capacity.spells import (
    Spell,
    extend_spell,
    own_spell,
    patience,
    stored_spell,
    with_attempt,
)

Known = tuple[TierKnowledge, ...]

ENOUGH_STEPS = 5  # a pace needs at least so many steps
SETTLED_STEPS = 100  # with fewer steps, the earlier pace counts too
TICK = timedelta(milliseconds=100)  # times are rounded up to this, which keeps status small
ZERO = timedelta(0)


def find(known: Known, tier: str) -> TierKnowledge | None:
    """What is known of this tier, or None."""
    return next((one for one in known if one.tier == tier), None)


def record_node(
    known: Known, attempt: Attempt, node_created_at: datetime | None = None, up_since: datetime | None = None
) -> Known:
    """The attempt has just got its node. One that the cluster did not give says nothing about the tier.

    `node_created_at` is when the Node object was created, `up_since` since when the tier could give one. On a Spot tier
    the time to acquire counts only if the node came in time: later, the tier was out in between.
    """
    one, at, asked = _open(known, attempt.tier.name), attempt.scheduled_at, attempt.created_at or attempt.raised_at
    if at is None or not attempt.granted:
        return known
    took, deadline = max(at - asked, ZERO), attempt.acquire_deadline
    in_time = attempt.tier.kind != "Spot" or deadline is None or at <= deadline
    return _put(
        known,
        one.model_copy(
            update={
                "acquire": _measure(one.acquire, took) if in_time else one.acquire,
                "observation": _observe(one.observation, asked, node_created_at),
                **_seen(
                    one,
                    extend_spell(own_spell(one, attempt.accelerators), Seen.UP, min(up_since or at, at), at),
                    attempt.accelerators,
                ),
            }
        ),
    )


def observation_of(tier: Tier, own: TierKnowledge | None, shared: TierKnowledge | None) -> Observation | None:
    """Free if the tier's nodes are all that there is, Billed if an autoscaler brings them for pods, None if unknown.

    What the tier says comes first, then what this job has found out, or others.
    """
    if tier.observation is not None:
        return tier.observation
    seen = (own and own.observation, shared and shared.observation)
    return "Billed" if "Billed" in seen else "Free" if "Free" in seen else None


def find_observation(tier: Tier, own: Known, profile: CapacityProfile | None) -> Observation | None:
    """The same, from all that this job knows, and its profile."""
    shared = find(profile.status.tiers, tier.name) if profile else None
    return observation_of(tier, find(own, tier.name), shared)


def record_first_step(known: Known, attempt: Attempt) -> Known:
    """The attempt has just taken its first step.

    A successor does not count: it waited for its predecessor to leave, so its time says nothing about a start.
    """
    if attempt.scheduled_at is None or attempt.progress_at is None or attempt.predecessor is not None:
        return known
    one = _open(known, attempt.tier.name)
    took = max(attempt.progress_at - attempt.scheduled_at, ZERO)
    return _put(known, one.model_copy(update={"start": _measure(one.start, took)}))


def record_refusal(
    known: Known,
    tier: str,
    asked: datetime,
    now: datetime,
    refusal: Seen = Seen.REFUSED,
    *,
    accelerators: int | None = None,
) -> Known:
    """A pod has waited for a node of the tier since `asked`, and gives up; `refusal` is what that shows."""
    one = _open(known, tier)
    spell = extend_spell(own_spell(one, accelerators), refusal, asked, now)
    return _put(known, one.model_copy(update=_seen(one, spell, accelerators)))


def record_end(
    known: Known,
    record: AttemptRecord,
    *,
    granted: bool = True,
    taken: bool = False,
    refusal: Seen = Seen.REFUSED,
    accelerators: int | None = None,
) -> Known:
    """An attempt is over. `taken`: the tier took its node back. `refusal` is what it shows if the tier gave no node.

    Each of its pods asked for so many `accelerators`. If the cluster did not give the node (`granted`), only the pace
    of its steps counts.
    """
    if record.scheduled_at is None:
        if record.reason == "AcquireTimeout":
            return record_refusal(
                known, record.tier, record.raised_at, record.ended_at, refusal, accelerators=accelerators
            )
        return known
    one = _open(known, record.tier)
    pace = pace_of(record.first_step, record.first_step_at, record.last_step, record.last_step_at, one.pace)
    if not granted:
        return _put(known, one.model_copy(update={"pace": pace})) if pace else known
    lost = record.kind is EndKind.INTERRUPTION and taken
    spell = extend_spell(own_spell(one, accelerators), Seen.UP, record.scheduled_at, record.ended_at)
    if lost:
        spell = extend_spell(spell, Seen.TOOK_BACK, record.ended_at, record.ended_at)
    return _put(
        known,
        one.model_copy(
            update={
                "interruptions": one.interruptions + int(lost),
                "node_time": min(one.node_time + _node_time(record), LONGEST),
                "pace": pace,
                **_seen(one, spell, accelerators),
            }
        ),
    )


def _node_time(record: AttemptRecord) -> timedelta:
    """The time that an attempt had nodes, summed over them, at most LONGEST."""
    if record.node_hours is not None:
        return min(timedelta(hours=min(float(record.node_hours), 24.0 * LONGEST.days)), LONGEST)
    return max(record.ended_at - record.scheduled_at, ZERO) if record.scheduled_at else ZERO


def record_progress(known: Known, tier: str) -> Known:
    """An attempt on the tier has made progress."""
    one = find(known, tier)
    return _put(known, one.model_copy(update={"fruitless": None, "rests_until": None})) if one else known


def record_fruitless(known: Known, tier: str, count: int, rests_until: datetime | None) -> Known:
    """`count` attempts in a row lost a node of the tier before they made progress."""
    return _put(known, _open(known, tier).model_copy(update={"fruitless": count, "rests_until": rests_until}))


def resting(known: Known, now: datetime) -> dict[str, datetime]:
    """The tiers on which no attempt should begin now, and until when."""
    return {one.tier: one.rests_until for one in known if one.rests_until is not None and now < one.rests_until}


def pace_of(
    first: int | None,
    first_at: datetime | None,
    last: int | None,
    last_at: datetime | None,
    before: timedelta | None = None,
) -> timedelta | None:
    """The mean time of a step, saves included; `before` is the pace that was known of the tier.

    Fewer than 100 steps may not contain a save, so they are averaged with `before`. With fewer than 5 steps, or times
    that are not in order, the pace stays `before`.
    """
    if first is None or first_at is None or last is None or last_at is None or last - first < ENOUGH_STEPS:
        return before
    steps, took = last - first, last_at - first_at
    if took <= ZERO:
        return before
    if before is None or steps >= SETTLED_STEPS:
        return took / steps
    return (took + before * (SETTLED_STEPS - steps)) / SETTLED_STEPS


def pace_now(attempt: Attempt, before: timedelta | None = None) -> timedelta | None:
    """The pace of an attempt that is not over; `before` is the pace that was known of its tier."""
    return pace_of(attempt.first_step, attempt.progress_at, attempt.last_step, attempt.last_step_at, before)


def with_attempts(
    status: TrainingJobStatus, now: datetime, acquire_time: timedelta, refusal: Callable[[Attempt], Seen]
) -> Known:
    """The job's knowledge, updated by what its attempts that are not over show now: what other jobs may learn from it.

    A pod that has waited for its `patience` shows that its tier is out; `refusal` says why the attempt's pod waits.
    """
    known = status.tiers
    for attempt in (status.current, status.successor):
        if attempt is not None:
            known = record_sight(known, attempt, acquire_time, now, refusal)
    return known


def record_sight(
    known: Known, attempt: Attempt, acquire_time: timedelta, now: datetime, refusal: Callable[[Attempt], Seen]
) -> Known:
    """Fold in what an attempt shows of its tier at this moment: the tier is up, or a pod waits and gets no node.

    A node that the cluster did not give shows nothing.
    """
    if attempt.scheduled_at is not None and not attempt.granted:
        return known
    one = _open(known, attempt.tier.name)
    reason = refusal(attempt) if attempt.state is AttemptState.ACQUIRING else Seen.REFUSED
    before, asked = own_spell(one, attempt.accelerators), attempt.accelerators
    spell = with_attempt(before, attempt, patience(attempt.tier, one, acquire_time), now, reason)
    if spell is None or spell is before:
        return known
    return _put(known, one.model_copy(update=_seen(one, spell, asked)))


def _measure(before: Measured | None, took: timedelta) -> Measured:
    took = min(-(-took // TICK) * TICK, LONGEST)
    if before is None:
        return Measured(recent=(took,), worst=took)
    return Measured(recent=(*before.recent, took)[-MAX_MEASURED:], worst=max(before.worst, took))


def _observe(before: Observation | None, asked: datetime, node_created_at: datetime | None) -> Observation | None:
    """Billed once a node was created after a pod had asked for it: then there is an autoscaler."""
    if node_created_at is None or before == "Billed":
        return before
    return "Billed" if node_created_at > asked else "Free"


def spell_fields(spell: Spell | None) -> dict[str, Seen | datetime]:
    """The spell as fields of status."""
    return {"state": spell.state, "since": spell.since, "seen_at": spell.seen_at} if spell else {}


def _seen(before: TierKnowledge, spell: Spell, accelerators: int | None) -> dict[str, Seen | datetime | int | None]:
    """The spell as fields of a job's status, with the number of accelerators that the pods asked for that saw it."""
    known = accelerators is None or spell == stored_spell(before)
    return {**spell_fields(spell), "accelerators": before.accelerators if known else accelerators}


def _open(known: Known, tier: str) -> TierKnowledge:
    return find(known, tier) or TierKnowledge(tier=tier)


def _put(known: Known, one: TierKnowledge) -> Known:
    """Replace the entry of this tier, or add it. If there are too many entries, one is dropped."""
    places = [index for index, other in enumerate(known) if other.tier == one.tier]
    if places:
        return (*known[: places[0]], one, *known[places[0] + 1 :])
    return _bounded((*known, one))


def _bounded(known: Known) -> Known:
    """At most MAX_TIERS entries: those that were seen longest ago are dropped."""
    if len(known) <= MAX_TIERS:
        return known
    newest = sorted(known, key=lambda one: (one.seen_at is not None, one.seen_at and one.seen_at.timestamp(), one.tier))
    kept = {one.tier for one in newest[-MAX_TIERS:]}
    return tuple(one for one in known if one.tier in kept)
