"""The search of a job that has no node: whose turn it is, so that every tier is asked, however many there are. Pure.

A refusal is forgotten after a while, for it says nothing about now. Where there are more tiers than can be asked in
that while, a rule that took the best of those that may be had would ask a few in turn for ever, and never the others.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile

from holdfast.api.attempt import AttemptRecord
from holdfast.core.capacity.policy_input import TierView

PAUSES = frozenset(("Suspended", "BudgetExceeded"))


def refusals(history: Sequence[AttemptRecord]) -> Mapping[str, datetime]:
    """By tier, when it was last given up without a node, of those that were since the job last had a node.

    `history` is that of status, which keeps at least as many of these records as the grid has tiers. A job that was
    suspended begins anew.
    """
    nowhere = takewhile(lambda record: record.scheduled_at is None and record.reason not in PAUSES, reversed(history))
    found: dict[str, datetime] = {}
    for record in nowhere:
        if record.reason == "AcquireTimeout":
            found.setdefault(record.tier, record.ended_at)
    return found


def whose_turn(tiers: Sequence[TierView]) -> Sequence[TierView]:
    """Those of the tiers that this search has not asked in vain yet; if there are none, the one asked longest ago."""
    unasked = [tier for tier in tiers if tier.refused is None]
    return unasked or sorted(tiers, key=lambda tier: -(tier.refused or 0.0))[:1]
