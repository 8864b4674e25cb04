"""Pods that are there before status knows of them: the very first, those that were promised, those of a lost status."""

from datetime import timedelta

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.profile import ProfileTier
from holdfast.core.attempt import start
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Situation, pod_of
from holdfast.core.pod_manifest import program


def unknown_pods(draft: Draft, s: Situation) -> bool:
    """True if pods exist although status knows of no attempt: the first one, or all of a status that was lost."""
    return draft.status.attempt == 0 and bool(draft.snapshot.pods)


def take_up(draft: Draft, s: Situation) -> None:
    """The first pod is attempt 1. Other pods are of attempts that are over.

    So is a first pod that waits for a node of a tier that has gone. If it has its node it is taken up all the same, for
    what it costs has to be in the books; of its tier only the name is known.
    """
    newest = max(draft.snapshot.pods, key=lambda pod: pod.attempt)
    draft.set(attempt=newest.attempt)
    if newest.attempt == 1 and (attempt := _of_pod(draft, newest)):
        draft.set(started_at=attempt.raised_at, suspended_for=timedelta(0), current=attempt)


def _of_pod(draft: Draft, pod: PodView) -> Attempt | None:
    """The attempt that a pod must be of, Intended; None if it waits for a node of a tier that has gone."""
    tier = find_tier(draft.snapshot.grid, pod.tier)
    if tier is None and pod.node and pod.tier:
        tier = ProfileTier(name=pod.tier, kind="Spot")
    since = min(pod.created_at or draft.now, draft.now)
    return Attempt(number=pod.attempt, state=AttemptState.INTENDED, tier=tier, raised_at=since) if tier else None


def promised_pod(draft: Draft, s: Situation) -> bool:
    """True if there is a pod of the next number: a leader promised it, and died before status said so."""
    return draft.status.library and draft.status.successor is None and _next_pod(draft) is not None


def _next_pod(draft: Draft) -> PodView | None:
    number = draft.status.attempt + 1
    return next((pod for pod in draft.snapshot.pods if pod.attempt == number), None)


def take_over(draft: Draft, s: Situation) -> None:
    """It is the next attempt: needed still, or given up as any other, with what it cost in the books."""
    pod = _next_pod(draft)
    if pod is None:
        raise AssertionError("only a pod that is seen is taken over")
    attempt = _of_pod(draft, pod)
    draft.set(attempt=pod.attempt)
    if attempt is None:
        return
    attempt = attempt.model_copy(update={"predecessor": pod.attempt - 1})  # it may wait for the one before it
    if draft.status.current is None:
        draft.set(current=attempt)
    else:
        draft.set(successor=attempt)
        draft.role = Role.SUCCESSOR
        start.acquire(draft, s)


def there_already(draft: Draft, s: Situation) -> bool:
    """True if the pod of an intended attempt exists, and no other pod of the job lives."""
    return pod_of(draft.snapshot, draft.attempt) is not None and start.alone(draft)


def adopt(draft: Draft, s: Situation) -> None:
    """The pod was promised, or its POST only seemed to fail: go on with what it does, whatever delay was meant for it.

    It was made from the job as it looked then. If the user has changed the program since, it is not this job's pod.
    """
    pod = pod_of(draft.snapshot, draft.attempt)
    if pod is None:
        raise AssertionError("only a pod that is seen is adopted")
    if pod.program and pod.program != program(draft.snapshot.job):
        start.raise_again(draft, s)
    else:
        if draft.attempt.predecessor is not None:  # it waits for an attempt that is over
            draft.set_attempt(go=draft.next_order())
        start.acquire(draft, s)
        draft.say("Acquire", f"waiting for a node of tier {draft.attempt.tier.name}")
