"""Make the input of the capacity policies (View) from what is known of a job and its tiers.

Unmeasured times are assumed so that the job is early rather than late. A tier that was never used starts
as slowly as any other tier of the job, and lets a pod wait for the whole acquire timeout. How fast it is:
holdfast.core.capacity.measured.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Final, NamedTuple

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.knowledge import Observation, Seen, TierKnowledge
from holdfast.api.profile import ProfileTier
from holdfast.api.status import TrainingJobStatus
from holdfast.core.capacity.grid import acquire_timeout
from holdfast.core.capacity.interruptions import interruptions_and_node_time, mean_lifetime
from holdfast.core.capacity.knowledge import observation_of, pace_now
from holdfast.core.capacity.measured import at_worst, find_speeds, median
from holdfast.core.capacity.policy_input import TierView, View
from holdfast.core.capacity.rotation import refusals, search_begun
from holdfast.core.capacity.spells import (
    FRESH,
    WORKING,
    Spell,
    own_spell,
    patience,
    prevailing_spell,
    shared_spell,
    with_attempt,
)
from holdfast.core.made_from import has_other_goal
from holdfast.core.observe.demand import accelerators_on, larger_than_all, requested
from holdfast.core.observe.report import Report
from holdfast.core.observe.snapshot import Snapshot
from holdfast_protocol.saving import LONGEST, MOST_SHARE

ZERO: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Missing:
    """What a policy lacks. `reason` is one CamelCase word, `message` is a text for people."""

    reason: str
    message: str


class Work(NamedTuple):
    """The remaining work: `goal` steps, `done` of them, each `pace` seconds long on the tier `reference`."""

    goal: int | None = None
    done: int = 0
    pace: float | None = None
    reference: str | None = None


UNKNOWN: Final = Work()


class Figures(NamedTuple):
    """The numbers behind a TierView. No policy reads them; `holdfast why` shows them.

    `acquire_measured`: the time to acquire a node was measured, by this job or another one. `start_measured`: this job
    has started there. `pace` is in seconds per step; None if it was not measured, then the speed is assumed. The
    expected lifetime comes from `interruptions` in `node_time`. `billed`: to know that the tier is up again costs
    money. `node_since` is since when nodes of the tier have been there that can take the pods.
    """

    acquire: timedelta
    worst_acquire: timedelta
    start: timedelta
    worst_start: timedelta
    acquire_measured: bool
    start_measured: bool
    pace: float | None
    interruptions: int
    node_time: timedelta
    billed: bool
    node_since: datetime | None


class Outlook(NamedTuple):
    """A job and its tiers as policies see them. `missing`: policy Deadline cannot be used, because this is not known.

    `work` and `figures` (in the order of the view's tiers) are the numbers behind the view.
    """

    view: View
    missing: Missing | None = None
    work: Work = UNKNOWN
    figures: tuple[Figures, ...] = ()


def look_ahead(
    snapshot: Snapshot,
    status: TrainingJobStatus,
    tiers: tuple[ProfileTier, ...],
    shut: frozenset[str] = frozenset(),
) -> Outlook:
    """The outlook of a job whose grid is `tiers`, at least one; `status` is the draft of the decision.

    The tiers named in `shut` count as out.
    """
    ahead = _Ahead(snapshot, status, tiers, shut)
    capacity, goal, pace = snapshot.job.spec.capacity, ahead.goal, ahead.speeds.pace
    done = _done(status, ahead.report)
    # A job without a node that has done all steps must start once more to report completion.
    least = 0 if ahead.here else 1
    work = inf if goal is None or pace is None else max(goal - done, least) * pace
    found = [ahead.tier(tier) for tier in tiers]
    views = tuple([view for view, _ in found])
    view = View(
        views,
        ahead.here.tier.name if ahead.here else None,
        work,
        (capacity.deadline - snapshot.now).total_seconds() if capacity.deadline else inf,
        ahead.changing(),
        at_risk=ahead.at_risk(done, max([view.speed for view in views])),
        step=ahead.assumed.decision_gap.total_seconds(),
        paid_watch=bool(ahead.spots_billed) and all(ahead.spots_billed),
        watch_limit=capacity.max_overlap.total_seconds() or inf,
        returns=capacity.return_policy,
        searching=ahead.searching(),
    )
    return Outlook(
        view, _missing(goal, pace), Work(goal, done, pace, ahead.speeds.reference), tuple([made for _, made in found])
    )


class _Ahead:
    """One outlook. It computes what several tiers need once."""

    def __init__(
        self,
        snapshot: Snapshot,
        status: TrainingJobStatus,
        tiers: tuple[ProfileTier, ...],
        shut: frozenset[str],
    ) -> None:
        self.snapshot = snapshot
        self.nodes = snapshot.job.spec.trainer.nodes
        self.status = status
        self.shut = shut
        self.now = snapshot.now
        self.assumed = snapshot.config.assumed
        self.own = {one.tier: one for one in status.tiers}
        self.shared = {one.tier: one for one in snapshot.profile.status.tiers} if snapshot.profile else {}
        said, told = snapshot.job.spec.goal.steps, status.progress.steps
        self.goal = told or said if has_other_goal(status.current, snapshot.job.spec) else said or told
        self.here = _here(status.current)
        # The report is newer than status, which is old after an hour without an operator.
        self.report = _report(snapshot, status.current)
        self.paces = self._paces()
        self.speeds = find_speeds(tiers, self.paces, shared=not snapshot.job.spec.capacity.tiers)
        self.refusals = refusals(status.history) if _nowhere(status.current) else {}
        self.spots_billed: list[bool] = []
        self.starts = {one.tier: median(one.start) for one in status.tiers if one.start}
        known = self.own if self.starts else self.shared
        starts = [one.start for one in known.values() if one.start]
        self.start = max(self.starts.values() if self.starts else map(median, starts), default=self.assumed.start_time)
        self.worst_start = max(map(at_worst, starts), default=self.assumed.worst_start_time)
        if not self.starts:  # a start is the program's own, and one tenant's must not change what others plan with
            self.worst_start = self.assumed.worst_start_time
            self.start = min(self.start, self.worst_start)

    def tier(self, tier: ProfileTier) -> tuple[TierView, Figures]:
        """One tier, from what this job and others know of it."""
        own, shared = self.own.get(tier.name), self.shared.get(tier.name)
        node_since = self.snapshot.nodes_since(tier)
        observed = observation_of(tier, own, shared)
        billed = observed == "Billed" or (observed is None and node_since is None)
        if tier.kind == "Spot":
            self.spots_billed.append(billed)
        available, spell_age = self._availability(tier, self._spell(tier, own, shared), node_since, observed)
        acquire, worst_acquire = self._acquire(tier, own, shared, reliable=billed or node_since is not None)
        start = self.starts.get(tier.name, self.start)
        interruptions, node_time = interruptions_and_node_time(own, shared, self.now)
        view = TierView(
            tier.name,
            tier.kind,
            tier.price_per_node_hour and tier.price_per_node_hour * self.nodes,
            self.speeds.by_tier[tier.name],
            available,
            spell_age,
            (acquire + start).total_seconds(),
            (worst_acquire + self.worst_start).total_seconds(),
            mean_lifetime(tier.kind, interruptions, node_time, self.assumed) / self.nodes,  # losing one stops all
            self._refused(tier, spell_age if available else None),
            speed_assumed=tier.name in self.speeds.assumed,
            resting=bool(own and own.rests_until and self.now < own.rests_until),
        )
        return view, Figures(
            acquire,
            worst_acquire,
            start,
            self.worst_start,
            acquire_measured=bool((own and own.acquire) or (shared and shared.acquire)),
            start_measured=tier.name in self.starts,
            pace=self.paces.get(tier.name),
            interruptions=interruptions,
            node_time=node_time,
            billed=billed,
            node_since=node_since,
        )

    def changing(self) -> float:
        """Upper bound in seconds on the start-up still ahead; if it is overdue, as long again, up to half a start."""
        here = self.here
        if here is None or here.first_step is not None or here.scheduled_at is None:
            return 0.0
        overdue = self.now - here.scheduled_at - self.worst_start
        return max(-overdue, min(overdue, self.start / 2)).total_seconds()

    def searching(self) -> float:
        """For how many seconds the job has had no node."""
        begun = search_begun(self.status.history) if _nowhere(self.status.current) else None
        return max((self.now - begun).total_seconds(), 0.0) if begun else 0.0

    def at_risk(self, done: int, speed: float) -> float:
        """The work that an interruption just before the next commit costs, until the interruption is noticed.

        It is the checkpoint interval plus the time of a save, or all work that is not saved yet if that is more. A save
        is assumed to take at most the grace period. If two saves do not fit into maxLostWork, one follows the other at
        once.
        """
        spec, pace = self.snapshot.job.spec.checkpoint, self.speeds.pace or 0.0
        saving = spec.grace_period.total_seconds() * speed
        detection = self.assumed.interruption_detection.total_seconds() * speed
        if spec.every.steps:
            every = spec.every.steps * pace
        else:
            longest = max(LONGEST * speed, saving / MOST_SHARE)
            every = spec.every.period.total_seconds() * speed if spec.every.period else longest
        if spec.max_lost_work is not None:
            every = min(every, max(spec.max_lost_work.total_seconds() * speed - saving, saving))
        unsaved = max(done - _saved(self.status, self.report), 0) * pace
        return max(every + saving, unsaved) + detection

    def _paces(self) -> dict[str, float]:
        """Seconds per step, by tier, as far as they were measured."""
        paces = {one.tier: one.pace for one in self.status.tiers if one.pace}
        current = self.status.current
        if current and (pace := pace_now(current, paces.get(current.tier.name))):
            paces[current.tier.name] = pace
        return {tier: pace.total_seconds() for tier, pace in paces.items()}

    def _spell(self, tier: ProfileTier, own: TierKnowledge | None, shared: TierKnowledge | None) -> Spell | None:
        """The tier's newest spell, from this job, from others and from the job's present attempts."""
        namespace = self.snapshot.job.metadata.namespace
        asked = accelerators_on(self.snapshot.job.spec.trainer, tier)
        spell, others = own_spell(own, asked), shared_spell(shared, asked, namespace, self.nodes)
        for attempt in (self.status.current, self.status.successor):
            if attempt is not None and attempt.tier.name == tier.name:
                known = own if own and own.acquire else shared
                waits, why = patience(tier, known, self.assumed.acquire_time), self.snapshot.refusal_of(attempt)
                spell = with_attempt(spell, attempt, waits, self.now, why)
        if self.here is not None and self.here.tier.name == tier.name and self.here.scheduled_at is not None:
            # The job has its node, even if the tier refused others.
            return spell if spell is not None and spell.up else Spell(Seen.UP, self.here.scheduled_at, self.now)
        if spell is None or others is None:
            return spell or others
        return prevailing_spell((spell, others))

    def _availability(
        self, tier: ProfileTier, spell: Spell | None, node_since: datetime | None, observed: Observation | None
    ) -> tuple[bool | None, float | None]:
        """Whether the tier is up now, and for how many seconds that has been so; None: not known.

        A lost node does not show that the tier has no other one: a job must ask.
        """
        if tier.name in self.shut:
            return False, None
        now = self.now
        if spell is not None and (now - spell.seen_at > FRESH or spell.since > now):
            spell = None
        if node_since is None and self._has_no_room(tier, observed):
            return False, (now - spell.since).total_seconds() if spell and not spell.up else None
        # A refusal after the node had appeared shows that the node has no room.
        if (
            node_since is not None
            and tier.observation != "Billed"
            and not (spell and spell.up)
            and (spell is None or spell.state is Seen.TOOK_BACK or spell.seen_at < node_since)
        ):
            return True, max((now - max(node_since, spell.seen_at if spell else node_since)).total_seconds(), 0.0)
        if spell is None or spell.state is Seen.TOOK_BACK:
            return None, None
        return spell.up, (now - spell.since).total_seconds()

    def _has_no_room(self, tier: ProfileTier, observed: Observation | None) -> bool:
        """True if too few nodes that can take the pods show that the tier is out.

        They do not if the job has its nodes there, or if an autoscaler is known. If it is not known whether there is
        one, the tier is out only if all of its nodes are too small.
        """
        has = (self.here, self.status.successor)
        if any(one and one.tier.name == tier.name and one.scheduled_at for one in has):
            return False
        if observed is None:
            wanted = requested(self.snapshot.job.spec.trainer, tier)
            return bool(larger_than_all(self.snapshot.cluster, tier, wanted))
        return observed == "Free"

    def _refused(self, tier: ProfileTier, up_for: float | None) -> float | None:
        """How long ago the tier refused this search; None if it did not, or if the tier came up after that."""
        if (at := self.refusals.get(tier.name)) is None:
            return None
        ago = max((self.now - at).total_seconds(), 0.0)
        return ago if up_for is None or up_for >= ago else None

    def _acquire(
        self, tier: ProfileTier, own: TierKnowledge | None, shared: TierKnowledge | None, *, reliable: bool
    ) -> tuple[timedelta, timedelta]:
        """Typical and worst time from asking for a node until there is one.

        Measured times are not `reliable` if the cluster had usable nodes then and has none now.
        """
        timeout = acquire_timeout(tier, self.snapshot.cluster, self.snapshot.config)
        measured, others = own.acquire if own else None, shared.acquire if shared else None
        usual, worst = min(self.assumed.acquire_time, timeout), ZERO
        if others:  # one tenant's pod may wait for any time: beyond the timeout its wait says nothing to others
            usual, worst = min(median(others), timeout), min(at_worst(others), timeout)
        if measured:
            usual, worst = median(measured), max(worst, at_worst(measured))
        return usual, worst if reliable and (measured or others) else max(worst, timeout)


def _report(snapshot: Snapshot, current: Attempt | None) -> Report | None:
    """The newest report of the current attempt's trainer."""
    return snapshot.reports.get(current.pods[0].uid or "") if current and current.pods else None


def _here(current: Attempt | None) -> Attempt | None:
    """The current attempt if it has a node and is not about to leave it."""
    if current is None or current.state not in WORKING or current.drain or current.departure:
        return None
    return current


def _nowhere(current: Attempt | None) -> bool:
    """True if the job has no node."""
    return current is None or current.scheduled_at is None


def _done(status: TrainingJobStatus, report: Report | None) -> int:
    """Steps that need not be trained again: all steps if a trainer runs, otherwise those that were saved."""
    current, saved = status.current, status.checkpoint.step if status.checkpoint else None
    if current and current.state in (AttemptState.RUNNING, AttemptState.DRAINING) and current.first_step is not None:
        return max(current.last_step or current.first_step, saved or 0, (report.step if report else None) or 0)
    return status.progress.step if saved is None else saved


def _saved(status: TrainingJobStatus, report: Report | None) -> int:
    """The newest step that an interruption cannot take: of the newest commit, or where the attempt resumed."""
    begun = status.current.first_step if status.current else None
    commits = (status.checkpoint, report.checkpoint if report else None)
    steps = [one.step for one in commits if one is not None and one.step is not None]
    if begun is None and not steps:
        return status.progress.step
    return max([(begun or 1) - 1, *steps])


def _missing(goal: int | None, pace: float | None) -> Missing | None:
    if goal is None:
        words = "the remaining work is not known: set spec.goal.steps, or let the trainer report its goal"
        return Missing("GoalMissing", words)
    if pace is None:
        return Missing("PaceUnknown", "the time of a step is not known before the first steps are done")
    return None
