"""Ask a job's policy: which tier should the job be on, and which tier is worth watching?"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.api.job import Policy
from holdfast.api.profile import ProfileTier
from holdfast.api.status import TrainingJobStatus
from holdfast.core.capacity.cheapest import cheaper, cheapest
from holdfast.core.capacity.deadline import better_spots, deadline
from holdfast.core.capacity.ordered import better_in_order, ordered
from holdfast.core.capacity.outlook import Missing, Outlook, look_ahead
from holdfast.core.capacity.policy_input import Choice, Rule, TierView, View
from holdfast.core.observe.snapshot import Snapshot

RULES: Final[Mapping[Policy, Rule]] = {"Ordered": ordered, "Cheapest": cheapest, "Deadline": deadline}
NO_PRICES: Final = Missing("PriceMissing", "no tier of the grid has a price: set pricePerNodeHour")


class Answer(NamedTuple):
    """What the policy answers, and its input.

    `policy` is the policy that was asked. It is Ordered if the job's own policy lacks something; `missing` then says
    what. `better` are the tiers that the policy prefers, best first. `probe` is the one of them that a pending pod
    should watch, None if that is not worth it.
    """

    choice: Choice
    outlook: Outlook
    policy: Policy
    missing: Missing | None = None
    better: tuple[str, ...] = ()
    probe: str | None = None


def choose(
    snapshot: Snapshot,
    status: TrainingJobStatus,
    tiers: tuple[ProfileTier, ...],
    shut: frozenset[str] = frozenset(),
) -> Answer:
    """Ask the job's policy. `tiers` is its grid, at least one tier; `status` is the draft of the decision.

    The tiers named in `shut` are out for the attempt that is asked for.
    """
    outlook, wanted = look_ahead(snapshot, status, tiers, shut), snapshot.job.spec.capacity.policy
    missing = _missing(wanted, outlook)
    policy: Policy = "Ordered" if missing else wanted
    choice = RULES[policy](outlook.view)
    better = better_tiers(outlook.view, choice, policy)
    names = tuple([tier.name for tier in better])
    return Answer(choice, outlook, policy, missing, names, probe(outlook.view, choice, better))


def probe(view: View, choice: Choice, better: Sequence[TierView]) -> str | None:
    """The tier for whose nodes a pending pod should wait while the job is elsewhere or waits; None if there is none.

    Among the better tiers it is the best one whose state is not known, otherwise the best one. A tier that is up needs
    no probe. While it proves itself, the other tiers need none either, but a job without a node always waits for one.
    """
    if not choice.watch or choice.tier != (view.here.name if view.here else None):
        return None
    if view.here and any(tier.available for tier in better):
        return None
    unseen = [tier for tier in better if tier.available is None]
    out = [tier for tier in better if tier.available is False]
    return next((tier.name for tier in (*unseen, *out, *better)), None)


def better_tiers(view: View, choice: Choice, policy: Policy) -> Sequence[TierView]:
    """The tiers that the policy prefers to the present one, best first.

    Under Deadline these are the Spot tiers; for a job on a Spot tier, those that are better. While the deadline is not
    promised because no dedicated tier is up, they are the dedicated tiers too; a job on a Spot tier then wants only
    those.
    """
    if policy == "Ordered":
        return better_in_order(view)
    if policy == "Cheapest":
        return cheaper(view)
    here = view.here
    wanted = [tier for tier in view.tiers if tier.kind == "Dedicated"] if here and not choice.promised else []
    if here is None or here.kind != "Spot":
        wanted += [tier for tier in view.tiers if tier.kind == "Spot"]
    elif choice.promised and choice.watch:
        wanted += better_spots(view)
    return sorted((tier for tier in wanted if tier is not here), key=lambda tier: tier.unit_price or 0.0)


def _missing(wanted: Policy, outlook: Outlook) -> Missing | None:
    """What the job's own policy lacks, None if it lacks nothing."""
    if wanted == "Deadline":
        return outlook.missing
    if wanted == "Cheapest" and all(tier.price is None for tier in outlook.view.tiers):
        return NO_PRICES
    return None
