"""Pods whose job is gone. Garbage collection deletes them; our finalizer must not hold them once they have ended."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Writer
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Key
from holdfast.runtime.pod_writer import PodWriter

log = logging.getLogger(__name__)

OVERDUE = timedelta(seconds=5)


def releasable(pod: PodView, cluster: ClusterView, now: datetime) -> bool:
    """True if nothing of this pod runs any more, or nobody is left who could say so."""
    if not pod.finalized:
        return False
    if pod.ended or pod.node is None:
        return pod.ended or pod.deleted_at is not None
    if pod.node not in cluster.nodes:
        return pod.deleted_at is not None
    # Nobody answers for the node, and somebody took it on themselves that nothing runs there.
    if pod.deletion_grace == 0 and not cluster.nodes[pod.node].ready:
        return True
    # Deleted before its containers were ever started, or the kubelet has finished without a word about the trainer.
    never_ran = pod.trainer is None or not (pod.trainer.running or pod.trainer.ended)
    return pod.deleted_at is not None and never_ran and now > pod.deleted_at + OVERDUE


class Orphans:
    """Releases the ended pods of jobs that do not exist any more."""

    def __init__(self, writer: Writer, pods: PodWriter) -> None:
        self._writer = writer
        self._pods = pods

    async def release(
        self, key: Key, orphans: Iterable[PodView], cluster: ClusterView, now: datetime
    ) -> timedelta | None:
        """Release those that can be, after asking the API server that the job is really gone.

        Returns when to look again, None if the next change of a pod is early enough. Raises ApiError.
        """
        waiting = [pod for pod in orphans if pod.finalized]
        ready = [pod for pod in waiting if releasable(pod, cluster, now)]
        if ready:
            alive = await self._uid(key)
            for pod in ready:
                if pod.job_uid != alive:
                    log.info("releasing pod %s: its job is gone", pod.name, extra={"job": "/".join(key)})
                    await self._pods.release(key, pod.name, pod.uid)
        held = [pod for pod in waiting if pod not in ready and pod.deleted_at]
        if not held:
            return None
        return max(timedelta(seconds=1), min(pod.deleted_at for pod in held if pod.deleted_at) + OVERDUE - now)

    async def _uid(self, key: Key) -> str | None:
        try:
            raw = await self._writer.get(paths.job(key.namespace, key.name))
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return str(raw["metadata"]["uid"])
