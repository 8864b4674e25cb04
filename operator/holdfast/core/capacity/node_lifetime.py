"""How long a node of a tier can be expected to be kept: the mean time between two losses. Pure."""

from datetime import datetime, timedelta
from typing import Final

from holdfast.api.knowledge import TierKnowledge
from holdfast.api.profile import TierKind
from holdfast.core.observe.config import Assumptions

REMEMBERED: Final = timedelta(hours=24)  # what nobody has looked at for longer may have become better
ZERO: Final = timedelta(0)


def kept(own: TierKnowledge | None, shared: TierKnowledge | None, now: datetime) -> tuple[int, timedelta]:
    """Losses of a tier, and how long its nodes were had: as counted by who had the most of them, this job or all.

    Nothing if that was long ago.
    """
    known = shared if own is None or (shared and shared.had > own.had) else own
    if known is None or (known.seen_at is not None and now - known.seen_at > REMEMBERED):
        return 0, ZERO
    return known.losses, known.had


def mean_life(kind: TierKind, losses: int, had: timedelta, assumed: Assumptions) -> float:
    """Seconds. What is assumed of the kind counts as one more node that was lost, so that few losses say little."""
    prior = assumed.spot_life if kind == "Spot" else assumed.other_life
    return (had + prior).total_seconds() / (losses + 1)
