"""Spells: for how long a tier has been up or out.

A spell is a time in which a tier was either up (it gave nodes) or out (it gave none, or took one back). In nearly every
pool, the longer a spell has lasted, the longer it goes on. So policies decide by the age of a spell. A spell starts
where observation without a gap starts: what the tier did before is unknown.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.api.attempt import Attempt, AttemptState, EndKind
from holdfast.api.knowledge import NamespaceRefusal, Seen, ShapeKnowledge, TierKnowledge
from holdfast.api.profile import Tier
from holdfast.core.capacity.measured import median
from holdfast.core.observe.digest import digest
from holdfast.core.observe.notices import NODE_SIGNS

FRESH = timedelta(minutes=15)  # Tiers are probed every 10 minutes. An older observation says nothing about now.
WORKING = (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.DRAINING)


class Spell(NamedTuple):
    """A tier was in `state` since `since`, and was last seen so at `seen_at`."""

    state: Seen
    since: datetime
    seen_at: datetime

    @property
    def up(self) -> bool:
        """True if the tier gave nodes."""
        return self.state is Seen.UP


def stored_spell(known: TierKnowledge | None) -> Spell | None:
    """The spell in status, None if there is none."""
    if known is None or known.state is None or known.since is None or known.seen_at is None:
        return None
    return Spell(known.state, known.since, known.seen_at)


def own_spell(known: TierKnowledge | None, accelerators: int | None) -> Spell | None:
    """What a job's status says about a tier if each pod asks for so many accelerators (None: not known); None if
    nothing.

    The job may have asked for another number before it was edited. A wait that was unfit then tells nothing now.
    """
    spell = stored_spell(known)
    if known is None or spell is None or accelerators is None or known.accelerators in (None, accelerators):
        return spell
    return spell if spell.state is not Seen.UNFIT and _tells(spell, known.accelerators, accelerators) else None


def shape_spell(known: ShapeKnowledge) -> Spell:
    """The spell of one shape in a profile's status."""
    return Spell(known.state, known.since, known.seen_at)


def refusal_spell(known: NamespaceRefusal) -> Spell:
    """The spell of jobs of one namespace that get no node."""
    return Spell(Seen.REFUSED, known.since, known.seen_at)


def shared_spell(known: TierKnowledge | None, accelerators: int, namespace: str, nodes: int = 1) -> Spell | None:
    """What a profile tells a job of a tier, if each of its pods asks for so many accelerators; None if nothing.

    Nodes given to pods that ask for as many or more show that the tier is up. Pods that ask for as many or fewer, and
    get no node, show that it is out; those that no other namespace confirms, only to jobs of their own namespace. A
    node that was taken back says the same to all. A training on several `nodes` learns that the tier is up only from
    one that had as many at once.
    """
    if known is None or not (known.shapes or known.refusals):
        return stored_spell(known)
    large = [one for one in known.shapes if one.state is not Seen.UP or one.nodes >= nodes]
    told = [shape_spell(one) for one in large if _tells(shape_spell(one), one.accelerators, accelerators)]
    mine = [one for one in known.refusals if one.namespace == digest(namespace)]
    return prevailing_spell([*told, *(refusal_spell(one) for one in mine if one.accelerators <= accelerators)])


def _tells(spell: Spell, asked: int, accelerators: int) -> bool:
    """True if what pods that ask for `asked` accelerators saw says something of pods that ask for `accelerators`."""
    if spell.up:
        return asked >= accelerators
    return spell.state is not Seen.REFUSED or asked <= accelerators


def extend_spell(before: Spell | None, state: Seen, begun: datetime, seen_at: datetime) -> Spell:
    """The spell after the tier was seen in `state` from `begun` to `seen_at`.

    It continues `before` if both are up or both are out, and observation had no gap. An observation that is older than
    `before` changes nothing.
    """
    if before is not None and seen_at < before.seen_at:
        return before
    goes_on = before is not None and before.up == (state is Seen.UP) and begun - before.seen_at <= FRESH
    return Spell(state, before.since if before and goes_on else min(begun, seen_at), seen_at)


def patience(tier: Tier, known: TierKnowledge | None, acquire_time: timedelta) -> timedelta:
    """How long a pod must wait for a node of the tier before its wait shows that the tier is out.

    At least `acquire_time`, and at least the usual time to acquire a node; but at most the tier's acquireTimeout.
    """
    usual = max(median(known.acquire), acquire_time) if known and known.acquire else acquire_time
    return min(usual, tier.acquire_timeout) if tier.acquire_timeout else usual


def with_attempt(
    before: Spell | None, attempt: Attempt, waits: timedelta, now: datetime, refusal: Seen = Seen.REFUSED
) -> Spell | None:
    """The tier's spell, updated by an attempt that is not over.

    A pod that has waited for `waits` shows that the tier is out; a shorter wait shows nothing. On a tier that is not
    Spot, the pod must have waited for the whole acquire timeout. `refusal` is the state that such a wait shows.
    """
    if attempt.state in WORKING and attempt.scheduled_at is not None:
        if (at := interruption_known_at(attempt)) is None:
            return extend_spell(before, Seen.UP, attempt.scheduled_at, now)
        return extend_spell(extend_spell(before, Seen.UP, attempt.scheduled_at, at), Seen.TOOK_BACK, at, at)
    asked, until = attempt.created_at, attempt.acquire_deadline
    if attempt.state is not AttemptState.ACQUIRING or asked is None:
        return before
    if attempt.tier.kind != "Spot":
        waits = until - asked if until else timedelta.max
    return extend_spell(before, refusal, asked, now) if now - asked >= waits else before


def interruption_known_at(attempt: Attempt) -> datetime | None:
    """When the interruption of the attempt's node was announced; None if it was not."""
    drain, departure = attempt.drain, attempt.departure
    if drain is not None and drain.kind is EndKind.INTERRUPTION and drain.reason in NODE_SIGNS:
        return drain.at
    return departure.at if departure is not None and departure.reason in NODE_SIGNS else None


def prevailing_spell(spells: Sequence[Spell]) -> Spell | None:
    """Merge several jobs' observations of one tier into one spell; None if there are none.

    The newest wins. But a refusal in the last 15 minutes outweighs a kept node or an interruption, unless a node was
    granted after it: a job that keeps its node does not show that there is another one, and an interruption does not
    show that there is none. An Unfit pod of the job itself in the last 15 minutes outweighs all that other jobs saw.
    """
    if not spells:
        return None
    newest = max(spells, key=_news)
    if unfit := [spell for spell in spells if spell.state is Seen.UNFIT and newest.seen_at - spell.seen_at <= FRESH]:
        return max(unfit, key=_news)
    if not (refused := [spell for spell in spells if spell.state is Seen.REFUSED]):
        return newest
    refusal = max(refused, key=_news)
    granted_since = any(spell.up and spell.since > refusal.seen_at for spell in spells)
    return newest if granted_since or newest.seen_at - refusal.seen_at > FRESH else refusal


def _news(spell: Spell) -> tuple[datetime, datetime, Seen]:
    return spell.seen_at, spell.since, spell.state
