"""Going back to a better tier while training goes on: policy `Ordered`, where the grid's order says what is better."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from holdfast.api.attempt import Attempt, AttemptRecord, EndKind
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import format_duration
from holdfast.api.status import TrainingJobStatus
from holdfast.core.departing import may_overlap
from holdfast.core.draft import Draft
from holdfast.core.situation import Situation
from holdfast.core.tiers import grid

REMEMBERED = timedelta(hours=24)  # losses before that say nothing about a tier today
YOUNG = timedelta(hours=1)  # how long a tier of which nothing is known is expected to hold
CHANGEOVER = timedelta(minutes=5)  # what a start wastes, as long as none was measured
CHEAPER = Decimal(3)  # dedicated over spot, where prices do not say it
MUCH_CHEAPER = Decimal(1000)


def better_tiers(draft: Draft, current: Attempt) -> tuple[ProfileTier, ...]:
    """The tiers of the grid above the one that the job is on; none if the user does not want to go back."""
    tiers = grid(draft.snapshot)
    names = [tier.name for tier in tiers]
    if draft.snapshot.job.spec.capacity.return_policy == "Never" or current.tier.name not in names:
        return ()
    return tiers[: names.index(current.tier.name)]


@dataclass(frozen=True, slots=True)
class Worth:
    """Whether a move to a tier pays for itself within the time that the tier can be expected to last."""

    life: timedelta  # that the tier is expected to last
    changeover: timedelta  # that the move wastes: both nodes are paid for, and no step is made
    ratio: Decimal  # price of the current tier over that of the other
    until: datetime | None  # when the oldest of the losses that speak against it is forgotten

    @property
    def pays(self) -> bool:
        """True if what is saved on the tier is more than what the move costs, there and back."""
        saved = (self.ratio - 1) * Decimal(self.life / timedelta(seconds=1))
        return saved > 2 * (self.ratio + 1) * Decimal(self.changeover / timedelta(seconds=1))


def worth(status: TrainingJobStatus, current: ProfileTier, tier: ProfileTier, now: datetime) -> Worth:
    """What is known about a move from the current tier to this one, from the job's own attempts.

    A tier is expected to last for the time that it held over the losses in it, with one after `YOUNG` to begin with.
    """
    recent = [r for r in status.history if r.tier == tier.name and r.scheduled_at and r.ended_at > now - REMEMBERED]
    lost = [r for r in recent if r.kind is EndKind.LOSS]
    seen = [r for r in recent if r.first_step_at or r in lost]  # a successor that never trained shows nothing
    held = sum((r.ended_at - r.scheduled_at for r in seen if r.scheduled_at), timedelta(0))
    return Worth(
        life=(held + YOUNG) / (len(lost) + 1),
        changeover=_changeover(status.history),
        ratio=_ratio(current, tier),
        until=min(r.ended_at for r in lost) + REMEMBERED if lost else None,
    )


def explain(current: ProfileTier, tier: ProfileTier, found: Worth) -> str:
    """Why a pod waits for a node of a better tier, in words."""
    here, there = current.price_per_node_hour, tier.price_per_node_hour
    better = "stands above it in the grid"
    if here is not None and there is not None and here > there:
        better = f"would be {here / there:.2g} times cheaper" if there else "would cost nothing"
    life = format_duration(timedelta(seconds=round(found.life.total_seconds())))
    return f"training on {current.name}; {tier.name} {better}: a pod waits for a node, which could last {life}"


def _changeover(history: tuple[AttemptRecord, ...]) -> timedelta:
    """The mean time of a start, from node to first step."""
    spans = [r.first_step_at - r.scheduled_at for r in history if r.first_step_at and r.scheduled_at]
    return sum(spans, timedelta(0)) / len(spans) if spans else CHANGEOVER


def _ratio(current: ProfileTier, tier: ProfileTier) -> Decimal:
    """How many times dearer the current tier is. If it is not, the order of the grid has another reason."""
    here, there = current.price_per_node_hour, tier.price_per_node_hour
    if here is None or there is None or here <= there:
        return CHEAPER
    return min(here / there, MUCH_CHEAPER) if there else MUCH_CHEAPER


def may_return(draft: Draft, s: Situation) -> bool:
    """True if the job trains on a tier that is not the best, nothing is going on, and a move would pay."""
    current = draft.attempt
    if current.first_step is None or not may_overlap(draft) or draft.status.successor or current.departure or s.notice:
        return False
    if s.report is None or s.report.save_error:  # leaving would lose what is not saved
        return False
    if current.return_after and s.now < current.return_after:
        if better_tiers(draft, current):
            draft.wake(current.return_after)
        return False
    return _worth_it(draft, current) is not None


def go_back(draft: Draft, s: Situation) -> None:
    """Raise a successor on the better tier: its pending pod is the probe for capacity."""
    tier = _worth_it(draft, draft.attempt)
    if tier is None:
        raise AssertionError("one returns to a tier that is worth it")
    draft.set(successor=draft.raise_attempt(tier))
    draft.say("Run", explain(draft.attempt.tier, tier, worth(draft.status, draft.attempt.tier, tier, s.now)))


def _worth_it(draft: Draft, current: Attempt) -> ProfileTier | None:
    """The best tier that a move to would pay, or None; then the decision is woken when that may change."""
    eager = draft.snapshot.job.spec.capacity.return_policy == "Eager"
    for tier in better_tiers(draft, current):
        found = worth(draft.status, current.tier, tier, draft.now)
        if found.pays or eager:
            return tier
        if found.until:
            draft.wake(found.until)
    return None
