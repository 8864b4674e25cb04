"""Which tier an attempt should be on: asks the job's capacity policy.

All policies work through this module. Under Ordered every new attempt tries the tiers of the grid from the top, each
for its acquireTimeout. Otherwise the policy names the tier to try, and is asked again while a pod waits.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from holdfast.api.attempt import Attempt, AttemptState, EndReason
from holdfast.api.profile import ProfileTier
from holdfast.core.attempt.all_or_none import HOSTNAME, gives_part_back, observation_in, part_of
from holdfast.core.capacity.choose import Answer, choose
from holdfast.core.capacity.grid import find_tier, next_tier, offers, with_tier_in_use
from holdfast.core.capacity.knowledge import find, resting
from holdfast.core.capacity.policy_input import TierView
from holdfast.core.capacity.safety_net import find_net
from holdfast.core.capacity.spells import patience
from holdfast.core.draft import Draft
from holdfast.core.observe.members import inherited, pods_by_rank
from holdfast.core.observe.usable_nodes import has_labels
from holdfast.core.turn import Turn


def ask(draft: Draft, shut: frozenset[str] = frozenset()) -> Answer | None:
    """The answer of the job's policy to the state in the draft; None if there is no tier.

    The tier of an attempt that has nodes counts even if it was removed from the grid: the attempt keeps it. The tiers
    named in `shut` are out for the attempt that is asked for.
    """
    tiers = with_tier_in_use(draft.snapshot.grid, draft.status.current)
    if not tiers:
        return None
    name = " ".join(("policy", *sorted(shut)))
    return draft.memo(name, lambda: choose(draft.snapshot, draft.status, tiers, shut))


def in_order(draft: Draft) -> bool:
    """True if tiers are tried in their order: under policy Ordered, and while another policy lacks something."""
    if draft.snapshot.job.spec.capacity.policy == "Ordered":
        return True
    answer = ask(draft)
    return answer is None or answer.policy == "Ordered"


def _policy_answer(draft: Draft, shut: frozenset[str] = frozenset()) -> Answer | None:
    """The answer of the policy that names a tier; None if tiers are tried in their order."""
    return None if in_order(draft) else ask(draft, shut)


def idle_room(draft: Draft) -> timedelta:
    """How long nothing may run without missing the deadline; timedelta.max if there is no deadline to keep."""
    answer = ask(draft)
    net = find_net(answer.outlook.view) if answer and answer.policy == "Deadline" else None
    if answer is None or net is None:
        return timedelta.max
    return timedelta(seconds=max(net.room(answer.outlook.view, None), 0.0))


# --- nodes that an attempt avoids -------------------------------------------------------------------------------------


def shut_tiers(
    draft: Draft, avoid: Iterable[str], own: Iterable[str | None] = (), only: ProfileTier | None = None
) -> frozenset[str]:
    """The names of the tiers that cannot give all nodes to an attempt which must not use the nodes in `avoid`.

    Without these nodes too few can take its pods, and no autoscaler brings another one. `own`: nodes on which pods of
    the attempt go on; `only`: the tier on which they do, if no tier of the grid is tried.
    """
    avoided, kept = frozenset(avoid), frozenset(own)
    tiers = (only,) if only else draft.snapshot.grid
    return frozenset(tier.name for tier in tiers if avoided and _is_shut(draft, tier, avoided, kept))


def _is_shut(draft: Draft, tier: ProfileTier, avoid: frozenset[str], own: frozenset[str | None]) -> bool:
    snapshot, labels = draft.snapshot, frozenset(tier.node_selector.items())
    known = [node for name in avoid | own if (node := snapshot.cluster.nodes.get(name or ""))]
    named = {node.name for node in known if has_labels(node, labels)}
    if named.isdisjoint(avoid) or len((snapshot.nodes_for(tier) | named) - avoid) >= snapshot.job.spec.trainer.nodes:
        return False
    return observation_in(draft, tier) != "Billed" or HOSTNAME in tier.node_selector


def with_others_left(
    draft: Draft, avoid: Iterable[str], own: Sequence[str | None] = (), only: ProfileTier | None = None
) -> tuple[str, ...]:
    """The nodes of `avoid`; none of them if no tier can give enough others: then waiting for others helps nobody.

    `own`, `only`: as in `shut_tiers`. A node that a person asked to leave stays avoided.
    """
    avoided, last = tuple(dict.fromkeys(avoid)), draft.status.history[-1:]
    if any(record.reason == EndReason.MOVE_REQUESTED for record in last):
        return avoided
    tiers = {only.name} if only else {tier.name for tier in draft.snapshot.grid}
    return () if tiers <= shut_tiers(draft, avoided, own, only) else avoided


def only_avoided_left(turn: Turn) -> bool:
    """True if a node that the attempt avoids could be used, and no tier has enough others, now or soon."""
    draft, attempt = turn.draft, turn.attempt
    if attempt.retry_at and turn.now < attempt.retry_at:
        return False
    if draft.snapshot.nodes_for(attempt.tier).isdisjoint(attempt.avoid_nodes):
        return False
    pods = pods_by_rank(draft.snapshot.pods, attempt).values()
    there = [pod.node for pod in pods if pod.node and not pod.ended]
    only = attempt.tier if inherited(attempt) or not draft.snapshot.grid else None
    return not with_others_left(draft, attempt.avoid_nodes, there, only)


# --- a new attempt ----------------------------------------------------------------------------------------------------


def tier_to_start(draft: Draft, avoid: tuple[str, ...] = ()) -> ProfileTier:
    """The tier of a new attempt, which must not use the nodes in `avoid`. The grid must not be empty.

    If all tiers that can give a node rest, it is the one whose rest is over first.
    """
    tiers, shut = draft.snapshot.grid, shut_tiers(draft, avoid)
    if answer := _policy_answer(draft, shut):
        return _to_try(answer, tiers)
    rests = resting(draft.status.tiers, draft.now)
    free = [tier for tier in tiers if tier.name not in shut]
    return min(free, key=lambda tier: rests.get(tier.name, draft.now), default=tiers[0])


def may_begin_on(draft: Draft, tier: ProfileTier) -> bool:
    """False if tiers are tried in their order, and the tier rests."""
    return tier.name not in resting(draft.status.tiers, draft.now) or not in_order(draft)


def other_tier(turn: Turn) -> ProfileTier | None:
    """The tier to try instead if acquireTimeout is over, the policy says so, or its tier can give it no node.

    If its tier was changed or removed since, it is one of the grid as it is now, unless pods that it took over go on:
    then the rest of the pods has its time.
    """
    draft, attempt = turn.draft, turn.attempt
    tiers, shut = draft.snapshot.grid, shut_tiers(draft, attempt.avoid_nodes)
    if not tiers or draft.snapshot.namespace_closed:
        return None
    if not offers(tiers, attempt.tier):
        waits = inherited(attempt) and not _had_its_time(turn, len(tiers))
        return None if waits else tier_to_start(draft, attempt.avoid_nodes)
    if (answer := _policy_answer(draft, shut)) is None:
        if _had_its_time(turn, len(tiers)):
            return next_tier(tiers, attempt.tier.name, shut)
        return _open_tier(tiers, attempt.tier.name, shut)
    draft.wake_in(answer.choice.again_within)
    wanted = _to_try(answer, tiers)
    if wanted.name == attempt.tier.name:  # it asks for another node of the same tier if it has avoided one
        again = bool(attempt.avoid_nodes) or gives_part_back(turn)
        return wanted if again and _had_its_time(turn, len(tiers)) else None
    if gives_part_back(turn) and _had_its_time(turn, len(tiers)):
        return wanted
    hopeless = attempt.tier.name in shut and wanted.name not in shut
    return wanted if hopeless or _may_leave(turn, answer, wanted) else None


def _open_tier(tiers: tuple[ProfileTier, ...], name: str, shut: frozenset[str]) -> ProfileTier | None:
    """The next tier after `name` that can give a node if that tier cannot; None if it can, or no tier can."""
    if name not in shut:
        return None
    place = [tier.name for tier in tiers].index(name)
    return next((tier for tier in (*tiers[place + 1 :], *tiers[:place]) if tier.name not in shut), None)


def _to_try(answer: Answer, tiers: tuple[ProfileTier, ...]) -> ProfileTier:
    """The tier that a pod should wait for: the chosen one; if the policy chose none, the one worth watching."""
    spot = next((tier.name for tier in tiers if tier.kind == "Spot"), None)
    name = answer.choice.tier or answer.probe or spot
    return find_tier(tiers, name or "") or tiers[0]


def _had_its_time(turn: Turn, tiers: int) -> bool:
    """True if the tier gave no node within its acquireTimeout, and another pod may get one."""
    attempt = turn.attempt
    if (at := attempt.acquire_deadline) is None:
        return False
    if tiers == 1 and not (attempt.avoid_nodes or gives_part_back(turn)):
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
    if not offers(draft.snapshot.grid, attempt.tier):
        changed = find_tier(draft.snapshot.grid, tier) is not None
        return f"{tier} {'was changed' if changed else 'is not in the grid any more'}", EndReason.TIER_REMOVED
    if tier in shut_tiers(draft, attempt.avoid_nodes):
        text = f"{tier} has too few nodes without those that are avoided: {', '.join(attempt.avoid_nodes)}"
        return text, EndReason.OTHER_TIER
    if part := part_of(draft, attempt):
        return f"{tier} gave {part.held} of {part.nodes} nodes in time", EndReason.ACQUIRE_TIMEOUT
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
