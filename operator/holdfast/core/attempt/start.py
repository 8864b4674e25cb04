"""From an intended attempt to a running one, suspensions, deadlines, and the silent node."""

from datetime import timedelta

from holdfast.api.attempt import Attempt, AttemptState, EndKind, PodRecord
from holdfast.api.scalars import format_duration
from holdfast.core.attempt import end, placement
from holdfast.core.attempt.pause import held_back
from holdfast.core.attempt.why_ended import End
from holdfast.core.books.history import settle_loss
from holdfast.core.capacity import knowledge
from holdfast.core.capacity.grid import acquire_timeout
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.report import Report
from holdfast.core.observe.situation import Situation, is_live


def may_begin(draft: Draft) -> bool:
    """True if there is something to begin with, and nothing holds the job back."""
    return bool(draft.snapshot.grid) and held_back(draft) is None


def brand_new(draft: Draft, s: Situation) -> bool:
    """True if the job has nothing yet, neither status nor pod, and nothing was refused."""
    snapshot = draft.snapshot
    stored = snapshot.job.status
    untouched = draft.status is stored and stored.phase is None and stored.attempt == 0
    return untouched and may_begin(draft) and not (snapshot.pods or snapshot.refusal or draft.created)


def create_first(draft: Draft, s: Situation) -> None:
    """Create the pod of attempt 1: that a job exists is the intent. Its status is written when the pod is there."""
    tier = placement.tier_to_start(draft)
    draft.create_pod(Attempt(number=1, state=AttemptState.INTENDED, tier=tier, raised_at=s.now))


def intend_first(draft: Draft, s: Situation) -> None:
    """Raise the next attempt number on the tier that the policy says."""
    if draft.status.started_at is None:  # a suspension before the first start is not one of an active job
        draft.set(started_at=s.now, suspended_for=timedelta(0))
    draft.set(current=draft.raise_attempt(placement.tier_to_start(draft)))


def may_create(draft: Draft, s: Situation) -> bool:
    """True if the intended pod may be created now: its delay is over and no other pod of the job lives."""
    attempt = draft.attempt
    if attempt.retry_at and s.now < attempt.retry_at:
        draft.wake(attempt.retry_at)
        return False
    return alone(draft)


def alone(draft: Draft) -> bool:
    """True if no pod of another attempt lives, but for the one that a successor is to follow."""
    known = {one.number for one in (draft.status.current, draft.attempt) if one}
    others = (pod for pod in draft.snapshot.pods if pod.attempt not in known)
    return not any(is_live(draft.status, pod) and not _outlived(draft, pod) for pod in others)


def _outlived(draft: Draft, pod: PodView) -> bool:
    """True if a pod of an attempt that is over is still there long after its grace, and the fence makes it harmless."""
    if pod.deleted_at is None or not draft.status.library:
        return False
    at = pod.deleted_at + draft.snapshot.config.end_margin
    if draft.now < at:
        draft.wake(at)
    return draft.now >= at


def create(draft: Draft, s: Situation) -> None:
    """The intent is in status: create the pod."""
    draft.set_attempt(predecessor=None)  # what it was to follow, had its pod not been refused, is over
    acquire(draft, s)
    draft.create_pod(draft.attempt)
    draft.wake(s.now + draft.snapshot.config.missing_after)
    draft.say("Acquire", f"waiting for a node of tier {draft.attempt.tier.name}")


def create_beside(draft: Draft, s: Situation) -> None:
    """Create the pod of a successor: it waits at the fence for the attempt that trains."""
    if draft.status.current is None:
        raise AssertionError("a successor follows an attempt")
    draft.set_attempt(predecessor=draft.status.current.number)
    acquire(draft, s)
    draft.create_pod(draft.attempt)
    draft.wake(s.now + draft.snapshot.config.missing_after)


def acquire(draft: Draft, s: Situation) -> None:
    """The pod is on its way to a node, and has as long as its tier allows."""
    attempt = draft.attempt
    timeout = acquire_timeout(attempt.tier, draft.snapshot.cluster, draft.snapshot.config)
    deadline = attempt.acquire_deadline or s.now + timeout
    draft.set_attempt(state=AttemptState.ACQUIRING, created_at=s.now, acquire_deadline=deadline, retry_at=None)


def missing(draft: Draft, s: Situation) -> bool:
    """True if the pod is missing for longer than our view of the cluster may lag behind our own writes."""
    at = (draft.attempt.created_at or draft.attempt.raised_at) + draft.snapshot.config.missing_after
    if s.now < at:
        draft.wake(at)
    return s.now >= at


def raise_again(draft: Draft, s: Situation) -> None:
    """The pod should exist and does not: created by an earlier leader and lost, or never? Numbers are cheap."""
    attempt = draft.attempt
    again = draft.raise_attempt(attempt.tier, avoid=attempt.avoid_nodes)
    kept = {"acquire_deadline": attempt.acquire_deadline, "replaced": attempt.replaced}
    draft.put_attempt(again.model_copy(update=kept))


def replace_deleted(draft: Draft, s: Situation) -> None:
    """Somebody deleted the pod before it had a node: make another, later each time, for they may do it again."""
    times = draft.attempt.replaced + 1
    delay = end.backoff(timedelta(seconds=1), draft.snapshot.config.backoff_limit, times)
    raise_again(draft, s)
    draft.set_attempt(replaced=times, retry_at=s.now + delay)
    text = f"somebody deleted the pod before it had a node; another is made in {format_duration(delay)}"
    draft.say("Wait", text)
    draft.event("PodReplaced", text, warning=True)


def refused(draft: Draft, s: Situation) -> bool:
    """True if the API server refused this attempt's pod and that has not been dealt with."""
    refusal = draft.snapshot.refusal
    return refusal is not None and refusal.attempt == draft.attempt.number and not draft.refusal_handled


def note_refusal(draft: Draft, s: Situation) -> None:
    """Quota, LimitRange, PodSecurity or a webhook refused the pod: wait with their words, longer each time."""
    refusal, attempt, config = draft.snapshot.refusal, draft.attempt, draft.snapshot.config
    if refusal is None:
        raise AssertionError("a refusal is noted only if there is one")
    draft.refusal_handled = True
    if refusal.status == 422 and draft.role is Role.CURRENT:  # the pod itself is invalid: it never will be accepted
        end.over(draft, s, End(EndKind.MISCONFIGURED, "PodInvalid", refusal.message))
        return
    if refusal.reason == "NameTaken":
        raise_again(draft, s)
        return
    times = attempt.refusals + 1
    delay = end.backoff(timedelta(seconds=1), config.backoff_limit, times)
    draft.set_attempt(state=AttemptState.INTENDED, refusals=times, retry_at=s.now + delay)
    if draft.role is Role.CURRENT:
        draft.set(reason="PodRefused")
        draft.say("Wait", f"the pod was refused: {refusal.message[:512]}")
    draft.event("PodRefused", refusal.message, warning=True)


def placed(draft: Draft, s: Situation) -> None:
    """The pod is on a node."""
    attempt = note_placed(draft, s)
    draft.say("Start", f"{attempt.tier.name} gave node {attempt.pods[0].node}")


def note_placed(draft: Draft, s: Situation) -> Attempt:
    """Write down where the pod is."""
    pod, attempt, since = s.pod, draft.attempt, placement.up_since(draft, draft.attempt)
    if pod is None:
        raise AssertionError("a placed pod is seen")
    draft.set_attempt(
        state=AttemptState.STARTING,
        pods=(_pod_record(pod, s),),
        created_at=pod.created_at,
        scheduled_at=s.clamp_time(pod.scheduled_at, attempt.raised_at),
    )
    made = s.node.created_at if s.node else None
    draft.set(tiers=knowledge.record_node(draft.status.tiers, draft.attempt, made, since))
    return draft.attempt


def running(draft: Draft, s: Situation) -> None:
    """The trainer runs."""
    attempt, node = note_running(draft, s), s.pod.node if s.pod else None
    draft.say("Run", f"running on {node} ({attempt.tier.name})")
    draft.event("Running", f"attempt {attempt.number} runs on {node} ({attempt.tier.name})")


def note_running(draft: Draft, s: Situation) -> Attempt:
    """Write down since when the trainer runs."""
    pod = s.pod
    if pod is None or pod.trainer is None:
        raise AssertionError("a running pod is seen")
    started = s.clamp_time(pod.trainer.started_at, draft.attempt.scheduled_at or draft.attempt.raised_at)
    draft.set_attempt(state=AttemptState.RUNNING, started_at=started, pods=(_pod_record(pod, s),))
    return draft.attempt


def _pod_record(pod: PodView, s: Situation) -> PodRecord:
    return PodRecord(rank=pod.rank, uid=pod.uid, node=pod.node, node_uid=s.node.uid if s.node else None)


def learned(s: Situation) -> bool:
    """True if the trainer said something that changes decisions: it holds the fence, or it made its first step."""
    attempt, report = s.attempt, s.report
    if attempt is None or report is None:
        return False
    first = report.first_step is not None and attempt.first_step is None
    return first or (report.fenced and not attempt.fenced)


def learn(draft: Draft, s: Situation) -> None:
    """Write it down; with its first step the cost of the last interruption is known."""
    attempt, report = draft.attempt, s.report
    if report is None:
        raise AssertionError("one learns from a report")
    if report.first_step is not None and attempt.first_step is None:
        _first_step(draft, s, report)
    draft.set_attempt(fenced=attempt.fenced or report.fenced)
    draft.set(library=draft.status.library or report.fenced)


def _first_step(draft: Draft, s: Situation, report: Report) -> None:
    attempt = draft.attempt
    at = s.clamp_time(report.first_step_at, attempt.started_at or attempt.scheduled_at or attempt.raised_at)
    draft.set_attempt(
        first_step=report.first_step,
        last_step=report.step,
        last_step_at=report.step_at,
        progress_at=at,
        resumed_step=report.resumed_step,
    )
    draft.set(tiers=knowledge.record_first_step(draft.status.tiers, draft.attempt))
    settle_loss(draft, at, report.resumed_step)
    draft.set(fruitless_losses=0)
    if report.resumed_step is not None:
        note = f" ({report.resume_note})" if report.resume_note else ""
        draft.event("Resumed", f"attempt {draft.attempt.number} resumed at step {report.resumed_step}{note}")


def acquire_over(draft: Draft, s: Situation) -> bool:
    """True if another tier is to be tried: this one had its time without giving a node, or left the grid."""
    return placement.elsewhere(draft, s) is not None


def start_over(draft: Draft, s: Situation) -> bool:
    """True if the trainer should have started long ago."""
    at = (draft.attempt.scheduled_at or s.now) + draft.snapshot.config.start_timeout
    if s.now < at:
        draft.wake(at)
    return s.now >= at
