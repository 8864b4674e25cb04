"""Claims: which trainings on several nodes wait for nodes, how many they hold meanwhile, and which of them goes first.

Kubernetes gives nodes pod by pod. Two trainings that each hold a part of the last nodes would wait for each other. So a
training that holds a part while another one goes first gives its part back (`core.attempt.line`). A claim is derived
from the status and the pods of its job alone, so every operator derives the same one, also after a restart.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.objects import TrainingJob
from holdfast.api.status import TrainingJobStatus
from holdfast.core.observe.members import fresh_ranks, pods_by_rank
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.pods import PodView

WARM, COLD, CAN_WAIT = range(3)  # how urgent a claim is, most urgent first
WAITING = (AttemptState.INTENDED, AttemptState.ACQUIRING)


@dataclass(frozen=True, slots=True)
class Claim:
    """What one attempt with several nodes takes, or waits for. `order`: the smaller one of two claims goes first."""

    namespace: str
    job: str
    order: tuple[int, datetime, str]
    selector: frozenset[tuple[str, str]]  # labels of the nodes that it asks for
    wants: int  # nodes
    held: int  # nodes that its pods have
    short: bool  # at least one of its pods gets no node
    in_line: bool  # it had to wait for its turn, and does not have all of its nodes yet
    nominated: bool  # the scheduler or an autoscaler has chosen a node for one of its pods
    not_before: datetime | None  # no pod of it is created before
    until: datetime | None  # when its tier has had its time
    refused: bool = False  # the API server refused at least one of its pods, as for a quota of its namespace

    @property
    def is_warm(self) -> bool:
        """True if it holds pods whose programs have run, and which wait with their memory for the rest."""
        return self.order[0] == WARM

    @property
    def holds_part(self) -> bool:
        """True if it has some of its nodes, and not all."""
        return 0 < self.held < self.wants

    @property
    def is_incomplete(self) -> bool:
        """True if it cannot get all of its nodes now."""
        return self.short or self.refused

    def blocks(self, other: "Claim") -> bool:
        """True if it gets no more nodes now, and holds a part or has waited for its turn.

        A refusal counts only in its own namespace: nodes that others leave free are of no use to it. Otherwise a small
        quota in one namespace would stop the trainings of all others.
        """
        stuck = self.short or (self.refused and self.namespace == other.namespace)
        return stuck and (self.holds_part or self.in_line)

    @property
    def matters(self) -> bool:
        """True if another training may have to wait for it, or to give way to it."""
        return self.is_incomplete or self.in_line

    def counts(self, now: datetime) -> bool:
        """True while its tier has time left. After that it gives all back, so others need not wait for it."""
        return self.nominated or (self.until is not None and now < self.until)

    def is_next(self, now: datetime) -> bool:
        """True if it is in the line, and no delay of its own keeps it from creating its pods."""
        return self.in_line and (self.not_before is None or self.not_before <= now)

    def competes(self, other: "Claim", cluster: ClusterView) -> bool:
        """True if a node can be wanted by both: they ask for the same labels, or one node has the labels of both."""
        if self.selector == other.selector:
            return True
        both = self.selector | other.selector
        return cluster.once(("both", both), lambda: any(both <= node.labels.items() for node in cluster.nodes.values()))


def has_claims(job: TrainingJob | None) -> bool:
    """True if an attempt of the job with several nodes waits for nodes."""
    if job is None or job.spec.trainer.nodes == 1 or job.metadata.deletion_timestamp is not None:
        return False
    return any(one is not None and is_waiting(one) for one in (job.status.current, job.status.successor))


def is_waiting(attempt: Attempt) -> bool:
    """True if the attempt has several nodes, and does not have all of them yet."""
    return attempt.nodes > 1 and attempt.state in WAITING


def claims_of(job: TrainingJob, pods: Iterable[PodView]) -> tuple[Claim, ...]:
    """The claims of a job; `pods` may contain pods of an earlier job with its name."""
    if not has_claims(job):
        return ()
    mine = [pod for pod in pods if pod.job_uid == job.metadata.uid]
    attempts = (job.status.current, job.status.successor)
    return tuple(claim_of(job, job.status, one, mine) for one in attempts if one is not None and is_waiting(one))


def claim_of(job: TrainingJob, status: TrainingJobStatus, attempt: Attempt, pods: Iterable[PodView]) -> Claim:
    """The claim of one attempt; `pods` are those of its job."""
    there = {rank: pod for rank, pod in pods_by_rank(pods, attempt).items() if not pod.ended}
    fresh = fresh_ranks(attempt)
    unplaced = [there[rank] for rank in fresh if rank in there and there[rank].node is None]
    since = attempt.in_line_since or attempt.raised_at
    return Claim(
        namespace=job.metadata.namespace or "",
        job=job.metadata.name,
        order=(_urgency(status, attempt), since, job.metadata.uid),
        selector=frozenset(attempt.tier.node_selector.items()),
        wants=attempt.nodes,
        held=sum(pod.node is not None for pod in there.values()),
        short=any(pod.unscheduled_reason and not pod.deleted_at for pod in unplaced),
        in_line=attempt.in_line_since is not None,
        nominated=any(pod.nominated for pod in unplaced),
        not_before=attempt.retry_at,
        until=attempt.acquire_deadline,
        refused=attempt.refusals > 0 and any(rank not in there for rank in fresh),
    )


def _urgency(status: TrainingJobStatus, attempt: Attempt) -> int:
    if _has_run(status, attempt):
        return WARM
    return CAN_WAIT if attempt is status.successor and not must_leave(status) else COLD


def _has_run(status: TrainingJobStatus, attempt: Attempt) -> bool:
    """True if a program of an earlier attempt has run in a pod that the attempt took over."""
    oldest = min((group.born for group in attempt.members), default=attempt.number)
    if oldest == attempt.number:
        return False
    current = status.current
    if current is not None and current is not attempt and current.started_at and current.number >= oldest:
        return True
    return any(record.started_at and record.number >= oldest for record in status.history)


def must_leave(status: TrainingJobStatus) -> bool:
    """True if the current attempt has to leave whether or not a successor gets its nodes."""
    current = status.current
    return current is not None and (current.departure is not None or current.state is AttemptState.DRAINING)
