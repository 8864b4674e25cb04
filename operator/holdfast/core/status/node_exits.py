"""Attempts that left their nodes, and costs of interruptions, that are new in a status.

Both enter status.history in one patch and never change, so comparing consecutive statuses counts each exactly once.
"""

from dataclasses import dataclass

from holdfast.api.attempt import EndKind, EndReason, Recovery
from holdfast.api.profile import TierKind
from holdfast.api.status import TrainingJobStatus
from holdfast.core.attempt.stuck import STUCK_AFTER_CONFIG_GRACE, STUCK_AFTER_PULL_GRACE, STUCK_AT_ONCE
from holdfast.core.attempt.why_ended import KUBELET_REASONS, NOT_BEGUN, STORAGE_BROKEN
from holdfast.core.books.ledger import totals_of
from holdfast.core.observe.notices import NOTICE_REASONS
from holdfast_protocol import reasons

OTHER = "Other"  # a reason that Holdfast does not know: of a program, a kubelet or another controller
OUT_OF_RESOURCE = "OutOfResource"  # a kubelet reports OutOfcpu, OutOfnvidia.com/gpu: the resource that its node lacks

# These end an attempt that has no node, or training itself: no node is left.
_NO_EXIT = frozenset(
    (EndReason.ACQUIRE_TIMEOUT, EndReason.OTHER_TIER, EndReason.TIER_REMOVED, EndReason.POD_REFUSED,
     EndReason.POD_INVALID, EndReason.COMMAND_NOT_FOUND, EndReason.PYTHON_INCOMPLETE, EndReason.EXITED,
     EndReason.EXIT_CODE, EndReason.OUT_OF_MEMORY)
)  # fmt: skip
_OWN = frozenset(reason.value for reason in EndReason) - _NO_EXIT
_LAUNCHER = frozenset((reasons.SAVED_AND_LEFT, reasons.LEFT_WITHOUT_SAVING))
# Reasons of the condition DisruptionTarget, by Kubernetes itself.
_DISRUPTIONS = frozenset(
    ("DeletionByPodGC", "DeletionByTaintManager", "EvictionByEvictionAPI", "PreemptionByScheduler",
     "TerminationByKubelet")
)  # fmt: skip

REASONS = frozenset((OTHER, OUT_OF_RESOURCE)).union(
    _OWN, _LAUNCHER, _DISRUPTIONS, NOTICE_REASONS, KUBELET_REASONS, NOT_BEGUN, STORAGE_BROKEN,
    STUCK_AT_ONCE, STUCK_AFTER_CONFIG_GRACE, STUCK_AFTER_PULL_GRACE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeExit:
    """An attempt that left its node although training was not complete and the program had not failed."""

    kind: TierKind
    """Kind of the tier that the attempt left."""
    reason: str
    """Why, one of REASONS."""


def node_exits(before: TrainingJobStatus, after: TrainingJobStatus) -> tuple[NodeExit, ...]:
    """The attempts that left their nodes since the status before."""
    if before.ledger.attempts == after.ledger.attempts:
        return ()
    known = {record.number for record in before.history}
    return tuple(
        NodeExit(totals.kind, known_reason(record.reason))
        for record in after.history
        if record.number not in known
        and record.kind in (EndKind.INTERRUPTION, EndKind.STOPPED)
        and record.scheduled_at is not None
        and (totals := totals_of(after.ledger, record.tier)) is not None
    )


def new_recoveries(before: TrainingJobStatus, after: TrainingJobStatus) -> tuple[Recovery, ...]:
    """The costs of interruptions that became known since the status before.

    Those of a program without Holdfast's checkpoints are left out: its repeated steps are not known.
    """
    known = {record.number for record in before.history if record.recovery is not None}
    return tuple(
        record.recovery
        for record in after.history
        if record.recovery is not None and record.steps_lost is not None and record.number not in known
    )


def known_reason(reason: str) -> str:
    """The reason if it is one of REASONS, otherwise OTHER or OUT_OF_RESOURCE."""
    if reason in REASONS:
        return reason
    return OUT_OF_RESOURCE if reason.startswith("OutOf") else OTHER
