"""Pods whose job was deleted. Garbage collection deletes them; once they have ended, our finalizer must go."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Key
from holdfast.runtime.pod_writer import PodWriter

log = logging.getLogger(__name__)

OVERDUE = timedelta(seconds=5)


def is_releasable(pod: PodView, cluster: ClusterView, now: datetime) -> bool:
    """True if the pod has our finalizer and has ended, or if no kubelet can ever report its end."""
    if not pod.finalized:
        return False
    if pod.ended or pod.node is None:
        return pod.ended or pod.deleted_at is not None
    if pod.node not in cluster.nodes:
        return pod.deleted_at is not None
    # The node is not ready, and a user has deleted the pod by force.
    if pod.deletion_grace == 0 and not cluster.nodes[pod.node].ready:
        return True
    # The pod was deleted before its containers started, or the kubelet finished without a status of the trainer.
    never_ran = pod.trainer is None or not (pod.trainer.running or pod.trainer.ended)
    return pod.deleted_at is not None and never_ran and now > pod.deleted_at + OVERDUE


class OrphanedPods:
    """Removes the finalizer from ended pods of deleted jobs."""

    def __init__(self, writer: GatedWriter, pods: PodWriter) -> None:
        self._writer = writer
        self._pods = pods

    async def release(
        self, key: Key, orphans: Iterable[PodView], cluster: ClusterView, now: datetime
    ) -> timedelta | None:
        """Release the pods that may be released, if the API server confirms that the job is deleted.

        Returns when to look again, None if the next change of a pod is early enough. Raises ApiError.
        """
        waiting = [pod for pod in orphans if pod.finalized]
        ready = [pod for pod in waiting if is_releasable(pod, cluster, now)]
        if ready:
            alive = await self._uid(key)
            for pod in ready:
                if pod.job_uid != alive:
                    log.info("releasing pod %s: its job is deleted", pod.name, extra={"job": "/".join(key)})
                    await self._pods.release(key, pod.name, pod.uid)
        deleted = [pod.deleted_at for pod in waiting if pod not in ready and pod.deleted_at]
        return max(timedelta(seconds=1), min(deleted) + OVERDUE - now) if deleted else None

    async def _uid(self, key: Key) -> str | None:
        try:
            raw = await self._writer.get(paths.job(key.namespace, key.name))
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return str(raw["metadata"]["uid"])
