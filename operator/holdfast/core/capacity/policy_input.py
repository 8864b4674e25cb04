"""The input and the answer of a capacity policy. All times are seconds; there is no clock."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from math import inf
from typing import Literal, NamedTuple

Kind = Literal["Spot", "Dedicated", "CPU"]
Returns = Literal["Never", "Eager", "Slack"]


@dataclass(frozen=True, slots=True)
class TierView:
    """One tier, as a policy sees it.

    `speed` is useful work per hour relative to the reference tier, above 0; a CPU tier may have 0.02. `available` is
    True if the tier is up, False if it is out, None if that is not known; `spell_age` is for how long that has been so,
    None if that is not known. `changeover` is the typical cost of a move to the tier: the time that is paid for and
    does no useful work. `worst_changeover` is the longest changeover to plan with, at least `changeover`. `lifetime` is
    for how long the job may expect to keep a node of the tier. `refused_ago` is how long ago the tier refused this
    job's present search for a node; None if it did not, or if the tier came up after that. `speed_assumed`: the speed
    was neither measured nor stated, so nothing may depend on it. `resting`: attempts on it were fruitless, so policy
    Ordered does not go there now.
    """

    name: str
    kind: Kind
    price: Decimal | None = None  # per hour, in any currency; 0 for nodes that are paid for anyway
    speed: float = 1.0
    available: bool | None = None
    spell_age: float | None = None
    changeover: float = 0.0
    worst_changeover: float = 0.0
    lifetime: float = inf
    refused_ago: float | None = None
    speed_assumed: bool = False
    resting: bool = False
    unit_price: float | None = field(init=False, compare=False)
    """Price of the work that the reference tier does in an hour; None if the price is not known."""

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise ValueError(f"tier {self.name}: speed must be above 0; got {self.speed}")
        if not 0 <= self.changeover <= self.worst_changeover:
            wanted = "changeover must be from 0 to worst_changeover"
            raise ValueError(f"tier {self.name}: {wanted}; got {self.changeover} and {self.worst_changeover}")
        if not self.lifetime > 0:
            raise ValueError(f"tier {self.name}: lifetime must be above 0; got {self.lifetime}")
        object.__setattr__(self, "unit_price", None if self.price is None else float(self.price) / self.speed)

    @property
    def dependable(self) -> bool:
        """True if the cloud does not take the tier away once the job is on it."""
        return self.kind != "Spot"


@dataclass(frozen=True, slots=True)
class View:
    """A job, and the tiers that it may use.

    `tier` is the tier that the job is on, None if it is on none; a name that is not in `tiers` counts as none.
    `changing` is how much of the changeover to it is still ahead, at most. `work` is the remaining work in seconds on
    the reference tier, infinite if it is not known. `left` is the time to the deadline: negative if it has passed,
    infinite if there is none. `at_risk` is the most work that an interruption can cost: the age of the newest
    checkpoint just before the next one is committed. The policy is asked again within `step`, and at once if a tier
    comes up, goes out or is lost. `paid_watch`: to know whether Spot is up, a job must pay for a node of it, because an
    autoscaler brings the nodes. `watch_limit` is for how long a second node may run beside the one that trains.
    `returns` says when a job that trains goes back to a better tier: Never, at once (Eager), or once the move is
    expected to pay for itself (Slack). `searching` is for how long a job without a node has had none; 0 if that is not
    known.
    """

    tiers: tuple[TierView, ...]
    tier: str | None
    work: float
    left: float
    changing: float = 0.0
    at_risk: float = 0.0
    step: float = 600.0
    paid_watch: bool = False
    watch_limit: float = inf
    returns: Returns = "Slack"
    searching: float = 0.0

    @property
    def here(self) -> TierView | None:
        """The tier that the job is on, None if it is on none."""
        return next((tier for tier in self.tiers if tier.name == self.tier), None) if self.tier else None


class Choice(NamedTuple):
    """What a policy answers.

    `tier` is the tier to be on or to ask; None means to wait on no tier. `again_within`: ask again after so many
    seconds at the latest, above 0. A tier that comes up, goes out or is lost is always a reason to ask. `watch` is
    False if it makes no difference to the policy whether Spot is up, so that nobody has to pay to know it. `late` is by
    how many seconds the job misses the deadline if nothing goes wrong from here on, 0 if it meets it. `promised`: the
    job meets the deadline with any behaviour of Spot. `urgent`: it does so only if it goes to `tier` now.
    """

    tier: str | None
    reason: str
    again_within: float
    late: float = 0.0
    promised: bool = True
    watch: bool = True
    urgent: bool = False


Rule = Callable[[View], Choice]
