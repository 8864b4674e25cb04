"""Which pods may report for which job."""

from collections.abc import Callable

from holdfast.runtime.cache import Cache, Key
from holdfast.serve.progress import Standing


class Membership:
    """Answers from the cache. A pod belongs to a job if its UID says so and its attempt is not over.

    An attempt is over once it is in history: then another attempt may hold the fence, and the pod is told 403.
    """

    def __init__(self, cache: Cache, synced: Callable[[], bool]) -> None:
        self._cache = cache
        self._synced = synced

    def __call__(self, namespace: str, job: str, pod_uid: str, attempt: int | None) -> Standing:
        """What this pod is to this job."""
        pod, found = self._cache.pod(pod_uid), self._cache.jobs.get(Key(namespace, job))
        if pod is None or found is None:
            return Standing.STRANGER if self._synced() else Standing.UNKNOWN
        if (pod.namespace, pod.job, pod.job_uid) != (namespace, job, found.metadata.uid):
            return Standing.STRANGER
        if attempt is not None and attempt != pod.attempt:
            return Standing.STRANGER
        status = found.status
        live = {one.number for one in (status.current, status.successor) if one}
        over = pod.attempt <= status.ledger.folded_through or any(r.number == pod.attempt for r in status.history)
        if pod.attempt in live or not (over or pod.attempt > status.attempt):
            return Standing.MEMBER
        return Standing.STRANGER
