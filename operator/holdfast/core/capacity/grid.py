"""The tiers of a job: in the order of the grid, and as an attempt was made with them.

A tier may be changed or removed while an attempt runs on it, or the whole profile may be deleted. The attempt keeps the
tier as it was made: its pods go on, and one that is lost is replaced by an equal one. Only a new start needs the grid.
"""

from datetime import timedelta

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.profile import ProfileTier
from holdfast.core.made_from import tier_changes
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.members import inherited
from holdfast.core.observe.nodes import ClusterView

DEFAULT_ACQUIRE_TIMEOUT = timedelta(minutes=5)


def find_tier(tiers: tuple[ProfileTier, ...], name: str) -> ProfileTier | None:
    """The tier with that name, or None."""
    for tier in tiers:
        if tier.name == name:
            return tier
    return None


def offers(tiers: tuple[ProfileTier, ...], tier: ProfileTier) -> bool:
    """True if the grid has the tier of this name, and a pod on it is made as on `tier`."""
    found = find_tier(tiers, tier.name)
    return found is not None and not tier_changes(tier, found)


def may_get_pods(tiers: tuple[ProfileTier, ...], attempt: Attempt) -> bool:
    """True if pods may be created for the attempt: the grid offers its tier, or pods that it took over go on there."""
    return bool(inherited(attempt)) or offers(tiers, attempt.tier)


def with_tier_in_use(tiers: tuple[ProfileTier, ...], current: Attempt | None) -> tuple[ProfileTier, ...]:
    """The grid, before it the tier of the current attempt if that has nodes, and the grid has no tier of its name."""
    if current is None or find_tier(tiers, current.tier.name) is not None:
        return tiers
    has_nodes = current.state in (AttemptState.STARTING, AttemptState.RUNNING) or inherited(current)
    return (current.tier, *tiers) if has_nodes else tiers


def next_tier(tiers: tuple[ProfileTier, ...], name: str, shut: frozenset[str] = frozenset()) -> ProfileTier:
    """The tier below `name` that is not in `shut`; after the last one, the first."""
    below = tiers[[tier.name for tier in tiers].index(name) + 1 :]
    return next((tier for tier in below if tier.name not in shut), tiers[0])


def acquire_timeout(tier: ProfileTier, cluster: ClusterView, config: OperatorConfig) -> timedelta:
    """How long a pod may wait for a node of this tier: acquireTimeout if it is set.

    Otherwise 5 minutes if a node matches the tier, and longer if none does, because an autoscaler must bring one.
    """
    if tier.acquire_timeout is not None:
        return tier.acquire_timeout
    return DEFAULT_ACQUIRE_TIMEOUT if cluster.matching(tier.node_selector) else config.unmatched_acquire_timeout
