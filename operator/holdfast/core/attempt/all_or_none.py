"""A training on several nodes has all of its nodes, or none: it begins when they are free, and never keeps a part.

Where the cluster's nodes are all that there is, its pods are created once a free node is there for each of them
(`core.observe.room`). Where an autoscaler may bring nodes, they are created at once: it acts only on pods that wait. A
training that would be whole with the parts of others waits for these, and they are given back within seconds. In all
cases the operator gives back a part that does not become whole, after a time of its own that no tenant can choose, and
tries again after a growing pause. So two trainings that each have a part both let go, and the one whose pause is
shorter gets all.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.knowledge import Observation
from holdfast.api.profile import ProfileTier
from holdfast.core.attempt.delays import CREATION, backoff, spread
from holdfast.core.books import ledger
from holdfast.core.capacity.grid import acquire_timeout, may_get_pods, offers
from holdfast.core.capacity.knowledge import find_observation
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.members import inherited, is_waiting, pods_by_rank
from holdfast.core.observe.room import ask_of, part_limit
from holdfast.core.turn import Turn, take_turn

HOSTNAME: Final = "kubernetes.io/hostname"  # a selector with this label matches no node that an autoscaler brings
LOOK_AGAIN: Final = timedelta(minutes=5)  # a training that waits for room is woken when there is some


class Lack(NamedTuple):
    """How many nodes an attempt lacks, and how many of them it could take now; others may go first."""

    nodes: int
    free: int
    taken: int


class Part(NamedTuple):
    """How many of its nodes an attempt has."""

    held: int
    nodes: int


def is_fixed(draft: Draft, tier: ProfileTier) -> bool:
    """True if nothing brings more nodes of the tier: it is known to have no autoscaler, or names one node."""
    return observation_in(draft, tier) == "Free" or HOSTNAME in tier.node_selector


def has_too_few(draft: Draft, tier: ProfileTier, nodes: int) -> bool:
    """True if the tier has fewer nodes for the job than that, free or not, and nothing brings more."""
    return is_fixed(draft, tier) and len(draft.snapshot.nodes_ever_for(tier)) < nodes


def observation_in(draft: Draft, tier: ProfileTier) -> Observation | None:
    """What is known of how the tier's nodes come: from the tier itself, from this job, or from its profile."""
    return find_observation(tier, draft.status.tiers, draft.snapshot.profile)


# --- room for all -----------------------------------------------------------------------------------------------------


def lack_of_room(draft: Draft, attempt: Attempt) -> Lack | None:
    """What an attempt lacks before it may create its pods; None if it may.

    One that took over pods creates the others at once: the pods that wait with their memory cost more than a try.
    Where an autoscaler may bring nodes, too few free nodes are no lack. Where enough are free, and others go first, it
    waits for these: they take their nodes within seconds. It also waits if it would have all of its nodes with those
    of trainings that have a part: these give them back within seconds, unless an autoscaler is seen to bring more. And
    its pods take no nodes from a training that waits, and has all of its nodes with them.
    """
    if not is_waiting(attempt) or inherited(attempt):
        return None
    snapshot = draft.snapshot
    ask = ask_of(snapshot.job, attempt, snapshot.pods, snapshot.config)
    alone, free = len(snapshot.room.free(ask.shape) - ask.closed), max(snapshot.room.left_for(ask, draft.now), 0)
    if free >= ask.lacks:
        return None
    waits = is_fixed(draft, attempt.tier) or snapshot.room.suffices_with_parts(ask)
    if alone < ask.lacks and not (waits or snapshot.room.others_suffice(ask, draft.now)):
        return None
    return Lack(ask.lacks, free, alone - free)


def is_paused(draft: Draft, attempt: Attempt) -> bool:
    """True if the attempt must not begin yet. A pause because nodes are missing ends early if there is room for all."""
    if attempt.retry_at is None or draft.is_due(attempt.retry_at):
        return False
    if not is_waiting(attempt):
        return True
    snapshot = draft.snapshot
    ask = ask_of(snapshot.job, attempt, snapshot.pods, snapshot.config)
    early = ask.not_before is not None and draft.is_due(ask.not_before)
    return not early or snapshot.room.left_for(ask, draft.now) < ask.lacks


def lacks_room(turn: Turn) -> Lack | None:
    """What the attempt lacks if its pods wait to be created, and it does not wait yet."""
    attempt = turn.attempt
    if attempt.waits_since is not None or (attempt.retry_at and turn.now < attempt.retry_at):
        return None
    return lack_of_room(turn.draft, attempt)


def wait(turn: Turn, _lack: Lack) -> None:
    """Wait for room; the time that the tier has to give nodes runs meanwhile."""
    attempt, snapshot = turn.attempt, turn.draft.snapshot
    limit = turn.now + acquire_timeout(attempt.tier, snapshot.cluster, snapshot.config)
    turn.set_attempt(waits_since=attempt.raised_at, acquire_deadline=attempt.acquire_deadline or limit)


def waiting_for(draft: Draft) -> str | None:
    """What the current attempt waits for, in words, if it waits for room; otherwise None."""
    turn = take_turn(draft, Role.CURRENT)
    if turn is None or turn.attempt.state is not AttemptState.INTENDED or turn.attempt.waits_since is None:
        return None
    if not may_get_pods(draft.snapshot.grid, turn.attempt):
        return None  # it waits for a grid
    if (lack := lack_of_room(draft, turn.attempt)) is None:
        return None
    fixed, uid = is_fixed(draft, turn.attempt.tier), draft.snapshot.job.metadata.uid
    again = LOOK_AGAIN if fixed else draft.snapshot.config.placing_timeout
    draft.wake_in((again + spread(again, uid)).total_seconds())
    others = "; others go first on nodes that are free" if lack.taken else ""
    return f"waits until {lack.nodes} nodes of tier {turn.attempt.tier.name} are free: {lack.free} are{others}"


# --- a part that does not become whole --------------------------------------------------------------------------------


def part_of(draft: Draft, attempt: Attempt) -> Part | None:
    """What an attempt has if it has some of its nodes, and not all; otherwise None."""
    if not is_waiting(attempt):
        return None
    held = len(_held(draft, attempt))
    return Part(held, attempt.nodes) if 0 < held < attempt.nodes else None


def _held(draft: Draft, attempt: Attempt) -> list[str]:
    """The nodes that the attempt's pods have."""
    pods = pods_by_rank(draft.snapshot.pods, attempt).values()
    return [pod.node for pod in pods if pod.node and not pod.ended]


def held_too_long(turn: Turn) -> Part | None:
    """The part if the rest of the nodes does not come within the time that the operator allows for it.

    Pods that were taken over stay, since their programs start warm, while the others may be created, the tier may have
    nodes for all of them, and no other training waits for theirs.
    """
    draft, attempt = turn.draft, turn.attempt
    part, since = part_of(draft, attempt), _held_since(turn)
    if part is None or since is None or not draft.is_due(since + _limit(turn)):
        return None
    if _is_refused(attempt) or not may_stay(draft, attempt):
        return part
    draft.wake_in(draft.snapshot.config.placing_timeout.total_seconds())  # others may wait then, or nodes be gone
    return None


def _held_since(turn: Turn) -> datetime | None:
    """Since when the attempt waits for the rest, however often pods were created, refused or deleted meanwhile.

    Pods that it took over had their nodes before.
    """
    attempt, pods = turn.attempt, pods_by_rank(turn.draft.snapshot.pods, turn.attempt).values()
    placed = (pod.scheduled_at for pod in pods if pod.attempt == attempt.number)
    own = (max(at, attempt.raised_at) for at in (attempt.created_at, *placed) if at)
    return min((*own, *filter(None, [attempt.inherited_at])), default=None)


def _is_refused(attempt: Attempt) -> bool:
    """True if the API server does not let the attempt have all of its pods now, such as because of a quota."""
    return attempt.state is AttemptState.INTENDED and attempt.refusals > 0


def _limit(turn: Turn) -> timedelta:
    """How long a part may be held: longer where nodes have to come for pods that exist, otherwise seconds.

    An autoscaler that may be there is hoped for only while the part is of no use to another training, and parts of
    others are of no use to this one. The job is decided again when that may have changed.
    """
    draft, attempt = turn.draft, turn.attempt
    config, longest = draft.snapshot.config, draft.snapshot.config.unmatched_acquire_timeout
    nominated = any(pod.nominated for pod in pods_by_rank(draft.snapshot.pods, attempt).values())
    ask = ask_of(draft.snapshot.job, attempt, draft.snapshot.pods, config)
    short = draft.snapshot.room.must_give_back(ask, draft.now) or (is_fixed(draft, attempt.tier) and not nominated)
    if _is_refused(attempt) or short:
        return part_limit(attempt, config) + (attempt.nodes - 1) * CREATION
    return min(acquire_timeout(attempt.tier, draft.snapshot.cluster, config), longest)


def give_back(turn: Turn, part: Part) -> None:
    """Give all pods back, and try again after a pause that is longer each time."""
    draft, attempt = turn.draft, turn.attempt
    times = attempt.given_back + 1
    pause = pause_after_giving_back(draft, attempt, times, attempt.tier)
    again = draft.raise_attempt(attempt.tier, avoid=attempt.avoid_nodes)
    turn.replace_attempt(
        again.model_copy(
            update={
                "retry_at": max(draft.now + pause, attempt.retry_at or draft.now),
                "refusals": attempt.refusals,
                "acquire_deadline": attempt.acquire_deadline,
                "given_back": times,
                **ledger.held_before(attempt, turn.pods, turn.now),
            }
        )
    )
    text = f"tier {attempt.tier.name} gave {part.held} of {part.nodes} nodes, and not the rest: all are given back"
    if not _is_refused(attempt):  # otherwise the words of the refusal stay: they say what has to change
        draft.explain("Wait", text)
    draft.event("PartGivenBack", text)


def gives_part_back(turn: Turn) -> bool:
    """True if the attempt holds a part of its nodes that it must give back once its tier has had its time.

    One that took pods over keeps them on its only tier while it may become whole there, and no other training waits.
    """
    draft, attempt = turn.draft, turn.attempt
    if part_of(draft, attempt) is None:
        return False
    grid = draft.snapshot.grid
    other = len(grid) > 1 or not offers(grid, attempt.tier)
    return other or not may_stay(draft, attempt)


def may_stay(draft: Draft, attempt: Attempt) -> bool:
    """True if pods were taken over, their tier may have nodes for all, and no other training waits for theirs."""
    if not inherited(attempt) or has_too_few(draft, attempt.tier, attempt.nodes):
        return False
    return not draft.snapshot.room.is_wanted(_held(draft, attempt), draft.snapshot.job.metadata.uid, draft.now)


def pause_after_giving_back(draft: Draft, attempt: Attempt, times: int, tier: ProfileTier) -> timedelta:
    """How long a training pauses after it gave nodes back: longer each time, and not the same for two trainings.

    Where the tier has fewer nodes than it needs, only an autoscaler can help: then the pauses grow longer. If the same
    tier is tried next (`tier`), and no autoscaler is known, the second pause is as long as the tier has just had, or
    longer: so nodes that do not suffice are not held most of the time. The first one is short. An autoscaler that was
    too slow has the next try too, and does not remove its nodes meanwhile.
    """
    config, uid = draft.snapshot.config, draft.snapshot.job.metadata.uid
    base, longest = config.backoff_base, config.backoff_limit
    if len(draft.snapshot.nodes_ever_for(attempt.tier)) < attempt.nodes:
        longest = config.outage_backoff_limit
        if times > 1 and tier.name == attempt.tier.name and observation_in(draft, tier) is None:
            base = max(base, draft.now - (attempt.created_at or draft.now))
    return spread(backoff(base, longest, times), f"{uid} {times}")
