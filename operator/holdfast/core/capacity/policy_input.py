"""What a capacity rule sees, and what it answers. All times are seconds; there is no clock, only spans of time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from math import inf
from typing import Literal, NamedTuple

Kind = Literal["Spot", "Dedicated", "CPU"]
Returns = Literal["Never", "Eager", "Slack"]


@dataclass(frozen=True, slots=True)
class TierView:
    """One tier, as a rule sees it.

    `speed` is useful work per hour relative to the reference dedicated tier, above 0; a CPU tier may have 0.02.
    `available` says whether the tier can be had now, None if nobody knows; `held` for how long it has been so, None if
    nobody knows. `changeover` is what a move to the tier typically costs: the time in which it is paid for and does
    nothing useful. `worst_changeover` is the longest that has to be reckoned with, and not below `changeover`. `life`
    is for how long a node of the tier can be expected to be kept. `refused` is for how long ago a job that has been
    nowhere since asked for it in vain, None if it did not, or if the tier has come up after that.
    """

    name: str
    kind: Kind
    price: Decimal | None = None  # an hour, any currency; zero for nodes that are paid for anyway
    speed: float = 1.0
    available: bool | None = None
    held: float | None = None
    changeover: float = 0.0
    worst_changeover: float = 0.0
    life: float = inf
    refused: float | None = None
    unit_price: float | None = field(init=False, compare=False)
    """Price of the work that the reference tier does in an hour, None if the price is not known."""

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise ValueError(f"tier {self.name}: speed must be above 0; got {self.speed}")
        if not 0 <= self.changeover <= self.worst_changeover:
            wanted = "changeover must be 0 or more, and not above worst_changeover"
            raise ValueError(f"tier {self.name}: {wanted}; got {self.changeover} and {self.worst_changeover}")
        if not self.life > 0:
            raise ValueError(f"tier {self.name}: life must be above 0; got {self.life}")
        object.__setattr__(self, "unit_price", None if self.price is None else float(self.price) / self.speed)

    @property
    def dependable(self) -> bool:
        """Nobody takes the tier away once the job is on it."""
        return self.kind != "Spot"


@dataclass(frozen=True, slots=True)
class View:
    """A job, and the tiers it may use.

    `tier` is where the job is, None while it is nowhere (a tier that is not among `tiers` counts as nowhere), and
    `changing` how much of the changeover to it is still to come, at most. `work` is what is left to do, in seconds on
    the reference tier, and infinite if nobody knows; `left` the time to the deadline, negative once it has passed, and
    infinite without one. `at_risk` is the most work that a
    loss can cost: the age of the checkpoint just before the next one is committed. The rule is asked again within
    `step`, and at once if a tier comes, goes or is lost. `paid_watch` says that to know whether Spot is up one has to
    hold a node of it, as where an autoscaler brings one, and `watch_limit` for how long it may be held beside the one
    that works. `returns` is when a job that is well where it is goes back to a better tier: Never, at once (Eager), or
    once the move can be expected to pay for itself (Slack).
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

    @property
    def here(self) -> TierView | None:
        """The tier that the job is on."""
        return next((tier for tier in self.tiers if tier.name == self.tier), None) if self.tier else None


class Choice(NamedTuple):
    """What a rule answers.

    `tier` is the tier to be on, or to try; None is to wait on none. `again_within` is when the rule has to be asked
    again at the latest, in seconds, above 0; a tier that comes, goes or is lost is always a reason to ask. `watch` is
    False where it makes no difference to the rule whether Spot is up, so that nothing has to be paid to know. `late`
    is by how many seconds the deadline will be missed if all goes well from here on, 0 if it can be met. `promised`
    says that the deadline is met whatever Spot does, and `urgent` that it is so only if the job goes there now, and
    does not stay where it is for as long as that takes.
    """

    tier: str | None
    reason: str
    again_within: float
    late: float = 0.0
    promised: bool = True
    watch: bool = True
    urgent: bool = False


Rule = Callable[[View], Choice]
