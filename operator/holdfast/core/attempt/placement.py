"""Which tier an attempt should be on: asks the job's capacity policy.

All policies work through this module. Under Ordered every new attempt tries the tiers of the grid from the top, each
for its acquireTimeout. Otherwise the policy names the tier to try, and is asked again while a pod waits.
"""

from datetime import datetime, timedelta

from holdfast.api.attempt import Attempt, AttemptState, EndReason
from holdfast.api.profile import ProfileTier
from holdfast.core.capacity.choose import Answer, choose
from holdfast.core.capacity.grid import find_tier, next_tier
from holdfast.core.capacity.knowledge import find
from holdfast.core.capacity.policy_input import TierView
from holdfast.core.capacity.safety_net import find_net
from holdfast.core.capacity.spells import patience
from holdfast.core.draft import Draft
from holdfast.core.turn import Turn


def ask(draft: Draft) -> Answer | None:
    """The answer of the job's policy to the state in the draft; None if the grid is empty.

    The tier of an attempt that trains counts even if it was removed from the grid: the attempt keeps it.
    """
    return draft.memo("policy", lambda: _ask(draft)) if draft.snapshot.grid else None


def _ask(draft: Draft) -> Answer:
    tiers, current = draft.snapshot.grid, draft.status.current
    if current and current.state in _ON_NODE and find_tier(tiers, current.tier.name) is None:
        tiers = (current.tier, *tiers)
    return choose(draft.snapshot, draft.status, tiers)


def in_order(draft: Draft) -> bool:
    """True if tiers are tried in their order: under policy Ordered, and while another policy lacks something."""
    if draft.snapshot.job.spec.capacity.policy == "Ordered":
        return True
    answer = ask(draft)
    return answer is None or answer.policy == "Ordered"


def _policy_answer(draft: Draft) -> Answer | None:
    """The answer of the policy that names a tier; None if tiers are tried in their order."""
    return None if in_order(draft) else ask(draft)


def idle_room(draft: Draft) -> timedelta:
    """How long nothing may run without missing the deadline; timedelta.max if there is no deadline to keep."""
    answer = ask(draft)
    net = find_net(answer.outlook.view) if answer and answer.policy == "Deadline" else None
    if answer is None or net is None:
        return timedelta.max
    return timedelta(seconds=max(net.room(answer.outlook.view, None), 0.0))


# --- a new attempt ----------------------------------------------------------------------------------------------------


def tier_to_start(draft: Draft) -> ProfileTier:
    """The tier of a new attempt. The grid must not be empty."""
    answer = _policy_answer(draft)
    return _to_try(answer, draft.snapshot.grid) if answer else draft.snapshot.grid[0]


def other_tier(turn: Turn) -> ProfileTier | None:
    """The tier to try instead if acquireTimeout is over, the policy says so, or the tier left the grid."""
    draft, attempt = turn.draft, turn.attempt
    tiers = draft.snapshot.grid
    if not tiers:
        return None
    removed = find_tier(tiers, attempt.tier.name) is None
    if (answer := _policy_answer(draft)) is None:
        return next_tier(tiers, attempt.tier.name) if removed or _had_its_time(turn, len(tiers)) else None
    draft.wake_in(answer.choice.again_within)
    wanted = _to_try(answer, tiers)
    if wanted.name == attempt.tier.name:  # it asks for another node of the same tier if it has avoided one
        return wanted if attempt.avoid_nodes and _had_its_time(turn, len(tiers)) else None
    return wanted if removed or _may_leave(turn, answer, wanted) else None


def _to_try(answer: Answer, tiers: tuple[ProfileTier, ...]) -> ProfileTier:
    """The tier that a pod should wait for: the chosen one; if the policy chose none, the one worth watching."""
    spot = next((tier.name for tier in tiers if tier.kind == "Spot"), None)
    name = answer.choice.tier or answer.probe or spot
    return find_tier(tiers, name or "") or tiers[0]


def _had_its_time(turn: Turn, tiers: int) -> bool:
    """True if the tier gave no node within its acquireTimeout, and another pod may get one."""
    attempt = turn.attempt
    if (at := attempt.acquire_deadline) is None or (tiers == 1 and not attempt.avoid_nodes):
        return False  # another pod on the only tier would wait for the same nodes, at the end of the queue
    if turn.pod and turn.pod.nominated:
        at += turn.draft.snapshot.config.unmatched_acquire_timeout
    return turn.draft.is_due(at)


def _may_leave(turn: Turn, answer: Answer, wanted: ProfileTier) -> bool:
    """True if a waiting pod may be given up for another tier.

    The policy's choice may change with every node that comes or goes. So the pod must have waited for as long as nodes
    take to come, and its tier must give none or the other tier must have one. Neither counts if the choice is urgent.
    """
    attempt, draft = turn.attempt, turn.draft
    if answer.choice.urgent:
        return True
    if attempt.state is not AttemptState.ACQUIRING or (turn.pod and turn.pod.nominated):
        return False
    here, there = view_of(answer, attempt.tier.name), view_of(answer, wanted.name)
    known = find(draft.status.tiers, attempt.tier.name)
    waited = patience(attempt.tier, known, draft.snapshot.config.assumed.acquire_time)
    if not draft.is_due((attempt.created_at or draft.now) + waited):
        return False
    return here is None or here.available is False or (there is not None and bool(there.available))


def why_other_tier(draft: Draft, attempt: Attempt) -> tuple[str, EndReason]:
    """Why an attempt that waits for a node is given up for another tier: in words, and as the reason of its end."""
    tier = attempt.tier.name
    if find_tier(draft.snapshot.grid, tier) is None:
        return f"{tier} is not in the grid any more", EndReason.TIER_REMOVED
    if (answer := _policy_answer(draft)) is None:
        return f"{tier} gave no node in time", EndReason.ACQUIRE_TIMEOUT
    seen = view_of(answer, tier)
    refused = seen is not None and seen.available is False
    return answer.choice.reason, EndReason.ACQUIRE_TIMEOUT if refused else EndReason.OTHER_TIER


def view_of(answer: Answer, name: str) -> TierView | None:
    """The tier of that name as the policy saw it."""
    return next((tier for tier in answer.outlook.view.tiers if tier.name == name), None)


def up_since(draft: Draft, attempt: Attempt) -> datetime | None:
    """Since when the attempt's tier has been up; None if nothing shows that it is."""
    answer = ask(draft)
    seen = view_of(answer, attempt.tier.name) if answer else None
    if seen is None or not seen.available or seen.spell_age is None:
        return None
    return draft.now - timedelta(seconds=seen.spell_age)


_ON_NODE = (AttemptState.STARTING, AttemptState.RUNNING)
