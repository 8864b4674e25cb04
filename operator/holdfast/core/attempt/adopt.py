"""Pods that exist before status has their attempt: the very first pod, a promised pod, the pods of a lost status."""

from datetime import timedelta

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.profile import ProfileTier
from holdfast.core.attempt import start
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft
from holdfast.core.made_from import MadeFrom, hash_of
from holdfast.core.observe.look import pod_of
from holdfast.core.observe.pods import PodView
from holdfast.core.turn import Turn


def newest_unknown_pod(draft: Draft) -> PodView | None:
    """The newest pod if pods exist and status has no attempt: it is the first pod, or status was lost."""
    if draft.status.attempt != 0:
        return None
    return max(draft.snapshot.pods, key=lambda pod: pod.attempt, default=None)


def take_up(draft: Draft, newest: PodView) -> None:
    """Make the first pod attempt 1. Other pods are of attempts that are over.

    A first pod that waits for a node of a removed tier is over too. One that has its node is taken up all the same,
    because its cost has to be in the books; only the name of its tier is known.
    """
    draft.set(attempt=newest.attempt)
    if not newest.outlives and newest.attempt == 1 and (attempt := _of_pod(draft, newest)):
        draft.set(started_at=attempt.raised_at, suspended_for=timedelta(0), current=attempt)


def _of_pod(draft: Draft, pod: PodView) -> Attempt | None:
    """The attempt of a pod, Intended; None if the pod waits for a node of a tier that was removed."""
    tier = find_tier(draft.snapshot.grid, pod.tier)
    if tier is None and pod.node and pod.tier:
        tier = ProfileTier(name=pod.tier, kind="Spot")
    since = min(pod.created_at or draft.now, draft.now)
    if tier is None:
        return None
    fields = draft.made_from
    return Attempt(number=pod.attempt, state=AttemptState.INTENDED, tier=tier, raised_at=since, made_from=fields)


def promised_pod(draft: Draft) -> PodView | None:
    """The pod if a pod of the next number exists: a leader promised it, and died before it wrote status."""
    if not draft.is_program_fenced or draft.status.successor is not None:
        return None
    number = draft.status.attempt + 1
    return next((pod for pod in draft.snapshot.pods if pod.attempt == number), None)


def take_over(draft: Draft, pod: PodView) -> None:
    """Make the pod's attempt the next one. If it is not needed it is given up like any other, with its cost booked.

    One of several pods is deleted, because nothing says beside which other pods it was to work.
    """
    attempt = _of_pod(draft, pod)
    draft.set(attempt=pod.attempt)
    if attempt is None or pod.outlives:
        return
    # It may wait for the one before it.
    attempt = attempt.model_copy(update={"predecessor": pod.attempt - 1, "made_from": _made_from(attempt, pod)})
    if draft.status.current is None:
        draft.set(current=attempt)
    else:
        draft.set(successor=start.acquiring(draft, attempt))


def _made_from(attempt: Attempt, pod: PodView) -> MadeFrom:
    """What the attempt is made from if that is its pod; empty if the pod is made from something else."""
    return attempt.made_from if pod.made_from == hash_of(attempt.made_from) else ()


def pod_to_adopt(turn: Turn) -> PodView | None:
    """The pod if the attempt's only pod exists already, and no other pod of the job lives."""
    if turn.attempt.nodes > 1:
        return None
    pod = pod_of(turn.draft.snapshot, turn.attempt)
    return pod if pod is not None and start.no_other_pod_lives(turn) else None


def adopt(turn: Turn, pod: PodView) -> None:
    """Go on with a pod that was promised, or whose POST only seemed to fail; a delay that was set does not count.

    The pod was made from the job of that time. If the user has changed the job since, the attempt has to leave.
    """
    draft = turn.draft
    turn.set_attempt(made_from=_made_from(turn.attempt, pod))
    if turn.attempt.predecessor is not None:  # it waits for an attempt that is over
        turn.set_attempt(go=draft.next_order())
    turn.replace_attempt(start.acquiring(draft, turn.attempt))
    draft.explain("Acquire", f"waiting for a node of tier {turn.attempt.tier.name}")
