"""An attempt is over: it goes from `current` into history, is counted once, and what comes next is decided."""

from datetime import datetime, timedelta

from holdfast.api.attempt import Attempt, AttemptRecord, AttemptState, EndKind
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import format_duration
from holdfast.api.status import Phase
from holdfast.core.attempt.pause import held_back
from holdfast.core.attempt.placement import ask, elsewhere, idle_room, in_order, tier_to_start, view_of
from holdfast.core.attempt.why_ended import MESSAGE_LIMIT, STORAGE_BROKEN, End, classify
from holdfast.core.books.history import append
from holdfast.core.books.ledger import charge
from holdfast.core.capacity import knowledge
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.situation import Situation

# A program that reports no steps has made progress if it ran this long.
PROGRESS_WITHOUT_STEPS = timedelta(minutes=5)


def end_seen(draft: Draft, s: Situation) -> None:
    """The pod ended and we know how."""
    if s.pod is None:
        raise AssertionError("an end is seen on a pod")
    end = classify(s.pod, draft.attempt.drain)
    finished = s.pod.trainer.ended_at if s.pod.trainer else None
    over(draft, s, end, ended_at=finished)


def vanished(draft: Draft, s: Situation) -> None:
    """The pod is gone."""
    _unseen(draft, s, "PodGone", "the pod is gone and its end was not seen")


def forced(draft: Draft, s: Situation) -> None:
    """The node is silent, and a person or the garbage collector deleted the pod with a grace of 0.

    Kubernetes takes that as the word of somebody who knows that nothing runs there; only our finalizer holds the pod.
    """
    _unseen(draft, s, "PodGone", "the pod was deleted by force while its node was silent")


def node_gone(draft: Draft, s: Situation) -> None:
    """The Node object is gone, and the pod with it."""
    _unseen(draft, s, "NodeGone", f"node {_node(draft.attempt)} is gone")


def node_silent(draft: Draft, s: Situation) -> None:
    """The node is silent and the storage fence makes its pod harmless: count it as lost and go on elsewhere."""
    _unseen(draft, s, "NodeSilent", f"node {_node(draft.attempt)} stopped answering")


def never_started(draft: Draft, s: Situation) -> None:
    """A node was found, but the trainer did not start in time."""
    limit = format_duration(draft.snapshot.config.start_timeout)
    end = End(EndKind.LOSS, "StartTimeout", f"the trainer did not start within {limit}", infrastructure=True)
    over(draft, s, end)


def never_passed(draft: Draft, s: Situation) -> None:
    """It may still wait at the fence for an attempt that is over; no order reaches it."""
    text = "nothing was heard of it since it may pass the fence"
    over(draft, s, End(EndKind.LOSS, "Unreachable", text, infrastructure=True))


def never_ended(draft: Draft, s: Situation) -> None:
    """The pod outlived its grace by far; the fence makes it harmless."""
    _unseen(draft, s, "NeverEnded", "the pod did not end within its grace period")


def _unseen(draft: Draft, s: Situation, reason: str, message: str) -> None:
    """Count an end that nobody saw: a loss, unless the attempt had been told to leave; then for that reason."""
    drain = draft.attempt.drain
    end = End(drain.kind, drain.reason, drain.message) if drain else End(EndKind.LOSS, reason, message)
    over(draft, s, end, estimated=True)


def over(draft: Draft, s: Situation, end: End, *, ended_at: datetime | None = None, estimated: bool = False) -> None:
    """Record the end of the current attempt, count it, and decide what comes next."""
    attempt = draft.attempt
    progressed = made_progress(attempt, s)
    _close(draft, s, end, ended_at=ended_at, estimated=estimated)
    draft.set(current=None)
    draft.event(f"Attempt{end.kind}", _sentence(attempt, end), warning=end.kind in _BAD)
    match end.kind:
        case EndKind.COMPLETED:
            finish(draft, Phase.COMPLETED, end.reason, end.message or "training is complete")
        case EndKind.MISCONFIGURED:
            finish(draft, Phase.FAILED, end.reason, end.message)
        case EndKind.FAILURE:
            _count_failure(draft, attempt, end)
        case EndKind.LOSS:
            _count_loss(draft, attempt, end, progressed=progressed)
        case EndKind.STOPPED:
            go_on(draft, attempt)


def go_on(draft: Draft, after: Attempt, *, delay: timedelta | None = None, avoid: tuple[str, ...] = ()) -> None:
    """Make the successor current, or intend a new attempt where the policy says; nothing while it is held back."""
    if hold := held_back(draft):
        drop_successor(draft, hold)
        return
    retry_at = draft.now + delay if delay else None
    if (successor := draft.status.successor) and successor.state is not AttemptState.INTENDED:
        _promote(draft, successor)
        return
    if successor:
        merged = tuple(dict.fromkeys((*successor.avoid_nodes, *avoid)))
        promoted = successor.model_copy(update={"retry_at": retry_at, "avoid_nodes": merged})
        draft.set(current=promoted, successor=None)
    elif draft.snapshot.grid:
        draft.set(current=draft.raise_attempt(tier_to_start(draft), retry_at=retry_at, avoid=avoid))
    if delay and draft.status.current:
        reason = draft.status.history[-1].reason
        draft.say("Wait", f"attempt {after.number} ended ({reason}); the next starts in {format_duration(delay)}")


def _promote(draft: Draft, successor: Attempt) -> None:
    """The successor's pod is there already: it is the current attempt now, and may pass the fence."""
    go = successor.go if successor.go is not None else draft.next_order()
    draft.set(current=successor.model_copy(update={"go": go}), successor=None)
    where = f" on {node}" if (node := _node(successor)) else ""
    text = f"attempt {successor.number} goes on ({successor.tier.name}{where})"
    if successor.state is AttemptState.ACQUIRING:
        text = f"attempt {successor.number} is next; it waits for a node of tier {successor.tier.name}"
    draft.say("Run" if successor.state is AttemptState.RUNNING else "Acquire", text)
    draft.event("Switched", text)


def drop_successor(draft: Draft, end: End | str, *, ended_at: datetime | None = None, estimated: bool = False) -> None:
    """Give the successor up, if there is one: upkeep deletes its pod. If it had a node, that goes into the books.

    `end` says why; a word stands for something that was decided, and counts as nothing.
    """
    if draft.status.successor is None:
        return
    end = End(EndKind.STOPPED, end) if isinstance(end, str) else end
    role, draft.role = draft.role, Role.SUCCESSOR
    s = draft.look(Role.SUCCESSOR)
    if _scheduled(draft.attempt, s) is None:
        asking = draft.snapshot.config.assumed.acquire_time
        draft.set(tiers=knowledge.record_sight(draft.status.tiers, draft.attempt, asking, draft.now))
    else:
        _close(draft, s, end, ended_at=ended_at, estimated=estimated)
        restarts = draft.status.restarts
        if end.kind is EndKind.LOSS:
            counts = {
                "losses": restarts.losses + 1,
                "infrastructure": restarts.infrastructure + int(end.infrastructure),
            }
            draft.set(restarts=restarts.model_copy(update=counts))
    draft.put_attempt(None)
    draft.role = role


def to_next_tier(draft: Draft, s: Situation) -> None:
    """The tier gave no node in time, or is not in the grid any more, or another is better: give its pod up for that."""
    attempt, tiers, other = draft.attempt, draft.snapshot.grid, elsewhere(draft, s)
    if other is None:
        raise AssertionError("a pod is given up for another tier")
    gone = find_tier(tiers, attempt.tier.name) is None
    why = s.pod.unscheduled_message if s.pod else (draft.status.decision.reason if draft.status.decision else "")
    words, reason = _why_not(draft, attempt, gone=gone)
    # A node is avoided for one walk of the grid: it may be the only one that there is.
    walked = other.name == (tiers[0].name if in_order(draft) else attempt.tier.name)
    _close(draft, s, End(EndKind.STOPPED, reason, why))
    avoid = attempt.avoid_nodes if gone or not walked else ()
    draft.set(current=draft.raise_attempt(other, retry_at=attempt.retry_at if gone else None, avoid=avoid))
    draft.say("Acquire", f"{words}; trying {other.name}")
    draft.event("TierChanged", f"{words}; trying {other.name}")


def _why_not(draft: Draft, attempt: Attempt, *, gone: bool) -> tuple[str, str]:
    """Why an attempt that waits for a node is given up, in words and in one word."""
    tier = attempt.tier.name
    if gone:
        return f"{tier} is not in the grid any more", "TierRemoved"
    answer = None if in_order(draft) else ask(draft)
    if answer is None:
        return f"{tier} gave no node in time", "AcquireTimeout"
    seen = view_of(answer, tier)
    out = seen is not None and seen.available is False
    return answer.choice.reason, "AcquireTimeout" if out else "OtherTier"


def retarget(draft: Draft, s: Situation, tier: ProfileTier, reason: str, avoid: tuple[str, ...] = ()) -> None:
    """Give up an attempt that has not started on a node yet, for another tier."""
    _close(draft, s, End(EndKind.STOPPED, reason))
    draft.set(current=draft.raise_attempt(tier, avoid=avoid))


def stop_before_start(draft: Draft, s: Situation, reason: str) -> None:
    """Give up an attempt that has not started on a node yet, for nothing: no loss is counted."""
    drop_successor(draft, reason)
    _close(draft, s, End(EndKind.STOPPED, reason))
    draft.set(current=None)


def give_up(draft: Draft, s: Situation, reason: str, message: str) -> None:
    """End the job as Failed although its attempt may still run; upkeep deletes the pod, which saves and leaves."""
    if draft.status.current:
        _close(draft, s, End(EndKind.STOPPED, reason, message))
    finish(draft, Phase.FAILED, reason, message)


def finish(draft: Draft, phase: Phase, reason: str, message: str) -> None:
    """Enter a final phase."""
    drop_successor(draft, "NotNeeded")
    draft.set(phase=phase, reason=reason, current=None, finished_at=draft.now)
    draft.say("Finish", f"{reason}: {message}"[:MESSAGE_LIMIT])
    draft.event(f"Job{phase}", f"{reason}: {message}", warning=phase is Phase.FAILED)


_BAD = (EndKind.LOSS, EndKind.FAILURE, EndKind.MISCONFIGURED)


def made_progress(attempt: Attempt, s: Situation) -> bool:
    """True if the attempt computed a step of its own, or, saying nothing of steps, ran for a while."""
    if attempt.first_step is not None:
        return True
    started, trainer = _started(attempt, s), s.pod.trainer if s.pod else None
    until = min((trainer.ended_at if trainer else None) or s.now, s.now)
    return not attempt.fenced and started is not None and until - started >= PROGRESS_WITHOUT_STEPS


def backoff(base: timedelta, limit: timedelta, times: int) -> timedelta:
    """base, 2 base, 4 base … up to limit; `times` counts from 1."""
    doubled: timedelta = base * 2 ** min(times - 1, 30)
    return min(doubled, limit)


def _count_failure(draft: Draft, attempt: Attempt, end: End) -> None:
    rules, restarts, config = draft.snapshot.job.spec.failure, draft.status.restarts, draft.snapshot.config
    recent = (*(at for at in draft.status.failed_at if draft.now - at < rules.window), draft.now)
    draft.set(restarts=restarts.model_copy(update={"failures": restarts.failures + 1}), failed_at=recent[-100:])
    if len(recent) > rules.max_failures:
        finish(draft, Phase.FAILED, "TooManyFailures", f"{end.reason} ({len(recent)} failures): {end.message}")
        return
    go_on(draft, attempt, delay=backoff(config.backoff_base, config.backoff_limit, len(recent)))


def _count_loss(draft: Draft, attempt: Attempt, end: End, *, progressed: bool) -> None:
    restarts, config = draft.status.restarts, draft.snapshot.config
    fruitless = 0 if progressed else draft.status.fruitless_losses + 1
    counts = {"losses": restarts.losses + 1, "infrastructure": restarts.infrastructure + int(end.infrastructure)}
    draft.set(restarts=restarts.model_copy(update=counts), fruitless_losses=fruitless)
    node = draft.status.history[-1].node
    if progressed:
        go_on(draft, attempt, avoid=(node,) if end.reason == "NodeSilent" and node else ())
        return
    delay = backoff(config.backoff_base, config.backoff_limit, fruitless)
    if not end.infrastructure:  # somebody took the node; that the deadline does not wait for
        delay = min(delay, idle_room(draft))
    blamed = node and end.reason not in STORAGE_BROKEN  # another node would not reach the storage either
    go_on(draft, attempt, delay=delay, avoid=(node,) if node and blamed else ())


def _close(draft: Draft, s: Situation, end: End, *, ended_at: datetime | None = None, estimated: bool = False) -> None:
    """Put the current attempt into history and its sums into the ledger."""
    record = _record(draft.attempt, s, end, ended_at, estimated=estimated)
    append(draft, record, draft.attempt.tier.kind)
    draft.set(tiers=knowledge.record_end(draft.status.tiers, record, infrastructure=end.infrastructure))


def _record(attempt: Attempt, s: Situation, end: End, ended_at: datetime | None, *, estimated: bool) -> AttemptRecord:
    report = s.report
    steps = [step for step in (attempt.last_step, report.step if report else None, end.step) if step is not None]
    last, first = max(steps, default=None), attempt.first_step
    scheduled_at = _scheduled(attempt, s)
    started_at = _started(attempt, s)
    ended_at = s.clamp_time(ended_at, started_at or scheduled_at or attempt.raised_at)
    return AttemptRecord(
        number=attempt.number,
        tier=attempt.tier.name,
        node=_node(attempt) or (s.pod.node if s.pod else None),
        kind=end.kind,
        reason=end.reason,
        message=end.message[:MESSAGE_LIMIT],
        raised_at=attempt.raised_at,
        scheduled_at=scheduled_at,
        started_at=started_at,
        ended_at=ended_at,
        pod_uid=_pod_uid(attempt, s) if estimated else None,
        estimated=estimated,
        first_step=first,
        first_step_at=attempt.progress_at,
        last_step=last,
        last_step_at=(report.step_at if report else None) or attempt.last_step_at,
        resumed_step=report.resumed_step if report and attempt.resumed_step is None else attempt.resumed_step,
        steps=last - first + 1 if last is not None and first is not None and last >= first else 0,
        cost=charge(attempt, scheduled_at, ended_at),
    )


def _scheduled(attempt: Attempt, s: Situation) -> datetime | None:
    """When its pod had a node; the operator may have been down all the while."""
    seen = s.pod.scheduled_at if s.pod and s.pod.node else None
    return attempt.scheduled_at or (s.clamp_time(seen, attempt.raised_at) if seen else None)


def _started(attempt: Attempt, s: Situation) -> datetime | None:
    """When its trainer ran; the operator may have been down all the while."""
    seen = s.pod.trainer.started_at if s.pod and s.pod.trainer else None
    return attempt.started_at or (s.clamp_time(seen, _scheduled(attempt, s) or attempt.raised_at) if seen else None)


def _pod_uid(attempt: Attempt, s: Situation) -> str | None:
    return attempt.pods[0].uid if attempt.pods else s.pod.uid if s.pod else None


def _node(attempt: Attempt) -> str | None:
    return attempt.pods[0].node if attempt.pods else None


def _sentence(attempt: Attempt, end: End) -> str:
    where = f" on {node}" if (node := _node(attempt)) else ""
    return f"attempt {attempt.number} ({attempt.tier.name}{where}): {end.reason}: {end.message}".rstrip(": ")
