"""Which pods may report for which job."""

from collections.abc import Callable

from holdfast.core.observe.members import is_member
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.serve.progress_endpoint import Standing


class PodMembership:
    """Says, from the cache, if a pod may report for a job: its job UID matches, and its attempt is the current one or
    the successor.

    An attempt that drains is the current one until it ends. A pod of any other attempt gets 403: its attempt has ended
    or was never decided, and another attempt may hold the fence.
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
        status = found.status
        works_for = {one.number for one in (status.current, status.successor) if one and is_member(one, pod)}
        if status.attempt == 0 and pod.attempt == 1:  # the first pod is created before status is written
            works_for.add(1)
        if status.current is None and pod.outlives and attempt is None:  # its launcher asks whether it may end
            return Standing.MEMBER
        known = works_for if attempt is None else works_for & {attempt}
        return Standing.MEMBER if known else Standing.STRANGER
