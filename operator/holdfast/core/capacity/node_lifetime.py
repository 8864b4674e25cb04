"""How long a job may expect to keep a node of a tier: the mean time between two interruptions."""

from datetime import datetime, timedelta
from typing import Final

from holdfast.api.knowledge import TierKnowledge
from holdfast.api.profile import TierKind
from holdfast.core.observe.config import Assumptions

REMEMBERED: Final = timedelta(
    hours=24
)  # counts of a tier that was not seen for longer do not apply: it may have improved
ZERO: Final = timedelta(0)


def interruptions_and_node_time(
    own: TierKnowledge | None, shared: TierKnowledge | None, now: datetime
) -> tuple[int, timedelta]:
    """Interruptions on a tier and total node time, from this job or from the profile: the one with more node time.

    Both are 0 if the tier was not seen for 24 hours.
    """
    known = shared if own is None or (shared and shared.node_time > own.node_time) else own
    if known is None or (known.seen_at is not None and now - known.seen_at > REMEMBERED):
        return 0, ZERO
    return known.interruptions, known.node_time


def mean_lifetime(kind: TierKind, interruptions: int, node_time: timedelta, assumed: Assumptions) -> float:
    """The expected lifetime of a node in seconds.

    The assumed lifetime of the kind counts like one more node that was lost, so that few interruptions change little.
    """
    prior = assumed.spot_lifetime if kind == "Spot" else assumed.other_lifetime
    return (node_time + prior).total_seconds() / (interruptions + 1)
