"""Which tier a job without a node asks next, so that it asks every tier, however many there are.

A refusal is forgotten after 15 minutes, because it says nothing about now. A grid may have more tiers than a job can
ask in that time. A rule that always took the best tier that may be up would then ask the same few tiers for ever.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile

from holdfast.api.attempt import AttemptRecord, EndReason
from holdfast.core.capacity.policy_input import TierView

# The user, or a budget, stopped the attempt: this says nothing of its tier, and the search starts again.
PAUSES = frozenset((EndReason.SUSPENDED, EndReason.BUDGET_EXCEEDED, EndReason.SPEC_CHANGED))


def refusals(history: Sequence[AttemptRecord]) -> Mapping[str, datetime]:
    """By tier, when the job last gave up waiting for it; only refusals since the job last had a node.

    `history` is the one in status, which keeps at least as many of these records as the grid has tiers. After a
    suspension the search starts again.
    """
    found: dict[str, datetime] = {}
    for record in takewhile(_without_node, reversed(history)):
        if record.reason == "AcquireTimeout":
            found.setdefault(record.tier, record.ended_at)
    return found


def search_begun(history: Sequence[AttemptRecord]) -> datetime | None:
    """Since when a job without a node has had none, as far as the history tells; None if it never had an attempt.

    After a suspension the search starts again.
    """
    begun: datetime | None = None
    for record in reversed(history):
        if not _without_node(record):
            return record.ended_at
        begun = record.raised_at
    return begun


def _without_node(record: AttemptRecord) -> bool:
    return record.scheduled_at is None and record.reason not in PAUSES


def whose_turn(tiers: Sequence[TierView]) -> Sequence[TierView]:
    """The tiers that have not refused this search yet; if all have, only the one that refused it longest ago."""
    unasked = [tier for tier in tiers if tier.refused_ago is None]
    return unasked or sorted(tiers, key=lambda tier: -(tier.refused_ago or 0.0))[:1]
