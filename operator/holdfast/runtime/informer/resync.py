"""Everything anew, now and then: what the watches missed is put right, and what is gone is dropped."""

import asyncio
import logging
import random
from collections.abc import Callable
from time import monotonic

from holdfast.api import names
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Requester
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.work_queue import WorkQueue

log = logging.getLogger(__name__)

MANAGED = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
LISTS: tuple[tuple[str, str, dict[str, str | int]], ...] = (
    ("nodes", paths.NODES, {}),
    ("profiles", paths.PROFILES, {}),
    # Pods after jobs: a pod that is missing from a list older than its job's status would look lost.
    ("jobs", paths.JOBS, {}),
    ("pods", paths.PODS, {"labelSelector": MANAGED}),
)
RETRY = 2.0  # seconds after a list that failed


class Resync:
    """Lists all kinds, first at the start and then about every `every` seconds."""

    def __init__(
        self,
        client: Requester,
        cache: Cache,
        queue: WorkQueue[Key],
        *,
        every: float,
        seed: int | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client
        self._cache = cache
        self._queue = queue
        self._every = every
        self._random = random.Random(seed)  # noqa: S311 - jitter, not a secret
        self._clock = clock
        self.last: float | None = None

    @property
    def age(self) -> float | None:
        """Seconds since the last complete one; None before the first."""
        return None if self.last is None else self._clock() - self.last

    async def once(self) -> None:
        """List, sweep and enqueue everything. Raises ApiError; then the cache keeps what it had."""
        for kind, path, params in LISTS:
            items, version = await self._client.list_all(path, params)
            self._cache.sweep(kind, items, version)
        for key in self._cache.names():
            self._queue.add(key)
        self.last = self._clock()

    async def until_done(self) -> None:
        """Try until one succeeds. The CRDs may be installed after the operator: that is waited for."""
        while True:
            try:
                await self.once()
            except ApiError as error:
                hint = " (are the CRDs installed?)" if error.not_found else ""
                log.warning("the cluster cannot be listed yet: %s%s", error, hint)
                await asyncio.sleep(RETRY)
            else:
                return

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._every * self._random.uniform(0.8, 1.2))
            await self.until_done()
