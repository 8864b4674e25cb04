"""Spells: since when a tier has been up, or out, as far as anybody watched.

In nearly every pool the longer a tier has been up, or out, the longer it stays so: the age of a spell is what choices
are made from. A spell is only as old as the watch on it: nobody knows what a tier did while nobody looked.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.api.attempt import Attempt, AttemptState, EndKind
from holdfast.api.knowledge import Seen, TierKnowledge
from holdfast.api.profile import Tier
from holdfast.core.capacity.measured import median

FRESH = timedelta(minutes=15)  # tiers are probed every 10 minutes; what was seen longer ago says nothing about now
# The pod went, but the tier took no node back: somebody deleted it, or it never ended.
NOT_THE_TIER = frozenset(("PodDeleted", "NeverEnded"))
WORKING = (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.DRAINING)


class Spell(NamedTuple):
    """A tier was `state` from `since` on, and was last seen so at `seen_at`."""

    state: Seen
    since: datetime
    seen_at: datetime

    @property
    def up(self) -> bool:
        """Whether the tier gave nodes."""
        return self.state is Seen.UP


def stored(known: TierKnowledge | None) -> Spell | None:
    """The spell that status remembers."""
    if known is None or known.state is None or known.since is None or known.seen_at is None:
        return None
    return Spell(known.state, known.since, known.seen_at)


def watched(before: Spell | None, state: Seen, begun: datetime, seen_at: datetime) -> Spell:
    """The spell after the tier was seen in this state from `begun` to `seen_at`.

    The spell before goes on if it is of the same kind, up or out, and the watch on it had no gap. News that is older
    than what is known changes nothing.
    """
    if before is not None and seen_at < before.seen_at:
        return before
    goes_on = before is not None and before.up == (state is Seen.UP) and begun - before.seen_at <= FRESH
    return Spell(state, before.since if before and goes_on else min(begun, seen_at), seen_at)


def patience(tier: Tier, known: TierKnowledge | None, asking: timedelta) -> timedelta:
    """How long a pod has to have waited for a node of the tier to say that it is out.

    Until now at least `asking`, and as long as nodes usually took; but no longer than the user lets pods wait.
    """
    usual = max(median(known.acquire), asking) if known and known.acquire else asking
    return min(usual, tier.acquire_timeout) if tier.acquire_timeout else usual


def with_attempt(before: Spell | None, attempt: Attempt, waits: timedelta, now: datetime) -> Spell | None:
    """The spell of its tier as an attempt that is not over shows it.

    A pod that has waited for `waits` says that the tier is out; before that, it says nothing. One that waits for a
    node that is not Spot is waited for as long as its acquireTimeout says.
    """
    if attempt.state in WORKING and attempt.scheduled_at is not None:
        if (at := taken_back(attempt)) is None:
            return watched(before, Seen.UP, attempt.scheduled_at, now)
        return watched(watched(before, Seen.UP, attempt.scheduled_at, at), Seen.LOST, at, at)
    asked, until = attempt.created_at, attempt.acquire_deadline
    if attempt.state is not AttemptState.ACQUIRING or asked is None:
        return before
    if attempt.tier.kind != "Spot":
        waits = until - asked if until else timedelta.max
    return watched(before, Seen.REFUSED, asked, now) if now - asked >= waits else before


def taken_back(attempt: Attempt) -> datetime | None:
    """When it became known that the attempt's node will go, or None."""
    drain, departure = attempt.drain, attempt.departure
    if drain is not None and drain.kind is EndKind.LOSS and drain.reason not in NOT_THE_TIER:
        return drain.at
    return departure.at if departure is not None and departure.reason not in NOT_THE_TIER else None


def prevailing(spells: Sequence[Spell]) -> Spell | None:
    """What to believe if several jobs saw the same tier: who looked last.

    But a job that keeps its node does not show that there is another one, nor does a loss that there is none: somebody
    who has just been refused knows better, unless a node was had after that.
    """
    if not spells:
        return None
    newest = max(spells, key=_news)
    if not (refused := [spell for spell in spells if spell.state is Seen.REFUSED]):
        return newest
    refusal = max(refused, key=_news)
    had_since = any(spell.up and spell.since > refusal.seen_at for spell in spells)
    return newest if had_since or newest.seen_at - refusal.seen_at > FRESH else refusal


def _news(spell: Spell) -> tuple[datetime, datetime, Seen]:
    return spell.seen_at, spell.since, spell.state
