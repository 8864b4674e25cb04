"""Conditions of a job: those of Job (Complete, Failed, Suspended), CapacityAcquired, Progressing, and warnings."""

from typing import Final, Literal, get_args

from holdfast.api.attempt import AttemptState
from holdfast.api.scalars import say_time
from holdfast.api.status import Condition, Phase
from holdfast.core.attempt.pause import PauseReason
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Sight, Situation
from holdfast_protocol.gates import PEER_COPIES
from holdfast_protocol.reasons import STORAGE_UNREACHABLE

CHECKPOINT_FAILING: Final = "CheckpointFailing"
FEATURE_OFF: Final = "FeatureOff"
ON_NODE = (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.DRAINING)


def set_conditions(draft: Draft, s: Situation) -> None:
    """Set all conditions as the status says."""
    status, reason = draft.status, draft.status.reason
    explanation = status.decision.message if status.decision else ""
    current = status.current
    on_node = current is not None and current.state in ON_NODE
    phase = status.phase or Phase.ACQUIRING
    _set(draft, "CapacityAcquired", on_node, "NodeFound" if on_node else reason or phase, explanation)
    _set(draft, "Progressing", phase in (Phase.RUNNING, Phase.MIGRATING), reason or phase, explanation)
    completed = phase is Phase.COMPLETED
    why = reason if phase.final and reason else "NotFinished"
    _set(draft, "Complete", completed, why, explanation if completed else "")
    failed = phase is Phase.FAILED
    _set(draft, "Failed", failed, (reason if failed else None) or "NotFailed", explanation if failed else "")
    draining = current is not None and current.drain is not None and current.drain.reason in get_args(PauseReason)
    suspended = phase is Phase.SUSPENDED
    why = (reason or "Suspended") if suspended else "Suspending" if draining else "NotSuspended"
    _set(draft, "Suspended", suspended, why)
    _set_progress_unreachable(draft, s)
    _set_feature_off(draft)
    # Saves fail: training goes on, but losing the pod costs more and more.
    failing = s.report.save_error if s.report else None
    _set_reported(draft, s, CHECKPOINT_FAILING, failing, true="SaveFailed", false="NotFailing")
    silence = _storage_trouble(draft, s)
    _set_reported(draft, s, STORAGE_UNREACHABLE, silence, true="NotServing", false="Serving")
    # The copy of the state for a save does not fit into the container's memory, so the kernel may kill the trainer.
    short = s.report.memory_warning if s.report else None
    _set_reported(draft, s, "MemoryShort", short, true="NoRoomForSave", false="Enough")


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


def _set_feature_off(draft: Draft) -> None:
    """FeatureOff: the job asks for a feature whose gate is off, so it runs without it."""
    job, gate = draft.snapshot.job, PEER_COPIES
    is_off = job.spec.checkpoint.peers and gate.name not in draft.snapshot.config.gates
    message = (
        f"checkpoint.peers: the gate {gate.name} is off, so the training runs without copies on other nodes; an"
        f" administrator sets featureGates.{gate.name}"
    )
    _warn(draft, FEATURE_OFF, message if is_off else "", true=gate.name, false=gate.name)


def _storage_trouble(draft: Draft, s: Situation) -> str | None:
    """Since when the storage does not answer, and what an interruption costs meanwhile. None if it answers."""
    if s.report is None or (silence := s.report.storage_silence) is None:
        return None
    said = f"the storage of checkpoints has served no call since {say_time(silence.since)}"
    saved = s.report.checkpoint or draft.status.checkpoint
    if s.report.first_step is None and s.report.state in ("starting", "waiting"):
        lost = "the program waits for it, and has trained no step yet"
    elif saved is None:
        lost = "saves wait, and there is no commit yet: if the node is lost now, all is lost"
    else:
        at = ("" if saved.step is None else f"step {saved.step}, ") + say_time(saved.committed_at)
        lost = f"saves wait, and the last commit is of {at}: if the node is lost now, what came after it is lost"
    return f"{said}; {lost} ({silence.why})"


def _set_reported(draft: Draft, s: Situation, kind: str, trouble: str | None, *, true: str, false: str) -> None:
    """Set a condition about the trouble that the newest report has; None: it has none."""
    was_true = is_true(draft, kind)
    if was_true and s.report is None and s.sight is Sight.RUNNING:
        return  # an operator that has just started has no report yet
    if was_true and trouble and not draft.changed:
        return  # every report may have another text: that alone is not worth a write
    _warn(draft, kind, trouble or "", true=true, false=false)


def _warn(draft: Draft, kind: str, trouble: str, *, true: str, false: str) -> None:
    """Set a condition about trouble, in words, with an Event when it begins. Empty: there is none, or none any more.

    `true`, `false`: its reason while there is trouble, and afterwards. A job that never had it lacks the condition.
    """
    if trouble and not is_true(draft, kind):
        draft.event(kind, trouble, warning=True)
    if trouble or find_condition(draft, kind):
        _set(draft, kind, bool(trouble), true if trouble else false, trouble)


def find_condition(draft: Draft, kind: str) -> Condition | None:
    """The condition of that type, or None."""
    for condition in draft.status.conditions:
        if condition.type == kind:
            return condition
    return None


def is_true(draft: Draft, kind: str) -> bool:
    """True if the condition of that type is there, and True."""
    found = find_condition(draft, kind)
    return found is not None and found.status == "True"


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
