"""Conditions of a job: those of Job (Complete, Failed, Suspended), CapacityAcquired, Progressing, and warnings."""

from typing import Final, Literal, NamedTuple, get_args

from holdfast.api.attempt import AttemptState
from holdfast.api.status import Condition, Phase
from holdfast.core.attempt.all_or_none import never_fits
from holdfast.core.attempt.pause import PauseReason
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Sight, Situation
from holdfast_protocol.gates import PEER_COPIES

CHECKPOINT_FAILING: Final = "CheckpointFailing"
FEATURE_OFF: Final = "FeatureOff"
NEVER_FITS: Final = "NeverFits"
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
    _set(draft, "Complete", phase is Phase.COMPLETED, reason if phase.final and reason else "NotFinished")
    failed = phase is Phase.FAILED
    _set(draft, "Failed", failed, (reason if failed else None) or "NotFailed", explanation if failed else "")
    draining = current is not None and current.drain is not None and current.drain.reason in get_args(PauseReason)
    suspended = phase is Phase.SUSPENDED
    why = (reason or "Suspended") if suspended else "Suspending" if draining else "NotSuspended"
    _set(draft, "Suspended", suspended, why)
    _set_progress_unreachable(draft, s)
    _set_feature_off(draft)
    _set_never_fits(draft)
    _set_reported(draft, s, _CHECKPOINT_FAILING, s.report.save_error if s.report else None)
    _set_reported(draft, s, _MEMORY_SHORT, s.report.memory_warning if s.report else None)


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
    known = find_condition(draft, FEATURE_OFF)
    is_off = job.spec.checkpoint.peers and gate.name not in draft.snapshot.config.gates
    message = (
        f"checkpoint.peers: the gate {gate.name} is off, so the training runs without copies on other nodes; an"
        f" administrator sets featureGates.{gate.name}"
    )
    if is_off and (known is None or known.status != "True"):
        draft.event(FEATURE_OFF, message, warning=True)
    if is_off or known:
        _set(draft, FEATURE_OFF, is_off, gate.name, message if is_off else "")


def _set_never_fits(draft: Draft) -> None:
    """NeverFits: no tier has as many nodes as the training needs, and nothing brings more."""
    known, current = find_condition(draft, NEVER_FITS), draft.status.current
    waits = current is None or current.state is AttemptState.INTENDED
    message = never_fits(draft) if waits and not draft.status.is_over else ""
    if message and (known is None or known.status != "True"):
        draft.event(NEVER_FITS, message, warning=True)
    if message or known:
        _set(draft, NEVER_FITS, bool(message), "TooFewNodes" if message else "EnoughNodes", message)


class _Reported(NamedTuple):
    """A condition that says what the trainer reports, with its reasons while it is True and while it is False."""

    kind: str
    true: str
    false: str


# The trainer's saves fail. Training goes on, but losing the pod costs more and more.
_CHECKPOINT_FAILING = _Reported(CHECKPOINT_FAILING, "SaveFailed", "NotFailing")
# The copy of the state for a save does not fit into the container's memory, so the kernel may kill the trainer.
_MEMORY_SHORT = _Reported("MemoryShort", "NoRoomForSave", "Enough")


def _set_reported(draft: Draft, s: Situation, condition: _Reported, trouble: str | None) -> None:
    """Set a condition about the trouble that the newest report has; None: it has none."""
    known = find_condition(draft, condition.kind)
    was_true = known is not None and known.status == "True"
    if was_true and s.report is None and s.sight is Sight.RUNNING:
        return  # an operator that has just started has no report yet
    if was_true and trouble and not draft.changed:
        return  # every report may have another text: that alone is not worth a write
    if trouble and not was_true:
        draft.event(condition.kind, trouble, warning=True)
    if trouble or known:
        _set(draft, condition.kind, bool(trouble), condition.true if trouble else condition.false, trouble or "")


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
