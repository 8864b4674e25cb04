"""Policy Ordered without a measured choice: the tiers in the order of the grid, and how long a pod waits for each."""

from datetime import timedelta

from holdfast.api.profile import ProfileTier
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.nodes import ClusterView

DEFAULT_ACQUIRE_TIMEOUT = timedelta(minutes=5)


def find_tier(tiers: tuple[ProfileTier, ...], name: str) -> ProfileTier | None:
    """The tier with that name, or None."""
    for tier in tiers:
        if tier.name == name:
            return tier
    return None


def next_tier(tiers: tuple[ProfileTier, ...], name: str, shut: frozenset[str] = frozenset()) -> ProfileTier:
    """The tier below `name` that is not in `shut`. After the last tier, or if `name` is not in the grid, the first."""
    names = [tier.name for tier in tiers]
    below = tiers[names.index(name) + 1 :] if name in names else ()
    return next((tier for tier in below if tier.name not in shut), tiers[0])


def acquire_timeout(tier: ProfileTier, cluster: ClusterView, config: OperatorConfig) -> timedelta:
    """How long a pod may wait for a node of this tier: acquireTimeout if it is set.

    Otherwise 5 minutes if a node matches the tier, and longer if none does, because an autoscaler must bring one.
    """
    if tier.acquire_timeout is not None:
        return tier.acquire_timeout
    return DEFAULT_ACQUIRE_TIMEOUT if cluster.matching(tier.node_selector) else config.unmatched_acquire_timeout
