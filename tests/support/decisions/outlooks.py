"""The input of the capacity policies for a job."""

from tests.support.decisions.snapshots import TIERS, job, profile, snapshot
from tests.support.decisions.tier_views import NOWHERE

from holdfast.api.profile import CapacityProfileStatus
from holdfast.core.capacity.outlook import look_ahead

PRICED = ("spot", "dedicated", "cpu")


def ahead(given_status, cluster=NOWHERE, shared=None, *, checkpoint=None, goal=100_000, tiers=TIERS, **capacity):
    """The outlook of a job, by default on a cluster without nodes."""
    spec = {"capacity": {"tiers": list(tiers), **capacity}, "goal": {"steps": goal} if goal else {}}
    if checkpoint:
        storage = {"s3": {"bucket": "runs", "prefix": "vision/vit"}}
        spec["checkpoint"] = {"storage": storage, "gracePeriod": "100s", **checkpoint}
    grid_profile = None
    if shared is not None:
        spec["capacity"] = {"profile": "grid", **capacity}
        found = profile(*tiers)
        grid_profile = found.model_copy(update={"status": CapacityProfileStatus(tiers=tuple(shared))})
    made = snapshot(job(given_status, **spec), cluster=cluster, profile=grid_profile)
    return look_ahead(made, given_status, made.grid)


def view(*args, **changes):
    """The view of that outlook; arguments as for `ahead`."""
    return ahead(*args, **changes).view


def tier_view(name, *args, **changes):
    """One tier of that view; arguments as for `ahead`."""
    return next(one for one in view(*args, **changes).tiers if one.name == name)
