"""Which tier next. Policy `Ordered`: a fresh walk of the grid, top to bottom, at every new attempt."""

from datetime import timedelta

from holdfast.api.profile import ProfileTier
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.nodes import ClusterView

DEFAULT_ACQUIRE_TIMEOUT = timedelta(minutes=5)


def find_tier(tiers: tuple[ProfileTier, ...], name: str) -> ProfileTier | None:
    """The tier of that name, or None."""
    for tier in tiers:
        if tier.name == name:
            return tier
    return None


def next_tier(tiers: tuple[ProfileTier, ...], name: str) -> ProfileTier:
    """The tier below `name`; from the bottom, or from a tier that is gone, the walk starts again at the top."""
    names = [tier.name for tier in tiers]
    return tiers[(names.index(name) + 1) % len(tiers)] if name in names else tiers[0]


def acquire_timeout(tier: ProfileTier, cluster: ClusterView, config: OperatorConfig) -> timedelta:
    """How long a pod may wait for a node of this tier.

    Where no node matches, an autoscaler has to bring one: that takes longer, unless the tier says how long it may take.
    """
    if tier.acquire_timeout is not None:
        return tier.acquire_timeout
    return DEFAULT_ACQUIRE_TIMEOUT if cluster.matching(tier.node_selector) else config.unmatched_acquire_timeout
