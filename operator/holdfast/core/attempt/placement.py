"""Where a job should be: its capacity policy is asked, and what it says is put to attempts.

All policies work through this. Only the walk of a grid for a node is a matter of its own under Ordered: from the top at
every new attempt, acquireTimeout each. Else the policy names the tier to try, and is asked again while a pod waits.
"""

from datetime import datetime, timedelta

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.profile import ProfileTier
from holdfast.core.capacity.choose import Answer, choose
from holdfast.core.capacity.grid import find_tier, next_tier
from holdfast.core.capacity.knowledge import find
from holdfast.core.capacity.policy_input import TierView
from holdfast.core.capacity.safety_net import find_net
from holdfast.core.capacity.spells import patience
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Situation


def ask(draft: Draft) -> Answer | None:
    """What the job's policy says as things stand in the draft; None if the grid is empty.

    The tier of an attempt that trains counts although it was taken out of the grid: the attempt keeps it.
    """
    return draft.once("policy", lambda: _ask(draft)) if draft.snapshot.grid else None


def _ask(draft: Draft) -> Answer:
    tiers, current = draft.snapshot.grid, draft.status.current
    if current and current.state in _ON_NODE and find_tier(tiers, current.tier.name) is None:
        tiers = (current.tier, *tiers)
    return choose(draft.snapshot, draft.status, tiers)


def in_order(draft: Draft) -> bool:
    """True if tiers are tried in their order: that is the policy, or what is done while the policy lacks something."""
    if draft.snapshot.job.spec.capacity.policy == "Ordered":
        return True
    answer = ask(draft)
    return answer is None or answer.policy == "Ordered"


def idle_room(draft: Draft) -> timedelta:
    """For how long nothing has to run, as far as the deadline is concerned; without one that is kept for ever."""
    answer = ask(draft)
    net = find_net(answer.outlook.view) if answer and answer.policy == "Deadline" else None
    if answer is None or net is None:
        return timedelta.max
    return timedelta(seconds=max(net.room(answer.outlook.view, None), 0.0))


# --- a new attempt ----------------------------------------------------------------------------------------------------


def tier_to_start(draft: Draft) -> ProfileTier:
    """The tier of a new attempt, of a grid that is not empty."""
    answer = None if in_order(draft) else ask(draft)
    return _to_try(answer, draft.snapshot.grid) if answer else draft.snapshot.grid[0]


def elsewhere(draft: Draft, s: Situation) -> ProfileTier | None:
    """The tier to try instead of that of an attempt that has no node, or None to wait on."""
    tiers, attempt = draft.snapshot.grid, draft.attempt
    if not tiers:
        return None
    gone = find_tier(tiers, attempt.tier.name) is None
    if in_order(draft):
        return next_tier(tiers, attempt.tier.name) if gone or _had_its_time(draft, s, len(tiers)) else None
    answer = ask(draft)
    if answer is None:
        raise AssertionError("a policy that is in force has an answer")
    draft.wake_in(answer.choice.again_within)
    wanted = _to_try(answer, tiers)
    if wanted.name == attempt.tier.name:  # it is asked for a node that is not avoided, if that is what it waits for
        return wanted if attempt.avoid_nodes and _had_its_time(draft, s, len(tiers)) else None
    return wanted if gone or _may_leave(draft, s, answer, wanted) else None


def _to_try(answer: Answer, tiers: tuple[ProfileTier, ...]) -> ProfileTier:
    """The tier that a pod should wait for: that of the choice, or, if it is to wait on none, the one worth watching."""
    spot = next((tier.name for tier in tiers if tier.kind == "Spot"), None)
    name = answer.choice.tier or answer.probe or spot
    return find_tier(tiers, name or "") or tiers[0]


def _had_its_time(draft: Draft, s: Situation, tiers: int) -> bool:
    """True if the tier gave no node within its acquireTimeout, and another pod may be luckier."""
    attempt = draft.attempt
    if (at := attempt.acquire_deadline) is None or (tiers == 1 and not attempt.avoid_nodes):
        return False  # another pod on the only tier would wait for the same nodes, at the end of the queue
    if s.pod and s.pod.nominated:
        at += draft.snapshot.config.unmatched_acquire_timeout
    if s.now < at:
        draft.wake(at)
    return s.now >= at


def _may_leave(draft: Draft, s: Situation, answer: Answer, wanted: ProfileTier) -> bool:
    """True if a waiting pod may be given up for another tier.

    The policy may change its mind with every node that comes or goes; a pod has to have waited for as long as nodes
    take to come, or to have waited in vain, or there is no time to lose.
    """
    attempt = draft.attempt
    if answer.choice.urgent:
        return True
    if attempt.state is not AttemptState.ACQUIRING or (s.pod and s.pod.nominated):
        return False
    here, there = view_of(answer, attempt.tier.name), view_of(answer, wanted.name)
    known = find(draft.status.tiers, attempt.tier.name)
    at = (attempt.created_at or draft.now) + patience(attempt.tier, known, draft.snapshot.config.assumed.acquire_time)
    if draft.now < at:
        draft.wake(at)
        return False
    return here is None or here.available is False or (there is not None and bool(there.available))


def view_of(answer: Answer, name: str) -> TierView | None:
    """The tier of that name as the policy saw it."""
    return next((tier for tier in answer.outlook.view.tiers if tier.name == name), None)


def up_since(draft: Draft, attempt: Attempt) -> datetime | None:
    """Since when a node of the attempt's tier could be had, as far as anybody knows."""
    answer = ask(draft)
    seen = view_of(answer, attempt.tier.name) if answer else None
    if seen is None or not seen.available or seen.spell_age is None:
        return None
    return draft.now - timedelta(seconds=seen.spell_age)


_ON_NODE = (AttemptState.STARTING, AttemptState.RUNNING)
