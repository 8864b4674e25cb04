"""The one question that decisions ask: which tier should this job be on, and which one is worth watching?"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.api.job import Policy
from holdfast.api.profile import ProfileTier
from holdfast.api.status import TrainingJobStatus
from holdfast.core.capacity.cheapest import cheaper, cheapest
from holdfast.core.capacity.deadline import deadline
from holdfast.core.capacity.ordered import better_in_order, ordered
from holdfast.core.capacity.outlook import Missing, Outlook, look_ahead
from holdfast.core.capacity.policy_input import Choice, Rule, TierView, View
from holdfast.core.observe.snapshot import Snapshot

RULES: Final[Mapping[Policy, Rule]] = {"Ordered": ordered, "Cheapest": cheapest, "Deadline": deadline}
NO_PRICES: Final = Missing("PriceMissing", "no tier of the grid has a price: set pricePerNodeHour")


class Answer(NamedTuple):
    """What a policy says, and all that it was made from.

    `policy` is the one that was asked: Ordered in the place of one that lacks something, which `missing` then names.
    `better` are the tiers that the policy would rather be on, best first, and `probe` is the one of them that a pending
    pod should watch, None if nothing is worth it.
    """

    choice: Choice
    outlook: Outlook
    policy: Policy
    missing: Missing | None = None
    better: tuple[str, ...] = ()
    probe: str | None = None


def choose(snapshot: Snapshot, status: TrainingJobStatus, tiers: tuple[ProfileTier, ...]) -> Answer:
    """Ask the job's policy; `tiers` is its grid, one or more, and `status` the decision's draft."""
    outlook, wanted = look_ahead(snapshot, status, tiers), snapshot.job.spec.capacity.policy
    missing = _missing(wanted, outlook)
    policy: Policy = "Ordered" if missing else wanted
    choice = RULES[policy](outlook.view)
    better = better_tiers(outlook.view, choice, policy)
    names = tuple([tier.name for tier in better])
    return Answer(choice, outlook, policy, missing, names, probe(outlook.view, choice, better))


def probe(view: View, choice: Choice, better: Sequence[TierView]) -> str | None:
    """The tier whose nodes a pending pod should wait for while the job is, or waits, elsewhere; None if there is none.

    Of the tiers that would be better, the best of which nobody knows how it is, else the best. One that is up needs no
    probe, nor do the others as long as it proves itself.
    """
    if not choice.watch or choice.tier != (view.here.name if view.here else None):
        return None
    if any(tier.available for tier in better):
        return None
    unseen = [tier for tier in better if tier.available is None]
    return next((tier.name for tier in (*unseen, *better)), None)


def better_tiers(view: View, choice: Choice, policy: Policy) -> Sequence[TierView]:
    """The tiers that the policy would rather be on, best first.

    Under Deadline these are the Spot tiers; but a job whose deadline is not promised, because no dedicated tier can be
    had, asks for that as well, and on a Spot tier for nothing else.
    """
    if policy == "Ordered":
        return better_in_order(view)
    if policy == "Cheapest":
        return cheaper(view)
    here = view.here
    wanted = [tier for tier in view.tiers if tier.kind == "Dedicated"] if here and not choice.promised else []
    if here is None or here.kind != "Spot" or choice.promised:
        wanted += [tier for tier in view.tiers if tier.kind == "Spot"]
    return sorted((tier for tier in wanted if tier is not here), key=lambda tier: tier.unit_price or 0.0)


def _missing(wanted: Policy, outlook: Outlook) -> Missing | None:
    """What the policy that is wanted lacks."""
    if wanted == "Deadline":
        return outlook.missing
    if wanted == "Cheapest" and all(tier.price is None for tier in outlook.view.tiers):
        return NO_PRICES
    return None
