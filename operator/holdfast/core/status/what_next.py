"""What the operator waits for, and what it does then, in the words that every view shows."""

from typing import Final

from holdfast.api.attempt import Attempt, AttemptState, EndReason
from holdfast.api.scalars import say_time
from holdfast.api.status import Phase
from holdfast.core.attempt.all_or_none import may_stay, part_of
from holdfast.core.draft import Draft
from holdfast.core.status.columns import PROFILE_NOT_FOUND
from holdfast.core.status.conditions import CHECKPOINT_FAILING, find_condition
from holdfast.core.status.long_waits import KEEP_POD, WAITING_FOR_ROOM
from holdfast.core.status.never_fits import NEVER_FITS
from holdfast.core.status.staging import REASON as STAGING
from holdfast_protocol.reasons import NOTHING_SAVED, STORAGE_UNREACHABLE

# for these reasons the decision says what the job waits for, and what to do
_SAY_IT_ALL: Final = (EndReason.NEVER_ENDED, PROFILE_NOT_FOUND, WAITING_FOR_ROOM, STAGING)


def tell_next(draft: Draft) -> None:
    """Set status.next: one or two sentences, with points in time in UTC, and no figure that changes by itself."""
    text = _next(draft)
    if text != draft.status.next:
        draft.set(next=text)


def _next(draft: Draft) -> str:
    status = draft.status
    match status.phase:
        case Phase.COMPLETED if status.reason == NOTHING_SAVED and status.decision:
            return f"The job is over, and nothing was saved. {status.decision.message}."
        case Phase.COMPLETED:
            return "Nothing: training is complete."
        case Phase.FAILED:
            return "Nothing: the job has failed for good. Fix the cause, delete the job, apply it again."
        case Phase.SUSPENDED if status.reason == EndReason.BUDGET_EXCEEDED:
            return f"The job waits for a higher spec.capacity.budget; {_goes_on(draft)}."
        case Phase.SUSPENDED if wrong := status.misconfigured:
            return (
                f"The job waits for a correction ({wrong.reason}): edit its spec, or its tier; {_goes_on(draft)}. If "
                "the cause was outside of both, correct it, then suspend the job and resume it."
            )
        case Phase.SUSPENDED:
            return f"The job waits for spec.suspend: false; {_goes_on(draft)}."
    attempt, said = status.current, status.decision
    if (fits := find_condition(draft, NEVER_FITS)) and fits.status == "True":
        part = " If no other node comes in time, it gives those back that it has." if _has_part(draft) else ""
        return f"The job waits: {fits.message}.{part}"
    if said and (status.reason in _SAY_IT_ALL or said.action == KEEP_POD):
        return f"The job waits: {said.message}."
    if attempt is None:
        return "The next attempt is being prepared."
    if status.reason == EndReason.NODE_SILENT and attempt.state is not AttemptState.DRAINING:
        return (
            f"Node {status.node} does not answer. If no report arrives from there either, the job continues elsewhere."
        )
    silent = find_condition(draft, STORAGE_UNREACHABLE)
    trouble = f"{silent.message[:1].upper()}{silent.message[1:]}. " if silent and silent.status == "True" else ""
    return trouble + _next_of(draft, attempt)


def _goes_on(draft: Draft) -> str:
    return "then it resumes from its last checkpoint" if draft.status.checkpoint else "then its next attempt starts"


def _next_of(draft: Draft, attempt: Attempt) -> str:
    successor, ready = draft.status.successor, draft.status.ready_nodes
    match attempt.state:
        case AttemptState.INTENDED if attempt.retry_at and attempt.retry_at > draft.now:
            return f"Attempt {attempt.number} starts at {say_time(attempt.retry_at)} (backoff)."
        case AttemptState.INTENDED:
            return f"Attempt {attempt.number} starts when the previous attempt has ended."
        case AttemptState.ACQUIRING:
            return _acquiring(draft, attempt)
        case AttemptState.STARTING if attempt.nodes > 1:
            are = f" ({ready} are)" if ready else ""
            return f"All pods have nodes and start; the program starts once all of them are ready{are}."
        case AttemptState.STARTING:
            return "The pod has a node and starts: image, storage check, restore."
        case AttemptState.DRAINING:
            return _draining(draft, attempt)
        case _ if departure := attempt.departure:
            who = "The node goes" if attempt.nodes == 1 else "A node goes"
            when = f"{who} away at {say_time(departure.deadline)} ({departure.reason}); the job trains until then."
            then = "when it is ready, the current attempt saves and leaves"
            return f"{when} {_following(successor)}; {then}." if successor else when
        case _ if successor and attempt.replaces in successor.avoid_nodes:
            why = f"when it is ready, the current attempt leaves node {attempt.replaces}, where a rank is slow"
            return f"The job trains. {_following(successor)}; {why}."
        case _ if successor:
            return f"The job trains. {_following(successor)}, to return to that tier."
        case _:
            return _training(draft, attempt)


def _acquiring(draft: Draft, attempt: Attempt) -> str:
    until, tiers = attempt.acquire_deadline, len(draft.snapshot.grid)
    part = "" if attempt.nodes == 1 else " If only a part of them comes in time, it is given back."
    if tiers <= 1 and _has_part(draft) and may_stay(draft, attempt):
        part = " It keeps the nodes that it has while no other training waits for them."
    if until is None or tiers <= 1 or draft.is_due(until):
        return f"The job waits for {_nodes_of(attempt)}.{part}"
    return f"The job waits until {say_time(until)} for {_nodes_of(attempt)}; then it tries the next tier.{part}"


def _has_part(draft: Draft) -> bool:
    current = draft.status.current
    return current is not None and part_of(draft, current) is not None


def _nodes_of(attempt: Attempt) -> str:
    return f"{'a node' if attempt.nodes == 1 else f'all {attempt.nodes} nodes'} of tier {attempt.tier.name}"


def _training(draft: Draft, attempt: Attempt) -> str:
    """What is known of the program decides what can be promised."""
    if draft.status.uses_checkpoints and attempt.first_step is None:
        does = "reads the last checkpoint from the storage" if draft.status.checkpoint else "starts"
        return (
            f"The program {does}, and has trained no step yet. If the storage does not answer for a minute, the "
            "attempt ends, and the next one tries again."
        )
    if draft.status.uses_checkpoints and attempt.nodes > 1:
        return (
            "The job trains. If a node is taken away, another one takes its place, and the programs of all nodes start "
            "again from the last checkpoint."
        )
    if draft.status.uses_checkpoints:
        return "The job trains. If its node is taken away, it saves, moves, and resumes at the step that it saved."
    if folder := draft.snapshot.job.spec.checkpoint.folder:
        doing = "trains" if attempt.first_step is not None else "runs"
        if attempt.nodes > 1:
            return (
                f"The program {doing} on {attempt.nodes} nodes, and {folder} of all nodes is committed together each "
                "time that it has written a save. If a node is taken away, another one takes its place, and the "
                "programs of all nodes start again, with that folder put back."
            )
        return (
            f"The program {doing}, and {folder} is committed each time that it has written a save. If its node is "
            "taken away, the program is asked to leave, and starts again on another node, with that folder put back."
        )
    if attempt.nodes > 1:
        do = "train" if attempt.first_step is not None else "run, and have reported nothing"
        return (
            f"The programs {do}. If a node is taken away, they are ended, and start again on all nodes once another "
            "one is there. Nothing shows that they use Holdfast's checkpoints, so what they save and where they resume "
            "is not known."
        )
    doing = "trains" if attempt.first_step is not None else "runs, and has reported nothing"
    return (
        f"The program {doing}. If its node is taken away, the program is asked to leave, and starts again on another "
        "node. Nothing shows that it uses Holdfast's checkpoints, so what it saves and where it resumes is not known."
    )


def _following(successor: Attempt) -> str:
    node = successor.pods[0].node if successor.pods and successor.nodes == 1 else None
    where = f" on {node}" if node else ""
    doing = "starts" if successor.pods else "waits for a node"
    return f"Attempt {successor.number} {doing}{where} (tier {successor.tier.name})"


def _draining(draft: Draft, attempt: Attempt) -> str:
    drain, successor = attempt.drain, draft.status.successor
    if drain is None:
        return "The job leaves its node."
    if drain.reason == EndReason.NODE_SILENT:
        return f"The job waits: {drain.message}."
    heard = "the program has acknowledged" if drain.acknowledged_at else "the program has not answered yet"
    after = f" Attempt {successor.number} follows on tier {successor.tier.name}." if successor else ""
    if draft.is_due(drain.deadline):
        return f"The time to leave is over ({drain.reason}): the job waits until the pod has ended.{after}"
    must = "save and leave" if draft.status.uses_checkpoints else "leave"
    failing, silent = find_condition(draft, CHECKPOINT_FAILING), find_condition(draft, STORAGE_UNREACHABLE)
    is_new = failing and failing.status == "True" and not (silent and silent.status == "True")  # it is said once
    failed = f" Its last save failed: {failing.message}." if failing and is_new else ""
    return f"The attempt must {must} by {say_time(drain.deadline)} ({drain.reason}); {heard}.{failed}{after}"
