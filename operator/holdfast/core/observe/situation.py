"""The situation of an attempt: its pod, node, report and notice, as they are seen now."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from holdfast.api.attempt import AttemptRecord
from holdfast.api.status import TrainingJobStatus
from holdfast.core.observe.members import LauncherView
from holdfast.core.observe.nodes import NodeView
from holdfast.core.observe.notices import Notice
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.report import Report


class Sight(StrEnum):
    """What is seen of an attempt's pod."""

    NOTHING = "nothing"  # there is no attempt, or its pod must not exist yet
    CREATED = "just created"  # by this decision
    ABSENT = "absent"  # the pod should exist; it was never seen on a node
    VANISHED = "vanished"  # the pod was on a node and no longer exists
    PENDING = "waiting for a node"
    PLACED = "on a node"  # the trainer does not run yet
    RUNNING = "running"
    ENDED = "ended"
    SILENT = "node silent"
    NODE_GONE = "node gone"


class Member(NamedTuple):
    """What is seen of one pod of an attempt with several nodes."""

    rank: int
    born: int  # number of the attempt that created the pod
    sight: Sight
    pod: PodView | None = None
    node: NodeView | None = None
    report: LauncherView | None = None  # of its launcher
    notice: Notice | None = None
    over: bool = False  # its launcher told how the program of this attempt ended

    @property
    def goes_on(self) -> bool:
        """True if the pod can start another program: it lives, and neither it nor its node is about to go."""
        pod = self.pod
        if pod is None or pod.ended or pod.deleted_at or self.notice is not None:
            return False
        return self.sight not in (Sight.NODE_GONE, Sight.SILENT)


class Situation(NamedTuple):
    """What is seen of one attempt at one moment.

    With several nodes, `pod` and `node` are of the member that decides (`core.observe.look` says which), `report` is
    of the trainer of rank 0, and `notice` is the most urgent one. `members` is empty with one node.

    A member that has ended, or is silent, may stay so for a while before it ends the attempt. The other members still
    have to leave in time, so what is seen of them is in `besides`.
    """

    now: datetime
    sight: Sight
    pod: PodView | None = None
    node: NodeView | None = None
    report: Report | None = None
    notice: Notice | None = None
    members: tuple[Member, ...] = ()
    besides: frozenset[Sight] = frozenset()  # what is seen of the others too, while one of several ended or is silent

    @property
    def sights(self) -> frozenset[Sight]:
        """The sights for which rows of the table are tried."""
        return self.besides | {self.sight}

    def clamp_time(self, at: datetime | None, since: datetime) -> datetime:
        """Clamp another machine's timestamp to [since, now]; None becomes now.

        Clocks differ, and a kubelet and a scheduler report whole seconds: otherwise a program could start before its
        pod had a node.
        """
        return max(min(at or self.now, self.now), since)


def is_live(status: TrainingJobStatus, pod: PodView) -> bool:
    """True if the pod may be computing, or may still start.

    A pod that status counts as lost (its node fell silent and the storage fence makes it harmless, or its node is gone)
    is not live, although its end was not seen. Another pod with its name is live: an operator with an old view of the
    job may have made it. A pod of several nodes outlives attempts: only a record with its UID says that it was lost.
    """
    if pod.ended or (pod.node is None and pod.deleted_at):
        return False
    if pod.attempt <= status.ledger.folded_through and not pod.outlives:  # its record was dropped from history
        return False
    lost = any(one.estimated and _is_about(one, pod) for one in status.history)
    return not lost or pod.node is None  # the lost pod had a node


def _is_about(record: AttemptRecord, pod: PodView) -> bool:
    """True if the end of that attempt may have been the end of this pod.

    With several nodes, the number of a pod only says which attempt created it. It may have worked for any later one.
    """
    if record.pod_uid is not None:
        return record.pod_uid == pod.uid
    return record.number == pod.attempt and not pod.outlives
