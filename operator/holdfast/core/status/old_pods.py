"""Pods of attempts that are over: deleted, released from the finalizer, or kept for their logs."""

from holdfast.api.attempt import AttemptState
from holdfast.core.attempt.drain import delete_again, has_to_leave
from holdfast.core.decision import HoldPod, ReleasePod, UnprotectPod
from holdfast.core.draft import Draft
from holdfast.core.observe.members import is_member
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import is_live
from holdfast.core.status.last_logs import may_end_itself

KEPT_FOR_LOGS = 8  # pods of a job
NEWEST = 2  # so many of the newest pods are among them, of any rank


def tidy_pods(draft: Draft) -> None:
    """Bring the pods of the job in line with its attempts."""
    logs = _pods_kept_for_logs(draft)
    for pod in draft.snapshot.pods:
        _tidy_pod(draft, pod, logs)
    for pod in draft.forged:  # somebody gave it the labels of a pod; only our finalizer on it is ours
        if pod.finalized:
            draft.act(ReleasePod(pod.name, pod.uid))


def _tidy_pod(draft: Draft, pod: PodView, logs: frozenset[str]) -> None:
    """Delete and release the pod of an attempt that is over. A pod of a later attempt than status knows stays.

    Such a pod shows that this view of the job is old: the pod may be needed, unless the job is over. These actions need
    no status patch, so they must be right in every future of this view. They are, because an attempt that was given up
    never comes back.
    """
    job, current = draft.snapshot.job, draft.status.current
    if job.metadata.deletion_timestamp:
        if pod.finalized and not is_live(draft.status, pod):
            draft.act(ReleasePod(pod.name, pod.uid))
        return
    successor = draft.status.successor
    wanted = is_member(current, pod) or is_member(successor, pod)
    may_be_needed = pod.attempt > draft.status.attempt and not job.status.is_over
    if wanted and not (pod.finalized or pod.ended or pod.deleted_at):
        draft.act(HoldPod(pod.name, pod.uid))
    if wanted or may_be_needed:
        if _is_leaving(draft, pod):
            delete_again(draft, pod)
            if pod.protected:
                draft.act(UnprotectPod(pod.name, pod.uid))
        return
    if pod.finalized and not is_live(draft.status, pod):
        draft.act(ReleasePod(pod.name, pod.uid))
    if may_end_itself(draft, pod):
        draft.dismiss(pod)
    elif pod.uid not in logs:
        draft.delete_pod(pod)


def _is_leaving(draft: Draft, pod: PodView) -> bool:
    """True if the current attempt is ordered to leave, and its pod has to end for that."""
    current = draft.status.current
    if current is None or current.state is not AttemptState.DRAINING or not is_member(current, pod):
        return False
    members = draft.situation().members  # by rank
    return pod.rank >= len(members) or has_to_leave(draft, current, members[pod.rank])


def _pods_kept_for_logs(draft: Draft) -> frozenset[str]:
    """The UIDs of at most KEPT_FOR_LOGS pods that ended on a node: people read their logs.

    First the newest pod of the rank that the last end is about, and of rank 0; then the newest pods; then the newest
    one of each rank. The phase does not count: a kubelet says that the containers ended about a second before it. A pod
    in which a container of another maker still runs holds its node, and is not kept.
    """
    ended = [p for p in draft.snapshot.pods if p.ended and not p.others_run and p.node and p.deleted_at is None]
    ended.sort(key=lambda pod: (pod.attempt, -pod.rank))
    of_rank = {pod.rank: pod for pod in ended}  # the newest
    ranks = (record.rank for record in reversed(draft.status.history))
    blamed = next((rank for rank in ranks if rank is not None and rank in of_rank), 0)
    first = [of_rank[rank] for rank in (blamed, 0) if rank in of_rank]
    rest = [of_rank[rank] for rank in sorted(of_rank)]
    kept = dict.fromkeys(pod.uid for pod in (*first, *reversed(ended[-NEWEST:]), *rest))
    return frozenset(tuple(kept)[:KEPT_FOR_LOGS])
