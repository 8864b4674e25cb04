"""When Karpenter ends a node: read from the NodeClaim of a node that begins to leave.

Karpenter writes the end of a node's grace on its NodeClaim, not on the Node, and only if the claim has a
terminationGracePeriod. Without the right to read NodeClaims, the usual time of such a notice counts.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.core.observe.nodes import ClusterView, NodeView, termination_of
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.work_queue import WorkQueue

log = logging.getLogger(__name__)

EVERY: Final = 5.0  # seconds; the end may be written, or moved, after the node began to leave


class NodeClaims:
    """Brings the ends of nodes into the cache."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        queue: WorkQueue[Key],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._cache = cache
        self._queue = queue
        self._sleep = sleep
        self._refused = False

    async def run(self) -> None:
        """Look again and again, until cancelled. A cluster without Karpenter costs no request."""
        while True:
            await self.look()
            await self._sleep(EVERY)

    async def look(self) -> None:
        """Read the claim of each node that leaves, and queue the jobs on it if its end is news."""
        cluster = self._cache.cluster
        for node in cluster.once("claims of leaving nodes", lambda: _leaving(cluster)):
            try:
                raw = await self._client.request("GET", paths.node_claim(node.claim))
            except ApiError as error:
                self._note(error)
                continue
            for key in self._cache.note_end(node.name, node.uid, termination_of(raw)):
                self._queue.add(key)

    def _note(self, error: ApiError) -> None:
        """Say once that claims may not be read. A claim that is gone, or an API server that is away, needs no words."""
        if error.status == 403 and not self._refused:
            self._refused = True
            log.warning("cannot read NodeClaims, so a notice of Karpenter counts as one of 2 minutes: %s", error)


def _leaving(cluster: ClusterView) -> tuple[NodeView, ...]:
    return tuple(node for node in cluster.nodes.values() if node.claim and node.is_disrupted)
