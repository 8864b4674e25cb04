"""An attempt is over: it goes from `current` into history, it is counted once, and the next step is decided."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil

from holdfast.api.attempt import Attempt, AttemptRecord, AttemptState, EndKind, EndReason
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import format_duration
from holdfast.api.status import Phase
from holdfast.core.attempt.all_or_none import gives_part_back, pause_after_giving_back
from holdfast.core.attempt.cause import Cause, pod_of_end
from holdfast.core.attempt.delays import backoff, outage_delay, quick_delay
from holdfast.core.attempt.failure_rules import give_up, hope, judge
from holdfast.core.attempt.fruitless import count_fruitless, evidence, is_hopeless, made_progress, trainer_started
from holdfast.core.attempt.pause import pause_reason, pause_until_corrected
from holdfast.core.attempt.placement import (
    idle_room,
    in_order,
    may_begin_on,
    tier_to_start,
    why_other_tier,
    with_others_left,
)
from holdfast.core.attempt.survivors import must_leave_node, survivors
from holdfast.core.attempt.taken import was_node_taken
from holdfast.core.attempt.why_ended import MESSAGE_LIMIT, End, saved_last_step
from holdfast.core.books.history import append
from holdfast.core.books.ledger import charge, hold, node_hours
from holdfast.core.capacity import knowledge
from holdfast.core.draft import Draft, Role
from holdfast.core.made_from import tier_changes
from holdfast.core.observe.members import groups_of, inherited, is_waiting
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.start_trouble import find_start_trouble
from holdfast.core.turn import Turn, take_turn
from holdfast_protocol.reasons import NOTHING_SAVED
from holdfast_protocol.verdict import Verdict

# --- deeds of rows ----------------------------------------------------------------------------------------------------


def record_end(turn: Turn, cause: Cause) -> None:
    """The pod ended, and says how. With several nodes, one of them did."""
    end = cause.end
    if end.reason == EndReason.OUT_OF_MEMORY:
        end = replace(end, message=end.message + _memory_of_save(turn))
    end_attempt(turn, end, ended_at=cause.at, cause=cause)


def _memory_of_save(turn: Turn) -> str:
    """What a save takes beside the program, if the trainer was at one when its memory ran out; otherwise empty."""
    report = turn.report
    if report is not None and report.memory_warning:
        return f"; before that it reported: {report.memory_warning}"
    if report is None or report.state != "saving":
        return ""
    size = f", which takes {report.checkpoint.bytes / 2**30:.1f}Gi of memory" if report.checkpoint else ""
    return f", while it saved: a save copies the state{size}; raise trainer.resources.memory by that"


def record_pod_gone(turn: Turn) -> None:
    """The pod is gone."""
    _record_unseen_end(turn, EndReason.POD_GONE, "the pod is gone and its end was not seen")


def record_forced_deletion(_turn: Turn, lost: Turn) -> None:
    """The node is silent, and the pod was deleted with a grace of 0: only our finalizer keeps the object."""
    _record_unseen_end(lost, EndReason.POD_GONE, "the pod was deleted by force while its node was silent")


def record_node_gone(turn: Turn) -> None:
    """The Node object is gone, and the pod with it."""
    _record_unseen_end(turn, EndReason.NODE_GONE, f"node {_node(turn.attempt, turn.pod)} is gone")


def record_node_silent(_turn: Turn, lost: Turn) -> None:
    """The node is silent and the storage fence makes its pod harmless: count it as lost and go on elsewhere."""
    _record_unseen_end(lost, EndReason.NODE_SILENT, f"node {_node(lost.attempt, lost.pod)} stopped answering")


def record_never_started(turn: Turn) -> None:
    """A node was found, but the trainer did not start in time."""
    limit = format_duration(turn.draft.snapshot.config.start_timeout)
    trouble = find_start_trouble(turn.pod, turn.draft.snapshot.inspections.get(turn.pod.uid)) if turn.pod else None
    text = f"the trainer did not start within {limit}" + (f": {trouble.message}" if trouble else "")
    end_attempt(turn, End(EndKind.INTERRUPTION, EndReason.START_TIMEOUT, text, infrastructure=True))


def record_unreachable(turn: Turn) -> None:
    """The attempt may still wait at the fence for an attempt that is over; no order reaches it."""
    text = "no report has arrived since it was let pass the fence"
    end_attempt(turn, End(EndKind.INTERRUPTION, EndReason.UNREACHABLE, text, infrastructure=True))


def record_never_ended(turn: Turn) -> None:
    """The pod is still there long after its grace; the fence makes it harmless."""
    _record_unseen_end(turn, EndReason.NEVER_ENDED, "the pod did not end within its grace period")


def _record_unseen_end(turn: Turn, reason: EndReason, message: str) -> None:
    """Count an end that was not seen: for the drain's reason if the attempt had to leave, otherwise an interruption."""
    drain = turn.attempt.drain
    end = End(drain.kind, drain.reason, drain.message) if drain else End(EndKind.INTERRUPTION, reason, message)
    end_attempt(turn, end, estimated=True)


def try_other_tier(turn: Turn, other: ProfileTier) -> None:
    """Give the waiting pod up for another tier: its tier gave no node in time, was removed, or another is better."""
    draft, attempt, grid = turn.draft, turn.attempt, turn.draft.snapshot.grid
    decision, (words, reason) = draft.status.decision, why_other_tier(draft, attempt)
    why = turn.pod.unscheduled_message if turn.pod else (decision.message if decision else "")
    # A node is avoided until every tier was tried once: it may be the only one that there is.
    removed = reason is EndReason.TIER_REMOVED
    tried_all = not removed and other.name == (grid[0].name if in_order(draft) else attempt.tier.name)
    times = attempt.given_back + int(gives_part_back(turn))
    pause = pause_after_giving_back(draft, attempt, times, other) if times > attempt.given_back else None
    _close(turn, End(EndKind.STOPPED, reason, why))
    avoid = () if tried_all else attempt.avoid_nodes
    retry_at = draft.now + pause if pause else attempt.retry_at if removed else None
    raised = draft.raise_attempt(other, retry_at=retry_at, avoid=avoid, any_node=tried_all)
    draft.set(current=raised.model_copy(update={"given_back": times}))
    text = f"{words}; trying {other.name}"
    if pause:
        text = f"{words}; all are given back, and {other.name} is tried in {ceil(pause.total_seconds())}s"
    draft.explain("Acquire", text)
    draft.event("TierChanged", text)


# --- an end, and what follows -----------------------------------------------------------------------------------------


def end_attempt(
    turn: Turn, end: End, *, ended_at: datetime | None = None, estimated: bool = False, cause: Cause | None = None
) -> None:
    """Record the end of the current attempt, count it, and decide what comes next. `cause`: what ended it, if seen."""
    draft, progressed = turn.draft, made_progress(turn)
    end = judge(draft.snapshot.job.spec.failure.failure_rules, hope(turn, end))
    fruitless = count_fruitless(turn, end)
    end = give_up(draft, end, fruitless=fruitless)
    _close(turn, end, ended_at=ended_at, estimated=estimated, fruitless=fruitless, pod=cause.pod if cause else None)
    draft.set(current=None)
    draft.event(f"Attempt{end.kind}", _sentence(draft.status.history[-1]), warning=end.kind in _BAD)
    match end.kind:
        case EndKind.COMPLETED:
            finish_job(draft, Phase.COMPLETED, end.reason, end.message or "training is complete")
        case EndKind.MISCONFIGURED if end.pauses:
            pause_until_corrected(draft, turn.attempt, end.reason, end.message)
            _go_on(turn)
        case EndKind.MISCONFIGURED:
            finish_job(draft, Phase.FAILED, end.reason, end.message)
        case EndKind.FAILURE | EndKind.INTERRUPTION if is_hopeless(draft):
            _add_interruption(draft, end) if end.kind is EndKind.INTERRUPTION else _add_failure(draft)
            finish_job(draft, Phase.FAILED, EndReason.TOO_MANY_FRUITLESS, evidence(draft))
        case EndKind.FAILURE if end.action == "Fail":
            _add_failure(draft)
            finish_job(draft, Phase.FAILED, end.reason, end.message)
        case EndKind.FAILURE:
            _count_failure(turn, end, progressed=progressed)
        case EndKind.INTERRUPTION:
            _count_interruption(turn, end, progressed=progressed)
        case EndKind.STOPPED:
            _go_on(turn)


def _go_on(turn: Turn, *, delay: timedelta | None = None, avoid: tuple[str, ...] = ()) -> None:
    """Make the successor current, or intend a new attempt on the policy's tier; neither if the job must pause.

    With several nodes, the next attempt takes over the pods that can go on, with their tier as they were made.
    """
    draft, after = turn.draft, turn.attempt
    if reason := pause_reason(draft):
        drop_successor(draft, reason)
        return
    successor = draft.status.successor
    if successor and successor.state is not AttemptState.INTENDED:
        _promote(draft, successor)
        return
    kept = survivors(draft, after, turn.situation, avoid)
    if kept:
        delay = max(delay or timedelta(), quick_delay(draft.snapshot.config, draft.status.history))
    retry_at = draft.now + delay if delay else None
    there = [one.pod.node for one in turn.situation.members if one.rank in kept and one.pod]
    if successor:
        merged = with_others_left(draft, (*successor.avoid_nodes, *avoid), there)
        changes: dict[str, object] = {"retry_at": retry_at, "avoid_nodes": merged}
        if successor.nodes > 1:
            kept = {} if tier_changes(after.tier, successor.tier) else kept
            born = {**dict.fromkeys(range(successor.nodes), successor.number), **kept}
            changes |= {"members": groups_of(born, successor.number), "inherited_at": draft.now if kept else None}
        draft.set(current=successor.model_copy(update=changes), successor=None)
    elif kept or draft.snapshot.grid:
        avoid = with_others_left(draft, avoid, there, only=after.tier if kept else None)
        tier = after.tier if kept else tier_to_start(draft, avoid)
        raised = draft.raise_attempt(tier, retry_at=retry_at, avoid=avoid, keep=kept)
        draft.set(current=raised.model_copy(update={"inherited_at": draft.now}) if kept else raised)
    if delay and draft.status.current:
        ended = draft.status.history[-1].reason
        draft.explain("Wait", f"attempt {after.number} ended ({ended}); the next starts in {format_duration(delay)}")


def _promote(draft: Draft, successor: Attempt) -> None:
    """Make a successor whose pod is there already the current attempt; it may pass the fence."""
    changes: dict[str, object] = {"go": draft.next_order() if successor.go is None else successor.go}
    if inherited(successor):  # so far the attempt before it has paid for these nodes
        changes["inherited_at"] = draft.now
    draft.set(current=successor.model_copy(update=changes), successor=None)
    where = f" on {node}" if (node := _node(successor, None)) else ""
    text = f"attempt {successor.number} goes on ({successor.tier.name}{where})"
    if successor.state is AttemptState.ACQUIRING:
        text = f"attempt {successor.number} is next; it waits for a node of tier {successor.tier.name}"
    draft.explain("Run" if successor.state is AttemptState.RUNNING else "Acquire", text)
    draft.event("Switched", text)


def drop_successor(
    draft: Draft, end: End | EndReason, *, ended_at: datetime | None = None, estimated: bool = False
) -> None:
    """Give the successor up, if there is one. Its pod is deleted at the end of the decision.

    If it had a node, its cost goes into the books. An EndReason stands for a stop, which counts as nothing.
    """
    turn = take_turn(draft, Role.SUCCESSOR)
    if turn is None:
        return
    end = End(EndKind.STOPPED, end) if isinstance(end, EndReason) else end
    if _scheduled(turn) is None and not hold(turn.attempt, turn.pods, draft.now).held_for:
        acquire_time, why = draft.snapshot.config.assumed.acquire_time, draft.snapshot.refusal_of
        draft.set(tiers=knowledge.record_sight(draft.status.tiers, turn.attempt, acquire_time, draft.now, why))
    else:
        _close(turn, end, ended_at=ended_at, estimated=estimated)
        if end.kind is EndKind.INTERRUPTION:
            _add_interruption(draft, end)
    draft.set(successor=None)


def replace_waiting(turn: Turn, tier: ProfileTier, reason: EndReason) -> None:
    """Give up an attempt that has not started on a node yet, for one on another tier."""
    _close(turn, End(EndKind.STOPPED, reason))
    turn.replace_attempt(turn.draft.raise_attempt(tier))


def stop_waiting(turn: Turn, reason: EndReason) -> None:
    """Give up an attempt that has not started on a node yet, and its successor; no interruption is counted."""
    drop_successor(turn.draft, reason)
    _close(turn, End(EndKind.STOPPED, reason))
    turn.replace_attempt(None)


def fail_job(draft: Draft, reason: EndReason, message: str) -> None:
    """End the job as Failed. If its attempt still runs, its pod is deleted, which saves and leaves."""
    if turn := take_turn(draft):
        _close(turn, End(EndKind.STOPPED, reason, message))
    finish_job(draft, Phase.FAILED, reason, message)


def finish_job(draft: Draft, phase: Phase, reason: str, message: str) -> None:
    """Enter a final phase."""
    drop_successor(draft, EndReason.NOT_NEEDED)
    draft.set(phase=phase, reason=reason, current=None, finished_at=draft.now)
    draft.explain("Finish", f"{reason}: {message}"[:MESSAGE_LIMIT])
    draft.event(f"Job{phase}", f"{reason}: {message}", warning=phase is Phase.FAILED or reason == NOTHING_SAVED)


_BAD = (EndKind.INTERRUPTION, EndKind.FAILURE, EndKind.MISCONFIGURED)


def _count_failure(turn: Turn, end: End, *, progressed: bool) -> None:
    draft = turn.draft
    rules, config = draft.snapshot.job.spec.failure, draft.snapshot.config
    recent = _add_failure(draft)
    if len(recent) > rules.max_failures:
        finish_job(draft, Phase.FAILED, "TooManyFailures", f"{end.reason} ({len(recent)} failures): {end.message}")
        return
    delay = backoff(config.backoff_base, config.backoff_limit, len(recent))
    if turn.attempt.nodes > 1 and progressed:
        delay = timedelta()  # the other nodes stand still, and are paid for
    node = draft.status.history[-1].node if must_leave_node(draft, turn.attempt, end.action) else None
    _go_on(turn, delay=delay, avoid=(node,) if node else ())


def _add_failure(draft: Draft) -> tuple[datetime, ...]:
    """Count a failure; returns the times of all that count now."""
    window, restarts = draft.snapshot.job.spec.failure.window, draft.status.restarts
    recent = (*(at for at in draft.status.failed_at if draft.now - at < window), draft.now)
    draft.set(restarts=restarts.model_copy(update={"failures": restarts.failures + 1}), failed_at=recent[-100:])
    return recent


def _count_interruption(turn: Turn, end: End, *, progressed: bool) -> None:
    draft, config = turn.draft, turn.draft.snapshot.config
    fruitless = 0 if progressed else draft.status.fruitless_interruptions + 1
    _add_interruption(draft, end)
    draft.set(fruitless_interruptions=fruitless)
    _leave_resting_tier(draft)
    node = draft.status.history[-1].node
    if progressed:
        _go_on(turn, avoid=(node,) if end.reason == EndReason.NODE_SILENT and node else ())
        return
    delay = backoff(config.backoff_base, config.backoff_limit, fruitless)
    # If the node was taken, the deadline may allow no long delay.
    delay = max(delay, outage_delay(config, fruitless)) if end.infrastructure else min(delay, idle_room(draft))
    _go_on(turn, delay=delay, avoid=(node,) if node and end.blames_node else ())


def _leave_resting_tier(draft: Draft) -> None:
    """Send a successor that has no pod yet to another tier if the interruption has shown that its tier must rest."""
    successor = draft.status.successor
    if successor is None or successor.state is not AttemptState.INTENDED or not draft.snapshot.grid:
        return
    if not may_begin_on(draft, successor.tier):
        tier = tier_to_start(draft, successor.avoid_nodes)
        draft.set(successor=successor.model_copy(update={"tier": tier}))


def _add_interruption(draft: Draft, end: End) -> None:
    restarts = draft.status.restarts
    count, broken = restarts.interruptions + 1, restarts.infrastructure + int(end.infrastructure)
    draft.set(restarts=restarts.model_copy(update={"interruptions": count, "infrastructure": broken}))


def _close(
    turn: Turn,
    end: End,
    *,
    ended_at: datetime | None = None,
    estimated: bool = False,
    fruitless: bool = False,
    pod: PodView | None = None,
) -> None:
    """Put the attempt into history and its sums into the ledger. `pod`: the one that its end is about."""
    draft = turn.draft
    record = _record(turn, end, ended_at, pod_of_end(turn, end, pod or turn.pod), estimated=estimated)
    record = record.model_copy(update={"fruitless": fruitless})
    append(draft, record, turn.attempt.tier.kind, nodes=turn.attempt.nodes)
    granted, taken, refusal = turn.attempt.granted, was_node_taken(turn, end), draft.snapshot.refusal_of(turn.attempt)
    known, asked = draft.status.tiers, turn.attempt.accelerators
    draft.set(
        tiers=knowledge.record_end(known, record, granted=granted, taken=taken, refusal=refusal, accelerators=asked)
    )


def _record(turn: Turn, end: End, ended_at: datetime | None, pod: PodView | None, *, estimated: bool) -> AttemptRecord:
    attempt, report = turn.attempt, turn.report
    steps = [step for step in (attempt.last_step, report.step if report else None, end.step) if step is not None]
    last, first, first_at = max(steps, default=None), attempt.first_step, attempt.progress_at
    if first is None and report is not None:  # a successor's first step is not noted while another attempt is current
        first, first_at = report.first_step, report.first_step_at
    scheduled_at, started_at = _scheduled(turn), _started(turn)
    ended_at = turn.situation.clamp_time(ended_at, started_at or scheduled_at or attempt.raised_at)
    until = _held_until(turn, ended_at)
    if is_waiting(attempt):  # not all of its pods had a node
        attempt, scheduled_at = hold(attempt, turn.pods, until), None
    return AttemptRecord(
        number=attempt.number,
        tier=attempt.tier.name,
        node=_node(attempt, pod),
        rank=pod.rank if pod and attempt.nodes > 1 else None,
        node_hours=node_hours(attempt, scheduled_at, until) if attempt.nodes > 1 else None,
        kind=end.kind,
        reason=end.reason,
        message=end.message[:MESSAGE_LIMIT],
        raised_at=attempt.raised_at,
        scheduled_at=scheduled_at,
        started_at=started_at,
        ended_at=ended_at,
        pod_uid=_pod_uid(attempt, pod) if estimated else None,
        estimated=estimated,
        node_at_fault=end.at_fault,
        first_step=first,
        first_step_at=first_at,
        last_step=last,
        last_step_at=(report.step_at if report else None) or attempt.last_step_at,
        resumed_step=report.resumed_step if report and attempt.resumed_step is None else attempt.resumed_step,
        steps_trained=last - first + 1 if last is not None and first is not None and last >= first else 0,
        steps_lost=0
        if report and report.folder and saved_last_step(turn.pods or filter(None, [turn.pod]), _told(turn))
        else None,
        cost=charge(attempt, scheduled_at, until),
    )


def _told(turn: Turn) -> Iterator[Verdict | None]:
    """With several nodes: how the program of this attempt ended, as the launchers say; their pods may stay."""
    told = (member.report for member in turn.situation.members)
    return (one.verdict for one in told if one is not None and one.attempt == turn.attempt.number)


def _held_until(turn: Turn, ended_at: datetime) -> datetime:
    """When the nodes of an attempt are not its own any more: with several, once the last pod has ended, or now."""
    if any(not pod.ended for pod in turn.pods):
        return turn.now
    ends = (pod.trainer.ended_at for pod in turn.pods if pod.trainer and pod.trainer.ended_at)
    return max((turn.situation.clamp_time(at, ended_at) for at in ends), default=ended_at)


def _scheduled(turn: Turn) -> datetime | None:
    """When the pod got its node; from the pod if the operator was down at that time."""
    attempt, seen = turn.attempt, turn.pod.scheduled_at if turn.pod and turn.pod.node else None
    return attempt.scheduled_at or (turn.situation.clamp_time(seen, attempt.raised_at) if seen else None)


def _started(turn: Turn) -> datetime | None:
    """When the trainer started; from the pod if the operator was down at that time."""
    return trainer_started(turn, _scheduled(turn) or turn.attempt.raised_at)


def _pod_uid(attempt: Attempt, pod: PodView | None) -> str | None:
    known = attempt.pods[0].uid if attempt.pods and attempt.nodes == 1 else None
    return known or (pod.uid if pod else None)


def _node(attempt: Attempt, pod: PodView | None) -> str | None:
    """The attempt's node or, with several nodes, the pod's."""
    known = attempt.pods[0].node if attempt.pods and attempt.nodes == 1 else None
    return known or (pod.node if pod else None)


def _sentence(record: AttemptRecord) -> str:
    rank = "" if record.rank is None else f", rank {record.rank}"
    where = f" on {record.node}{rank}" if record.node and (not rank or record.kind in _BAD) else ""
    return f"attempt {record.number} ({record.tier}{where}): {record.reason}: {record.message}".rstrip(": ")
