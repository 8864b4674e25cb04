"""Conditions of a job: those of Job (Complete, Failed, Suspended), CapacityAcquired, Progressing, and warnings."""

from typing import Literal, get_args

from holdfast.api.attempt import AttemptState
from holdfast.api.status import Condition, Phase
from holdfast.core.attempt.pause import PauseReason
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Sight, Situation

ON_NODE = (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.DRAINING)


def set_conditions(draft: Draft, s: Situation) -> None:
    """Set all conditions as the status says."""
    status, reason = draft.status, draft.status.reason
    explanation = status.decision.reason if status.decision else ""
    current = status.current
    on_node = current is not None and current.state in ON_NODE
    phase = status.phase or Phase.ACQUIRING
    _set(draft, "CapacityAcquired", on_node, "NodeFound" if on_node else reason or phase, explanation)
    _set(draft, "Progressing", phase in (Phase.RUNNING, Phase.MIGRATING), reason or phase, explanation)
    _set(draft, "Complete", phase is Phase.COMPLETED, reason if phase.final and reason else "NotFinished")
    failed = phase is Phase.FAILED
    _set(draft, "Failed", failed, (reason if failed else None) or "NotFailed", explanation if failed else "")
    draining = current is not None and current.drain is not None and current.drain.reason in get_args(PauseReason)
    suspended = phase is Phase.SUSPENDED
    why = (reason or "Suspended") if suspended else "Suspending" if draining else "NotSuspended"
    _set(draft, "Suspended", suspended, why)
    _set_progress_unreachable(draft, s)
    _set_checkpoint_failing(draft, s)


def _set_progress_unreachable(draft: Draft, s: Situation) -> None:
    """ProgressUnreachable: a trainer that has reported before is silent. Training goes on; silence is not a hang."""
    silent = False
    heard, current = s.report.received_at if s.report else draft.snapshot.listening_since, draft.status.current
    if heard and current and current.fenced and s.sight is Sight.RUNNING:
        limit = heard + draft.snapshot.config.unreported_after
        silent = draft.is_due(limit)
        if silent and s.pod:  # it may not trust the endpoint any more: the certificate that it mounts was replaced
            draft.inspect(s.pod, limit)
    if silent or find_condition(draft, "ProgressUnreachable"):
        message = "no reports arrive from the trainer; training goes on" if silent else ""
        _set(draft, "ProgressUnreachable", silent, "Silent" if silent else "Reporting", message)


def _set_checkpoint_failing(draft: Draft, s: Situation) -> None:
    """CheckpointFailing: the trainer's saves fail. Training goes on, but a loss of the pod costs more and more."""
    known = find_condition(draft, "CheckpointFailing")
    failing = known is not None and known.status == "True"
    error = s.report.save_error if s.report else None
    if failing and s.report is None and s.sight is Sight.RUNNING:
        return  # an operator that has just started has no report yet
    if failing and error and not draft.changed:
        return  # every save may fail with another text: that alone is not worth a write
    if error and not failing:
        draft.event("CheckpointFailing", error, warning=True)
    if error or known:
        _set(draft, "CheckpointFailing", bool(error), "SaveFailed" if error else "NotFailing", error or "")


def find_condition(draft: Draft, kind: str) -> Condition | None:
    """The condition of that type, or None."""
    for condition in draft.status.conditions:
        if condition.type == kind:
            return condition
    return None


def drop_condition(draft: Draft, kind: str) -> None:
    """Remove a condition that no longer applies."""
    if find_condition(draft, kind):
        draft.set(conditions=tuple(one for one in draft.status.conditions if one.type != kind))


def set_condition(
    draft: Draft, kind: str, state: Literal["True", "False", "Unknown"], reason: str, message: str = ""
) -> None:
    """Set one condition; its transition time changes only when its status does."""
    old, generation, message = find_condition(draft, kind), draft.snapshot.job.metadata.generation, message[:1024]
    new_values = (state, reason, message, generation)
    if old is not None and (old.status, old.reason, old.message, old.observed_generation) == new_values:
        return
    new = Condition(
        type=kind,
        status=state,
        reason=reason,
        message=message,
        last_transition_time=old.last_transition_time if old and old.status == state else draft.now,
        observed_generation=generation,
    )
    others = [condition for condition in draft.status.conditions if condition.type != kind]
    draft.set(conditions=tuple(sorted((*others, new), key=lambda condition: condition.type)))


def _set(draft: Draft, kind: str, true: bool, reason: str, message: str = "") -> None:
    set_condition(draft, kind, "True" if true else "False", reason, message)
