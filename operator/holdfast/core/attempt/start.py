"""From an intended attempt to one that trains."""

import re
from datetime import timedelta

from holdfast.api.attempt import Attempt, AttemptState, EndKind, EndReason, PodRecord
from holdfast.api.scalars import format_duration
from holdfast.core.attempt import all_or_none, end, placement
from holdfast.core.attempt.delays import CREATION, backoff
from holdfast.core.attempt.fence import saves_folder, why_wait
from holdfast.core.attempt.fruitless import has_run
from holdfast.core.attempt.pause import pause_reason
from holdfast.core.attempt.taken import was_granted
from holdfast.core.attempt.why_ended import End
from holdfast.core.books import ledger
from holdfast.core.books.history import settle_interruption
from holdfast.core.capacity import knowledge
from holdfast.core.capacity.grid import acquire_timeout, may_get_pods
from holdfast.core.draft import Draft
from holdfast.core.made_from import fence_hash, hash_of
from holdfast.core.observe.demand import accelerators_on
from holdfast.core.observe.members import few_enough, fresh_ranks, is_member
from holdfast.core.observe.nodes import NodeView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.report import Report
from holdfast.core.observe.situation import is_live
from holdfast.core.observe.snapshot import Refusal
from holdfast.core.turn import Turn

INVALID = 422  # HTTP status of a refusal: the API server will never accept this pod
POD_SECURITY = "violates PodSecurity"  # words of the admission controller
DENIED = re.compile(r"denied (the )?request")  # a webhook or a ValidatingAdmissionPolicy, with any status
POD_SECURITY_TRIES = 10  # over eight minutes: the namespace may have got its label by mistake
NAME_TAKEN = "NameTaken"  # reason of a refusal: another pod has this name
NAMED = 3  # avoided nodes that a sentence names

# --- a first attempt --------------------------------------------------------------------------------------------------


def is_new(draft: Draft) -> bool:
    """True if the job has neither status nor pod, needs one node, is not paused, and no pod of it was refused."""
    snapshot = draft.snapshot
    if snapshot.job.spec.trainer.nodes > 1:
        return False
    stored = snapshot.job.status
    untouched = draft.status is stored and stored.phase is None and stored.attempt == 0
    return untouched and may_begin(draft) and not (snapshot.pods or snapshot.refusal)


def create_first(draft: Draft) -> None:
    """Create the pod of attempt 1: that the job exists is the intent. Status is written once the pod is seen."""
    tier = placement.tier_to_start(draft)
    draft.create_pods(Attempt(number=1, state=AttemptState.INTENDED, tier=tier, raised_at=draft.now))


def may_begin(draft: Draft) -> bool:
    """True if nothing pauses the job, the grid has a tier, and the namespace is not being deleted."""
    snapshot = draft.snapshot
    open_grid = bool(snapshot.grid) and not snapshot.namespace_closed
    return not draft.created and open_grid and pause_reason(draft) is None


def intend_first(draft: Draft) -> None:
    """Raise the next attempt number on the tier that the policy names."""
    if draft.status.started_at is None:  # a suspension before the first start is not one of an active job
        draft.set(started_at=draft.now, suspended_for=timedelta(0))
    draft.set(current=draft.raise_attempt(placement.tier_to_start(draft)))


# --- its pod ----------------------------------------------------------------------------------------------------------


def may_create(turn: Turn) -> bool:
    """True if its delay is over, no other pod of the job lives, there is room, and its tier and its namespace stay."""
    snapshot = turn.draft.snapshot
    if snapshot.namespace_closed or all_or_none.is_paused(turn.draft, turn.attempt):
        return False
    if not may_get_pods(snapshot.grid, turn.attempt):
        return False
    return all_or_none.lack_of_room(turn.draft, turn.attempt) is None and no_other_pod_lives(turn)


def no_other_pod_lives(turn: Turn) -> bool:
    """True if no pod of another attempt lives; the pod that a successor is to follow may live."""
    draft, current = turn.draft, turn.draft.status.current
    if turn.attempt.nodes > 1 and draft.is_program_fenced:
        return True  # several programs meet only when all are ready, and the fence separates them from older ones
    others = (pod for pod in draft.snapshot.pods if not (is_member(current, pod) or is_member(turn.attempt, pod)))
    return not any(
        is_live(draft.status, pod) and not _outlived_grace(draft, pod) and not _can_commit_nothing(turn, pod)
        for pod in others
    )


def _can_commit_nothing(turn: Turn, pod: PodView) -> bool:
    """True for a pod on a silent node, of the same training on several nodes, whose folder is saved behind the fence.

    Its attempt may have ended before its node was seen to be silent, because of what the programs of other nodes said.
    """
    draft, node = turn.draft, turn.draft.snapshot.cluster.nodes.get(pod.node or "")
    if turn.attempt.nodes == 1 or node is None or node.ready or pod.made_from != hash_of(draft.made_from):
        return False
    return saves_folder(draft, turn.attempt) and why_wait(draft, turn.attempt) is None


def _outlived_grace(draft: Draft, pod: PodView) -> bool:
    """True if a pod of an attempt that is over exists long after its grace, and the fence makes it harmless."""
    if pod.deleted_at is None or not draft.is_program_fenced:
        return False
    return draft.is_due(pod.deleted_at + draft.snapshot.config.end_margin)


def create(turn: Turn) -> None:
    """Create the pod of an attempt that is in status; it waits for no other attempt."""
    _create(turn, predecessor=None)
    attempt = turn.attempt
    text = f"waiting for {_nodes_wanted(attempt)} of tier {attempt.tier.name}{_avoided(attempt)}"
    turn.draft.explain("Acquire", text)


def _nodes_wanted(attempt: Attempt) -> str:
    count = len(fresh_ranks(attempt))
    return "a node" if count == 1 else f"{count} nodes"


def _avoided(attempt: Attempt) -> str:
    """Which nodes its pods must not use, in words; empty if they may use all."""
    names, more = attempt.avoid_nodes[:NAMED], len(attempt.avoid_nodes) - NAMED
    return f"; not {', '.join(names)}{f' and {more} more' if more > 0 else ''}" if names else ""


def create_beside(turn: Turn, current: Attempt) -> None:
    """Create the pod of a successor: it waits at the fence for the attempt that trains."""
    _create(turn, predecessor=current.number)


def _create(turn: Turn, *, predecessor: int | None) -> None:
    draft = turn.draft
    if turn.attempt.made_from != draft.made_from:  # since then, spec was changed: its pods must all be the same
        raise_again(turn)
        return
    if not draft.is_program_fenced:  # it has yet to show that it takes the storage fence
        draft.set(fenced_program=None)
    turn.replace_attempt(acquiring(draft, turn.attempt.model_copy(update={"predecessor": predecessor})))
    draft.create_pods(turn.attempt)
    draft.wake(draft.now + draft.snapshot.config.missing_after)


def acquiring(draft: Draft, attempt: Attempt) -> Attempt:
    """The attempt in state Acquiring: its pod waits for a node, for as long as its tier allows."""
    timeout = acquire_timeout(attempt.tier, draft.snapshot.cluster, draft.snapshot.config)
    deadline = attempt.acquire_deadline or draft.now + timeout
    asked = accelerators_on(draft.snapshot.job.spec.trainer, attempt.tier)
    changes = {"created_at": draft.now, "acquire_deadline": deadline, "retry_at": None, "accelerators": asked}
    return attempt.model_copy(update={"state": AttemptState.ACQUIRING, **changes})


def is_missing(turn: Turn) -> bool:
    """True if the pod is not seen for longer than the operator's view lags, and its namespace is not being deleted."""
    if turn.draft.snapshot.namespace_closed:
        return False
    since = turn.attempt.created_at or turn.attempt.raised_at
    creation = (turn.attempt.nodes - 1) * CREATION
    return turn.draft.is_due(since + creation + turn.draft.snapshot.config.missing_after)


def use_avoided(turn: Turn) -> None:
    """Raise the number again for pods that may use the nodes that the attempt avoided; pods that it took over stay."""
    names = ", ".join(turn.attempt.avoid_nodes)
    turn.set_attempt(avoid_nodes=())
    raise_again(turn)
    turn.draft.explain("Acquire", f"no other node is left: {names} may be used again")


def raise_again(turn: Turn) -> None:
    """Raise the number again for a pod that should exist and does not: it was lost, or was never created.

    Pods that it took over stay. Those that it created are created again: otherwise a part of them would count as warm.
    """
    attempt, same = turn.attempt, hash_of(turn.draft.made_from)
    warm = (one for one in turn.situation.members if one.born != attempt.number and one.goes_on)
    there = few_enough({one.rank: one.born for one in warm if one.pod and one.pod.made_from == same})
    again = turn.draft.raise_attempt(attempt.tier, avoid=attempt.avoid_nodes, keep=there)
    kept: dict[str, object] = {"acquire_deadline": attempt.acquire_deadline, "replaced": attempt.replaced}
    kept |= {"waits_since": attempt.waits_since, "given_back": attempt.given_back}
    kept |= ledger.held_before(attempt, turn.pods, turn.now, keep=there)
    if there:
        kept["inherited_at"] = attempt.inherited_at
    turn.replace_attempt(again.model_copy(update=kept))


def was_deleted(turn: Turn) -> bool:
    """True if somebody deleted the pod."""
    return turn.pod is not None and turn.pod.deleted_at is not None


def replace_deleted(turn: Turn) -> None:
    """Make another pod for one that was deleted before it had a node; each time later, since it may happen again."""
    draft, times = turn.draft, turn.attempt.replaced + 1
    delay = backoff(timedelta(seconds=1), draft.snapshot.config.backoff_limit, times)
    raise_again(turn)
    turn.set_attempt(replaced=times, retry_at=turn.now + delay)
    text = f"somebody deleted the pod before it had a node; another is made in {format_duration(delay)}"
    draft.explain("Wait", text)
    draft.event("PodReplaced", text, warning=True)


def was_refused(turn: Turn) -> Refusal | None:
    """The refusal if the API server refused the pod, and that was not handled yet."""
    refusal = turn.draft.snapshot.refusal
    if refusal is None or refusal.attempt != turn.attempt.number or turn.draft.refusal_handled:
        return None
    return refusal


def note_refusal(turn: Turn, refusal: Refusal) -> None:
    """Wait after a quota, a LimitRange, PodSecurity or a webhook refused the pod, and show the message. Or end.

    The attempt ends if its pod is invalid, or if the Pod Security Standard of the namespace has refused it many times.
    A job that has run waits for the namespace: a person may correct its standard, and waiting costs nothing.
    """
    text = refusal.message[:512] + _advice(turn.draft, refusal)
    invalid = refusal.status == INVALID and not DENIED.search(refusal.message)
    often = POD_SECURITY in text and turn.attempt.refusals + 1 >= POD_SECURITY_TRIES
    if invalid or (often and not has_run(turn)):
        turn.draft.refusal_handled = True
        reason = EndReason.POD_INVALID if invalid else EndReason.POD_REFUSED
        end.end_attempt(turn, End(EndKind.MISCONFIGURED, reason, text))
        return
    put_off(turn, refusal)
    if refusal.reason != NAME_TAKEN:
        turn.draft.set(reason=EndReason.POD_REFUSED)
        turn.draft.explain("Wait", f"the pod was refused: {text}")


def _advice(draft: Draft, refusal: Refusal) -> str:
    """Which field of the job helps against the refusal; empty if that is not known."""
    trainer = draft.snapshot.job.spec.trainer
    if POD_SECURITY in refusal.message and not trainer.security_context.run_as_user:
        return "; set trainer.securityContext.runAsUser to a user id other than 0, which the image must support"
    if "ephemeral-storage" in refusal.message and trainer.resources.ephemeral_storage is None:
        return "; set trainer.resources.ephemeralStorage"
    return ""


def put_off(turn: Turn, refusal: Refusal) -> None:
    """Try again, each time later. If only the pod's name was taken, raise the number again; the first time at once."""
    draft, times = turn.draft, turn.attempt.refusals + 1
    draft.refusal_handled = True
    delay = backoff(timedelta(seconds=1), draft.snapshot.config.backoff_limit, times)
    if refusal.reason == NAME_TAKEN:
        raise_again(turn)
        turn.set_attempt(refusals=times, retry_at=turn.now + delay if times > 1 else None)
        return
    turn.set_attempt(state=AttemptState.INTENDED, refusals=times, retry_at=turn.now + delay)
    draft.event("PodRefused", refusal.message, warning=True)


# --- its node, its trainer --------------------------------------------------------------------------------------------


def seen_pod(turn: Turn) -> PodView | None:
    """The pod; a row whose sights imply a pod always fits."""
    return turn.pod


def note_placed(turn: Turn, pod: PodView) -> None:
    """The pod is on a node. With several nodes, all of them are."""
    set_placed(turn, pod)
    nodes = turn.attempt.nodes
    given = f"gave node {pod.node}" if nodes == 1 else f"gave {len(fresh_ranks(turn.attempt))} of {nodes} nodes"
    turn.draft.explain("Start", f"{turn.attempt.tier.name} {given}")


def set_placed(turn: Turn, pod: PodView) -> None:
    """Write down where the pod is; with several nodes, the one of rank 0, and when the last one got its node."""
    draft, (lead, node) = turn.draft, lead_of(turn, pod)
    since = placement.up_since(turn.draft, turn.attempt)
    placed = max((one.pod.scheduled_at for one in turn.situation.members if one.pod and one.pod.scheduled_at),
                 default=pod.scheduled_at)  # fmt: skip
    scheduled_at = turn.situation.clamp_time(placed, turn.attempt.raised_at)
    turn.replace_attempt(ledger.hold(turn.attempt, turn.pods, scheduled_at))
    turn.set_attempt(
        state=AttemptState.STARTING,
        pods=(_pod_record(turn, pod),),
        created_at=turn.situation.clamp_time(lead.created_at, turn.attempt.raised_at),
        scheduled_at=scheduled_at,
    )
    made = node.created_at if node else None
    draft.set(tiers=knowledge.record_node(draft.status.tiers, turn.attempt, made, since))


def started_pod(turn: Turn) -> PodView | None:
    """The pod if the program runs; with several nodes, it is ordered to start on all of them once they are ready."""
    return turn.pod if turn.attempt.nodes == 1 or turn.attempt.world else None


def note_running(turn: Turn, pod: PodView) -> None:
    """The trainer runs."""
    set_running(turn, pod)
    attempt, draft = turn.attempt, turn.draft
    where = pod.node if attempt.nodes == 1 else f"{attempt.nodes} nodes"
    draft.explain("Run", f"running on {where} ({attempt.tier.name})")
    draft.event("Running", f"attempt {attempt.number} runs on {where} ({attempt.tier.name})")


def set_running(turn: Turn, pod: PodView) -> None:
    """Write down since when the trainer runs; with several nodes, since it was ordered to start."""
    seen, since = pod.trainer.started_at if pod.trainer else None, turn.attempt.scheduled_at or turn.attempt.raised_at
    started_at = turn.situation.clamp_time(seen if turn.attempt.nodes == 1 else turn.now, since)
    turn.set_attempt(state=AttemptState.RUNNING, started_at=started_at, pods=(_pod_record(turn, pod),))


def lead_of(turn: Turn, pod: PodView) -> tuple[PodView, NodeView | None]:
    """The pod of rank 0 and its node: the trainer there reports for all, and gets the orders."""
    for member in turn.situation.members[:1]:
        if member.pod is not None:
            return member.pod, member.node
    return pod, turn.node


def _pod_record(turn: Turn, pod: PodView) -> PodRecord:
    """The record of the pod, with several nodes of rank 0.

    That its node was granted is decided when the node is first seen, and stays; with several nodes, all of them were.
    """
    lead, node = lead_of(turn, pod)
    known = turn.attempt.pods[0] if turn.attempt.pods else None
    places = [(one.pod, one.node) for one in turn.situation.members] or [(lead, node)]
    given = all(one is not None and was_granted(turn, one, where) for one, where in places)
    granted = known.granted if known and known.node_uid else given
    return PodRecord(rank=lead.rank, uid=lead.uid, node=lead.node, node_uid=node.uid if node else None, granted=granted)


def should_have_started(turn: Turn) -> bool:
    """True if the trainer has not started for very long."""
    since = turn.attempt.scheduled_at or turn.now
    return turn.draft.is_due(since + turn.draft.snapshot.config.start_timeout)


def find_news(turn: Turn) -> Report | None:
    """The report if the trainer holds the fence, or has made its first step, and status does not say so yet."""
    attempt, report = turn.attempt, turn.report
    if report is None:
        return None
    first = report.first_step is not None and attempt.first_step is None
    return report if first or (report.fenced and not attempt.fenced) else None


def learn(turn: Turn, report: Report) -> None:
    """Write the news down; with the first step the cost of the last interruption is known."""
    draft = turn.draft
    if report.first_step is not None and turn.attempt.first_step is None:
        _learn_first_step(turn, report)
    turn.set_attempt(fenced=turn.attempt.fenced or report.fenced)
    if report.fenced:
        draft.set(fenced_program=fence_hash(turn.attempt.made_from))


def _learn_first_step(turn: Turn, report: Report) -> None:
    draft, attempt = turn.draft, turn.attempt
    since = attempt.started_at or attempt.scheduled_at or attempt.raised_at
    at = turn.situation.clamp_time(report.first_step_at, since)
    turn.set_attempt(
        first_step=report.first_step,
        last_step=report.step,
        last_step_at=report.step_at and min(report.step_at, turn.now),
        progress_at=at,
        resumed_step=report.resumed_step,
    )
    draft.set(tiers=knowledge.record_first_step(draft.status.tiers, turn.attempt))
    known = _says_where_it_resumed(report)
    settle_interruption(draft, turn.attempt, at, report.resumed_step, counted=known, lags=report.relayed)
    draft.set(fruitless_interruptions=0)
    if report.resumed_step is not None:
        note = f" ({report.resume_note})" if report.resume_note else ""
        draft.event("Resumed", f"attempt {turn.attempt.number} resumed at step {report.resumed_step}{note}")
    if report.ignored_step is not None:
        text = (
            f"attempt {turn.attempt.number} began at step {report.first_step} or before it, although the checkpoint of "
            f"step {report.ignored_step} was put back into checkpoint.folder: let the program resume from it"
        )
        draft.event("NotResumed", text, warning=True)


def _says_where_it_resumed(report: Report) -> bool:
    """False for a program of which nobody knows at which step it began."""
    if not report.relayed:
        return True
    return report.folder and report.ignored_step is None and not report.put_back_without_step
