"""An attempt whose node will go trains on until its successor is up."""

from datetime import datetime
from math import ceil

from holdfast.api.attempt import Departure, EndKind
from holdfast.core.attempt import drain, end
from holdfast.core.attempt.pause import held_back
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.situation import Sight, Situation


def may_overlap(draft: Draft) -> bool:
    """True if a successor may come up beside the current attempt.

    A program that nothing fences would train beside it; one that cannot be reached would not be told to pass; and the
    user may not want to pay for two nodes.
    """
    snapshot, current = draft.snapshot, draft.status.current
    if current is None or not current.fenced or snapshot.config.progress_url is None:
        return False
    return bool(snapshot.job.spec.capacity.max_overlap) and held_back(draft) is None


def awaited(draft: Draft) -> bool:
    """True if the successor waits at the fence, or has passed it, and nothing threatens it."""
    s = draft.look(Role.SUCCESSOR)
    if s.sight not in (Sight.PLACED, Sight.RUNNING) or s.notice is not None or s.report is None:
        return False
    return s.report.state == "holding" or s.report.fenced


# --- its node will go -------------------------------------------------------------------------------------------------


def may_depart(draft: Draft, s: Situation) -> bool:
    """True if a notice leaves the time to bring a successor up first: more than the last save needs.

    A pod that is being deleted has its SIGTERM already, and leaves.
    """
    if s.notice is None or draft.attempt.departure or s.pod is None or s.pod.deleted_at or not may_overlap(draft):
        return False
    at = _leave_at(draft, s, s.notice.deadline)
    return at is not None and s.now < at and not awaited(draft)


def depart(draft: Draft, s: Situation) -> None:
    """Save at once, train on, and bring the successor up."""
    leave_at = _leave_at(draft, s, s.notice.deadline) if s.notice else None
    if s.notice is None or leave_at is None:
        raise AssertionError("one departs on a notice that leaves time")
    notice = s.notice
    draft.set_attempt(
        departure=Departure(
            reason=notice.reason, message=notice.message, at=s.now, deadline=notice.deadline, leave_at=leave_at
        )
    )
    if draft.status.requests.checkpoint_order is None:
        draft.order_checkpoint()
    drain.intend_successor(draft, avoid=(notice.node,) if notice.node else ())
    seconds = ceil((notice.deadline - s.now).total_seconds())
    text = f"{notice.reason}: {notice.message}; {seconds} s are left, training goes on until the next attempt is ready"
    draft.say("Migrate", text)
    draft.event("Notice", text, warning=True)


def _leave_at(draft: Draft, s: Situation, deadline: datetime) -> datetime | None:
    """When the last save has to begin, with as much again to spare; None if no save has been measured."""
    saved = s.report.checkpoint if s.report else None
    return deadline - 2 * saved.took - draft.snapshot.config.leave_margin if saved else None


def departs_sooner(draft: Draft, s: Situation) -> bool:
    """True if a notice leaves clearly less time than was known."""
    departure = draft.attempt.departure
    return departure is not None and drain.earlier(departure.deadline, s)


def hasten_departure(draft: Draft, s: Situation) -> None:
    """A second notice leaves less time than the first."""
    departure = draft.attempt.departure
    if departure is None or s.notice is None:
        raise AssertionError("only a departure can be hastened")
    deadline = max(s.notice.deadline, s.now)
    leave_at = deadline - (departure.deadline - departure.leave_at)
    draft.set_attempt(departure=departure.model_copy(update={"deadline": deadline, "leave_at": leave_at}))


def withdrawn(draft: Draft, s: Situation) -> bool:
    """True if nothing threatens the pod of a departing attempt any more: who gave notice has thought better of it."""
    return draft.attempt.departure is not None and s.notice is None and s.node is not None


def stay(draft: Draft, s: Situation) -> None:
    """Train on as if nothing had been; the successor was for this notice alone."""
    departure = draft.attempt.departure
    if departure is None:
        raise AssertionError("only a departure can be called off")
    end.drop_successor(draft, "NotNeeded")
    draft.set_attempt(departure=None)
    text = f"the notice was withdrawn ({departure.reason}): training goes on where it is"
    draft.say("Run", text)
    draft.event("NoticeWithdrawn", text)


def must_leave(draft: Draft, s: Situation) -> bool:
    """True if a departing attempt has to leave now: its successor is ready, time is up, or it was told to already."""
    departure = draft.attempt.departure
    if departure is None:
        return False
    if s.now < departure.leave_at:
        draft.wake(departure.leave_at)
    told = s.pod is not None and s.pod.deleted_at is not None
    return told or s.now >= departure.leave_at or awaited(draft)


def leave(draft: Draft, s: Situation) -> None:
    """Save and leave."""
    departure = draft.attempt.departure
    if departure is None:
        raise AssertionError("only who departs leaves")
    deadline = max(min(departure.deadline, drain.grace_end(draft, s.now)), s.now)
    draft.drain(departure.reason, departure.message, deadline, EndKind.LOSS)
    ready = draft.status.successor.number if draft.status.successor and awaited(draft) else None
    why = f"attempt {ready} is ready" if ready else "time is up"
    draft.say("Migrate", f"{departure.reason}: {departure.message}; {why}: saving and leaving")
    draft.event("Leaving", f"{why}: saving and leaving")


def alone(draft: Draft, s: Situation) -> bool:
    """True if an attempt departs, and no successor comes up."""
    return draft.attempt.departure is not None and draft.status.successor is None and bool(draft.snapshot.grid)


def raise_another(draft: Draft, s: Situation) -> None:
    """Its successor was given up: raise another, later each time."""
    config, node = draft.snapshot.config, s.pod.node if s.pod else None
    drain.intend_successor(draft, avoid=(node,) if node else ())
    if successor := draft.status.successor:
        delay = end.backoff(config.backoff_base, config.backoff_limit, max(draft.attempt.vain, 1))
        draft.set(successor=successor.model_copy(update={"retry_at": s.now + delay}))


# --- at the fence -----------------------------------------------------------------------------------------------------


def never_passed(draft: Draft, s: Situation) -> bool:
    """True if an attempt whose predecessor is over still waits at the fence, as far as anybody hears.

    Neither the order to go on nor the handover may have reached it; another attempt begins without waiting.
    """
    attempt, snapshot = draft.attempt, draft.snapshot
    if attempt.go is None or attempt.fenced or s.report is not None:
        return False
    history = draft.status.history
    times = (attempt.started_at, snapshot.listening_since, history[-1].ended_at if history else None)
    at = max((time for time in times if time), default=attempt.raised_at) + snapshot.config.start_timeout
    if s.now < at:
        draft.wake(at)
    return s.now >= at
