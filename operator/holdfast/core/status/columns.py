"""Phase, tier, node and reason of a job, as `kubectl get` shows them."""

from typing import Final

from holdfast.api.attempt import AttemptState, EndReason
from holdfast.api.status import Phase
from holdfast.core.attempt.all_or_none import waiting_for
from holdfast.core.attempt.pause import pause_reason
from holdfast.core.capacity.grid import may_get_pods
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Sight, Situation
from holdfast.core.status.long_waits import WAITING_FOR_ROOM, stuck_pod
from holdfast.core.status.nodes_ready import show_nodes
from holdfast.core.status.staging import REASON, is_staging
from holdfast.core.status.start_blocked import trouble_of
from holdfast_protocol.reasons import STORAGE_UNREACHABLE

PROFILE_NOT_FOUND: Final = "ProfileNotFound"


def set_columns(draft: Draft, s: Situation) -> None:
    """Set them, and the number of nodes that are ready."""
    status, generation = draft.status, draft.snapshot.job.metadata.generation
    if status.is_over:
        draft.set(observed_generation=generation, tier=None, node=None)
        show_nodes(draft, s)
        return
    current = status.current
    if profile := _awaited_profile(draft):
        _explain_missing_profile(draft, profile)
    draft.set(
        observed_generation=generation,
        phase=_phase(draft),
        tier=current.tier.name if current else None,
        node=current.pods[0].node if current and current.pods else None,
        reason=_reason(draft, s),
    )
    show_nodes(draft, s)


def _phase(draft: Draft) -> Phase:
    status = draft.status
    if status.current is None:
        return Phase.SUSPENDED if status.suspended_at else Phase.ACQUIRING
    match status.current.state:
        case AttemptState.INTENDED:
            return Phase.RECOVERING if status.restarts.interruptions or status.restarts.failures else Phase.ACQUIRING
        case AttemptState.ACQUIRING:
            return Phase.ACQUIRING
        case AttemptState.STARTING:
            return Phase.STARTING
        case AttemptState.RUNNING:
            if status.current.departure:
                return Phase.MIGRATING
            return Phase.STARTING if is_staging(draft) else Phase.RUNNING
        case AttemptState.DRAINING:
            drain = status.current.drain
            if drain and drain.reason == EndReason.NODE_SILENT:
                return Phase.RECOVERING
            return Phase.MIGRATING if status.successor else Phase.RUNNING


def _reason(draft: Draft, s: Situation) -> str | None:
    status, current = draft.status, draft.status.current
    if current is None:
        if status.suspended_at:
            why = pause_reason(draft) or EndReason.SUSPENDED
            return status.misconfigured.reason if why is EndReason.MISCONFIGURED and status.misconfigured else why
        return PROFILE_NOT_FOUND if _awaited_profile(draft) else None
    if current.state is AttemptState.DRAINING and current.drain:
        if stuck_pod(draft, s):
            return EndReason.NEVER_ENDED
        return "Suspending" if current.drain.reason == EndReason.SUSPENDED else current.drain.reason
    if current.state is AttemptState.INTENDED:
        if _awaited_profile(draft):
            return PROFILE_NOT_FOUND
        if current.retry_at and s.now < current.retry_at:
            return EndReason.POD_REFUSED if current.refusals else "BackOff"
        return WAITING_FOR_ROOM if waiting_for(draft) else "WaitingForOldPod"
    if current.departure:
        return current.departure.reason
    if trouble := trouble_of(draft, s):
        return trouble.reason
    if s.sight is Sight.SILENT:
        return EndReason.NODE_SILENT
    if s.report and s.report.storage_silence:
        return STORAGE_UNREACHABLE
    return REASON if is_staging(draft) else None


def _awaited_profile(draft: Draft) -> str | None:
    """The name of the job's capacity profile if no such profile exists, and no pod can be created without it."""
    snapshot, current = draft.snapshot, draft.status.current
    waits = not draft.status.suspended_at if current is None else (
        current.state is AttemptState.INTENDED and not may_get_pods(snapshot.grid, current)
    )  # fmt: skip
    return snapshot.job.spec.capacity.profile if waits and snapshot.profile is None else None


def _explain_missing_profile(draft: Draft, profile: str) -> None:
    text = f"capacity profile {profile} does not exist: create it, or name another one in spec.capacity.profile"
    before = draft.status.decision
    draft.explain("Wait", text)
    if before != draft.status.decision:
        draft.event(PROFILE_NOT_FOUND, text, warning=True)
