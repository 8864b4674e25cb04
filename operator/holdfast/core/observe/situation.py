"""The situation of an attempt: its pod, node, report and notice, as they are seen now."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.status import TrainingJobStatus
from holdfast.core.observe.nodes import NodeView
from holdfast.core.observe.notices import Notice, find_notice
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.report import Report
from holdfast.core.observe.snapshot import Snapshot


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


class Situation(NamedTuple):
    """What is seen of one attempt at one moment."""

    now: datetime
    sight: Sight
    pod: PodView | None = None
    node: NodeView | None = None
    report: Report | None = None
    notice: Notice | None = None

    def clamp_time(self, at: datetime | None, since: datetime) -> datetime:
        """Clamp another machine's timestamp to [since, now]; None becomes now.

        Clocks differ, and a kubelet and a scheduler report whole seconds: otherwise a program could start before its
        pod had a node.
        """
        return max(min(at or self.now, self.now), since)


def look(snapshot: Snapshot, attempt: Attempt | None, created: frozenset[int] = frozenset()) -> Situation:
    """The situation of `attempt`. `created`: numbers of attempts whose pods this decision creates."""
    if attempt is None or attempt.state is AttemptState.INTENDED:
        return Situation(snapshot.now, Sight.NOTHING)
    pod = pod_of(snapshot, attempt)
    if pod is None:
        return Situation(snapshot.now, _missing(attempt, created))
    node = snapshot.cluster.nodes.get(pod.node) if pod.node else None
    sight = _seen(attempt, pod, node)
    notice = None
    if sight in (Sight.PLACED, Sight.RUNNING):
        notice = find_notice(pod, node, snapshot.now, snapshot.job.spec.checkpoint.grace_period)
    return Situation(snapshot.now, sight, pod, node, snapshot.reports.get(pod.uid), notice)


def pod_of(snapshot: Snapshot, attempt: Attempt) -> PodView | None:
    """The pod of an attempt (rank 0), or None. Once it was on a node, another pod with its name does not count."""
    known = attempt.pods[0].uid if attempt.pods else None
    mine = (pod for pod in snapshot.pods if pod.attempt == attempt.number and pod.rank == 0)
    return next((pod for pod in mine if known in (None, pod.uid)), None)


def is_live(status: TrainingJobStatus, pod: PodView) -> bool:
    """True if the pod may be computing, or may still start.

    A pod that status counts as lost (its node fell silent and the storage fence makes it harmless, or its node is gone)
    is not live, although its end was not seen. Another pod with its name is live: an operator with an old view of the
    job may have made it.
    """
    if pod.ended or (pod.node is None and pod.deleted_at) or pod.attempt <= status.ledger.folded_through:
        return False
    lost = next((one for one in status.history if one.number == pod.attempt and one.estimated), None)
    if lost is None or pod.node is None:  # the lost pod had a node
        return True
    return lost.pod_uid not in (None, pod.uid)


def _missing(attempt: Attempt, created: frozenset[int]) -> Sight:
    if attempt.number in created:
        return Sight.CREATED
    return Sight.ABSENT if attempt.state is AttemptState.ACQUIRING else Sight.VANISHED


def _seen(attempt: Attempt, pod: PodView, node: NodeView | None) -> Sight:
    if pod.ended:
        return Sight.ENDED
    if pod.node is None:
        return Sight.PENDING
    seen = attempt.pods[0].node_uid if attempt.pods else None
    # A node that was never seen is not gone: the cache of nodes may lag behind the cache of pods. A node that was
    # registered again under its name may still run the pod, which says itself how it ends.
    if node is None and seen:
        return Sight.NODE_GONE
    if node and not node.ready:
        return Sight.SILENT
    running = pod.trainer is not None and pod.trainer.running
    return Sight.RUNNING if running else Sight.PLACED
