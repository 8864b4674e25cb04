"""What a new status tells that the one before did not: attempts that left their nodes, what interruptions took.

History has both from one patch on, and neither changes after it: whoever compares each status with the one before sees
each of them once.
"""

from dataclasses import dataclass

from holdfast.api.attempt import EndKind, Recovery
from holdfast.api.profile import TierKind
from holdfast.api.status import TrainingJobStatus
from holdfast.core.attempt.stuck import STUCK_AFTER_CONFIG_GRACE, STUCK_AFTER_PULL_GRACE, STUCK_AT_ONCE
from holdfast.core.attempt.why_ended import KUBELET_REASONS, NOT_BEGUN, STORAGE_BROKEN
from holdfast.core.books.ledger import totals_of
from holdfast.core.observe.notices import NOTICE_REASONS

OTHER = "Other"  # a reason that somebody else made up: a program, a kubelet or a controller of its own kind
OUT_OF_RESOURCE = "OutOfResource"  # a kubelet says OutOfcpu, OutOfnvidia.com/gpu: whatever its node lacks

_OWN = frozenset(
    ("BudgetExceeded", "DeadlineExceeded", "Fenced", "KeepingDeadline", "Killed", "MoveRequested", "NeverEnded",
     "NodeGone", "NodeSilent", "NotNeeded", "NotWorthIt", "OverlapTooLong", "PodDeleted", "PodFailed", "PodGone",
     "Returning", "StartTimeout", "Suspended", "Unreachable")
)  # fmt: skip
_LAUNCHER = frozenset(("SavedAndLeft", "LeftWithoutSaving"))
# Reasons of the condition DisruptionTarget, by Kubernetes itself.
_DISRUPTIONS = frozenset(
    ("DeletionByPodGC", "DeletionByTaintManager", "EvictionByEvictionAPI", "PreemptionByScheduler",
     "TerminationByKubelet")
)  # fmt: skip

REASONS = frozenset((OTHER, OUT_OF_RESOURCE, "Evicted")).union(
    _OWN, _LAUNCHER, _DISRUPTIONS, NOTICE_REASONS, KUBELET_REASONS, NOT_BEGUN, STORAGE_BROKEN,
    STUCK_AT_ONCE, STUCK_AFTER_CONFIG_GRACE, STUCK_AFTER_PULL_GRACE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Move:
    """An attempt that left its node, although training was neither complete nor had it failed by itself."""

    kind: TierKind
    """Kind of the tier that it left."""
    reason: str
    """Why, one of REASONS."""


def moves(before: TrainingJobStatus, after: TrainingJobStatus) -> tuple[Move, ...]:
    """The attempts that left their nodes since the status before."""
    if before.ledger.attempts == after.ledger.attempts:
        return ()
    known = {record.number for record in before.history}
    return tuple(
        Move(totals.kind, known_reason(record.reason))
        for record in after.history
        if record.number not in known
        and record.kind in (EndKind.LOSS, EndKind.STOPPED)
        and record.scheduled_at is not None
        and (totals := totals_of(after.ledger, record.tier)) is not None
    )


def recoveries(before: TrainingJobStatus, after: TrainingJobStatus) -> tuple[Recovery, ...]:
    """What interruptions took, of which that became known since the status before."""
    known = {record.number for record in before.history if record.recovery is not None}
    return tuple(
        record.recovery for record in after.history if record.recovery is not None and record.number not in known
    )


def known_reason(reason: str) -> str:
    """The reason if it is one of REASONS, else what stands for it there."""
    if reason in REASONS:
        return reason
    return OUT_OF_RESOURCE if reason.startswith("OutOf") else OTHER
