"""From what is known of a job and its tiers to the View that the capacity rules are asked with. Pure.

What nobody has measured is assumed, on the side of being in time: a tier that was never used starts as slowly as any
other of the job, keeps a pod waiting for as long as it may, and is as fast as the others of its kind.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Final, NamedTuple

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.knowledge import Seen, TierKnowledge
from holdfast.api.profile import ProfileTier
from holdfast.api.status import TrainingJobStatus
from holdfast.core.capacity.grid import acquire_timeout
from holdfast.core.capacity.idle_nodes import standing_since
from holdfast.core.capacity.knowledge import pace_now
from holdfast.core.capacity.measured import at_worst, median
from holdfast.core.capacity.node_lifetime import kept, mean_life
from holdfast.core.capacity.policy_input import TierView, View
from holdfast.core.capacity.rotation import refusals
from holdfast.core.capacity.spells import FRESH, WORKING, Spell, patience, prevailing, stored, with_attempt
from holdfast.core.observe.report import Report
from holdfast.core.observe.snapshot import Snapshot

CPU_SPEED = 0.02  # of a CPU tier that was never used, against accelerators
ACCELERATED = 10.0  # speed of accelerators that were never used, against CPUs
LONGEST_AUTO: Final = timedelta(hours=1)  # between two saves with checkpoint.every: auto, or as long as saving costs
MOST_SHARE: Final = 0.05  # of the time; both as in holdfast_train.save.interval
ZERO: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Missing:
    """What a policy lacks. `reason` is one CamelCase word, `message` for people."""

    reason: str
    message: str


class Work(NamedTuple):
    """What there is to do: `goal` steps, `done` of them, each `pace` seconds long on the tier `reference`."""

    goal: int | None = None
    done: int = 0
    pace: float | None = None
    reference: str | None = None


UNKNOWN: Final = Work()


class Figures(NamedTuple):
    """What the view of one tier was made from. No rule reads it; people do.

    `pace` is in seconds a step, None if it was not measured: the speed of the tier is assumed then. `asked` says
    whether the time to acquire a node was measured, by this job or by others, `started` whether this job has started
    there. Its life was reckoned from `losses` in the time for which nodes were `had`. `billed` is whether one pays to
    know that it is back, and `stands` since when a node of it has been there.
    """

    acquire: timedelta
    worst_acquire: timedelta
    start: timedelta
    worst_start: timedelta
    asked: bool
    started: bool
    pace: float | None
    losses: int
    had: timedelta
    billed: bool
    stands: datetime | None


class Outlook(NamedTuple):
    """A job and its tiers as rules see them. `missing` is set if work or time left are not known: no Deadline then.

    `work` and `figures`, in the order of the view's tiers, are what the view was made from.
    """

    view: View
    missing: Missing | None = None
    work: Work = UNKNOWN
    figures: tuple[Figures, ...] = ()


def look_ahead(snapshot: Snapshot, status: TrainingJobStatus, tiers: tuple[ProfileTier, ...]) -> Outlook:
    """The outlook of a job whose grid is `tiers`, one or more; `status` is the decision's draft."""
    ahead = _Ahead(snapshot, status, tiers)
    capacity, goal, pace = snapshot.job.spec.capacity, ahead.goal, ahead.reference
    done = _done(status, ahead.heard)
    least = 0 if ahead.here else 1  # who has done all steps, and is nowhere, has to start once more to say so
    work = inf if goal is None or pace is None else max(goal - done, least) * pace
    seen = [ahead.tier(tier) for tier in tiers]
    views = tuple([view for view, _ in seen])
    view = View(
        views,
        ahead.here.tier.name if ahead.here else None,
        work,
        (capacity.deadline - snapshot.now).total_seconds() if capacity.deadline else inf,
        ahead.changing(),
        at_risk=ahead.at_risk(done, max([view.speed for view in views])),
        step=ahead.assumed.unasked.total_seconds(),
        paid_watch=bool(ahead.spots_billed) and all(ahead.spots_billed),
        watch_limit=capacity.max_overlap.total_seconds() or inf,
        returns=capacity.return_policy,
    )
    return Outlook(
        view, _missing(goal, pace), Work(goal, done, pace, ahead.reference_name), tuple([made for _, made in seen])
    )


class _Ahead:
    """One look. Everything that is used for several tiers is found once."""

    def __init__(self, snapshot: Snapshot, status: TrainingJobStatus, tiers: tuple[ProfileTier, ...]) -> None:
        self.snapshot = snapshot
        self.status = status
        self.now = snapshot.now
        self.assumed = snapshot.config.assumed
        self.own = {one.tier: one for one in status.tiers}
        self.shared = {one.tier: one for one in snapshot.profile.status.tiers} if snapshot.profile else {}
        self.goal = snapshot.job.spec.goal.steps or status.progress.steps
        self.here = _here(status.current)
        # It counts before it stands in status, which is old after an hour without an operator.
        self.heard = _report(snapshot, status.current)
        self.paces = self._paces()
        self.reference = self._reference(tiers)
        self.refusals = refusals(status.history) if _nowhere(status.current) else {}
        self.spots_billed: list[bool] = []
        self.starts = {one.tier: median(one.start) for one in status.tiers if one.start}
        known = self.own if self.starts else self.shared
        starts = [one.start for one in known.values() if one.start]
        self.start = max(self.starts.values() if self.starts else map(median, starts), default=self.assumed.starting)
        self.worst_start = max(map(at_worst, starts), default=self.assumed.starting_at_worst)

    def tier(self, tier: ProfileTier) -> tuple[TierView, Figures]:
        """One tier, with what this job and others know of it."""
        own, shared = self.own.get(tier.name), self.shared.get(tier.name)
        stands = standing_since(self.snapshot.cluster, tier)
        billed = _billed(tier, own, shared, stands)
        if tier.kind == "Spot":
            self.spots_billed.append(billed)
        available, held = self._availability(tier, self._spell(tier, own, shared), stands)
        acquire, worst_acquire = self._acquire(tier, own, shared, reliable=billed or stands is not None)
        start, (losses, had) = self.starts.get(tier.name, self.start), kept(own, shared, self.now)
        view = TierView(
            tier.name,
            tier.kind,
            tier.price_per_node_hour,
            self._speed(tier),
            available,
            held,
            (acquire + start).total_seconds(),
            (worst_acquire + self.worst_start).total_seconds(),
            mean_life(tier.kind, losses, had, self.assumed),
            self._refused(tier, held if available else None),
        )
        return view, Figures(
            acquire,
            worst_acquire,
            start,
            self.worst_start,
            asked=bool((own and own.acquire) or (shared and shared.acquire)),
            started=tier.name in self.starts,
            pace=self.paces.get(tier.name),
            losses=losses,
            had=had,
            billed=billed,
            stands=stands,
        )

    def changing(self) -> float:
        """How much of the way to the first step on this tier is to come, at most; one that is overdue may take on."""
        here = self.here
        if here is None or here.first_step is not None or here.scheduled_at is None:
            return 0.0
        return max(self.worst_start - (self.now - here.scheduled_at), self.start / 2).total_seconds()

    def at_risk(self, done: int, speed: float) -> float:
        """The work that a loss just before the next commit costs, or has cost by the time it is noticed.

        An interval between checkpoints and a save, or all that is not saved yet. A save is taken to be done within the
        grace period; where two of them do not fit into maxLoss, one follows the other.
        """
        spec, pace = self.snapshot.job.spec.checkpoint, self.reference or 0.0
        saving, unnoticed = spec.grace_period.total_seconds() * speed, self.assumed.unnoticed.total_seconds() * speed
        if spec.every.steps:
            every = spec.every.steps * pace
        else:
            longest = max(LONGEST_AUTO.total_seconds() * speed, saving / MOST_SHARE)
            every = spec.every.period.total_seconds() * speed if spec.every.period else longest
        if spec.max_loss is not None:
            every = min(every, max(spec.max_loss.total_seconds() * speed - saving, saving))
        unsaved = max(done - _saved(self.status, self.heard), 0) * pace
        return max(every + saving, unsaved) + unnoticed

    def _paces(self) -> dict[str, float]:
        """Seconds for a step, by tier, as far as it was measured."""
        paces = {one.tier: one.pace for one in self.status.tiers if one.pace}
        current = self.status.current
        if current and (pace := pace_now(current, paces.get(current.tier.name))):
            paces[current.tier.name] = pace
        return {tier: pace.total_seconds() for tier, pace in paces.items()}

    def _reference(self, tiers: tuple[ProfileTier, ...]) -> float | None:
        """Seconds for a step on the reference tier, to which all speeds are relative; None if no pace was measured.

        It is the first dedicated tier that was used, else the first tier that was.
        """
        used = [tier for tier in tiers if tier.name in self.paces]
        reference = next((tier for tier in used if tier.kind == "Dedicated"), used[0] if used else None)
        self.on_cpu = reference is not None and reference.kind == "CPU"
        self.reference_name = reference.name if reference else None
        return self.paces[reference.name] if reference else None

    def _speed(self, tier: ProfileTier) -> float:
        pace = self.paces.get(tier.name)
        if pace is not None and self.reference is not None:
            return self.reference / pace
        if tier.kind == "CPU":
            return 1.0 if self.on_cpu else CPU_SPEED
        return ACCELERATED if self.on_cpu else 1.0

    def _spell(self, tier: ProfileTier, own: TierKnowledge | None, shared: TierKnowledge | None) -> Spell | None:
        """What this job and others saw of the tier last, now included."""
        spell, others = stored(own), stored(shared)
        for attempt in (self.status.current, self.status.successor):
            if attempt is not None and attempt.tier.name == tier.name:
                known = own if own and own.acquire else shared
                spell = with_attempt(spell, attempt, patience(tier, known, self.assumed.asking), self.now)
        if self.here is not None and self.here.tier.name == tier.name and self.here.scheduled_at is not None:
            # That others were refused does not take a node away.
            return spell if spell is not None and spell.up else Spell(Seen.UP, self.here.scheduled_at, self.now)
        if spell is None or others is None:
            return spell or others
        return prevailing((spell, others))

    def _availability(
        self, tier: ProfileTier, spell: Spell | None, stands: datetime | None
    ) -> tuple[bool | None, float | None]:
        """Whether the tier can be had now, and for how many seconds that has been so; None is: nobody knows.

        That a node was lost does not show that there is no other: one has to ask.
        """
        now = self.now
        if spell is not None and (now - spell.seen_at > FRESH or spell.since > now):
            spell = None
        if stands is not None and tier.observation != "Billed" and not (spell and spell.up):
            # Somebody who asked in vain when the node was there already found no room on it.
            if spell is None or spell.state is Seen.LOST or spell.seen_at < stands:
                return True, max((now - max(stands, spell.seen_at if spell else stands)).total_seconds(), 0.0)
        elif stands is None and tier.observation == "Free" and not (spell and spell.up):
            return False, (now - spell.since).total_seconds() if spell else None
        if spell is None or spell.state is Seen.LOST:
            return None, None
        return spell.up, (now - spell.since).total_seconds()

    def _refused(self, tier: ProfileTier, up_for: float | None) -> float | None:
        """How long ago this search asked for the tier in vain; None if it did not, or if it has come up after that."""
        if (at := self.refusals.get(tier.name)) is None:
            return None
        ago = max((self.now - at).total_seconds(), 0.0)
        return ago if up_for is None or up_for >= ago else None

    def _acquire(
        self, tier: ProfileTier, own: TierKnowledge | None, shared: TierKnowledge | None, *, reliable: bool
    ) -> tuple[timedelta, timedelta]:
        """Typical and worst time from asking for a node until there is one.

        What was measured is not `reliable` if nodes stood there then, and none does now.
        """
        measured, others = own.acquire if own else None, shared.acquire if shared else None
        nearest = measured or others
        worst = at_worst(nearest) if nearest else ZERO
        if measured and others:
            worst = max(worst, at_worst(others))
        if nearest and reliable:
            return median(nearest), worst
        timeout = acquire_timeout(tier, self.snapshot.cluster, self.snapshot.config)
        return median(nearest) if nearest else min(self.assumed.asking, timeout), max(worst, timeout)


def _billed(
    tier: ProfileTier, own: TierKnowledge | None, shared: TierKnowledge | None, stands: datetime | None
) -> bool:
    """True if the tier's nodes come when a pod asks, so that to know that it is back costs money."""
    if tier.observation is not None:
        return tier.observation == "Billed"
    mine, theirs = own and own.observation, shared and shared.observation
    return "Billed" in (mine, theirs) or ("Free" not in (mine, theirs) and stands is None)


def _report(snapshot: Snapshot, current: Attempt | None) -> Report | None:
    """What the trainer of the current attempt has just said."""
    return snapshot.reports.get(current.pods[0].uid or "") if current and current.pods else None


def _here(current: Attempt | None) -> Attempt | None:
    """The current attempt if it has a node, and is not about to leave it."""
    if current is None or current.state not in WORKING or current.drain or current.departure:
        return None
    return current


def _nowhere(current: Attempt | None) -> bool:
    """Whether the job has no node."""
    return current is None or current.scheduled_at is None


def _done(status: TrainingJobStatus, heard: Report | None) -> int:
    """Steps that need not be taken again as things stand: of a trainer that runs all, else what was saved."""
    current, saved = status.current, status.checkpoint.step if status.checkpoint else None
    if current and current.state in (AttemptState.RUNNING, AttemptState.DRAINING) and current.first_step is not None:
        return max(current.last_step or current.first_step, saved or 0, (heard.step if heard else None) or 0)
    return status.progress.step if saved is None else saved


def _saved(status: TrainingJobStatus, heard: Report | None) -> int:
    """The newest step that a loss cannot take: of a commit, or what the current attempt went on from."""
    begun = status.current.first_step if status.current else None
    if status.checkpoint is None and begun is None:
        return status.progress.step
    commits = (status.checkpoint, heard.checkpoint if heard else None)
    return max((begun or 1) - 1, *(commit.step if commit else 0 for commit in commits))


def _missing(goal: int | None, pace: float | None) -> Missing | None:
    if goal is None:
        words = "how much work is left is not known: set spec.goal.steps, or let the trainer report its goal"
        return Missing("GoalMissing", words)
    if pace is None:
        return Missing("PaceUnknown", "how long a step takes is not known before the first of them were taken")
    return None
