"""Regular lists of all objects: they correct what the watches missed and drop what was deleted."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from holdfast.api import names
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Requester
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.work_queue import WorkQueue

log = logging.getLogger(__name__)

MANAGED = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
LISTS: dict[str, tuple[str, dict[str, str | int]]] = {
    "nodes": (paths.NODES, {}),
    "profiles": (paths.PROFILES, {}),
    "jobs": (paths.JOBS, {}),
    "pods": (paths.PODS, {"labelSelector": MANAGED}),
}
SLICE = 0.005  # seconds of reading objects until other work gets its turn
RETRY = 2.0  # seconds after a list that failed


class Resync:
    """Lists all kinds at the start, and then about every `every` seconds."""

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
        self._listed: set[str] = set()  # kinds of the present round that are done
        self.last: float | None = None

    @property
    def age(self) -> float | None:
        """Seconds since the last complete resync; None before the first."""
        return None if self.last is None else self._clock() - self.last

    async def once(self) -> None:
        """List everything into the cache and enqueue every job.

        All kinds are read side by side, so that a server that refuses a page of one holds up only that one. Of each
        kind only one page is in memory at a time, and other work of the event loop runs between two slices of it.
        Raises ApiError; the cache then has what was listed so far, and lacks nothing that it had. The next call goes on
        with the kinds whose lists failed.
        """
        jobs_began = asyncio.Event()
        lists = (self._list(kind, jobs_began) for kind in LISTS if kind not in self._listed)
        failed = [error for error in await asyncio.gather(*lists, return_exceptions=True) if error]
        if failed:
            if "jobs" not in self._listed:
                self._listed.discard("pods")  # they must not be older than the jobs
            raise failed[0]
        self._listed.clear()
        for key in self._cache.job_keys():
            self._queue.add(key)
        self.last = self._clock()

    async def _list(self, kind: str, jobs_began: asyncio.Event) -> None:
        """List one kind. Pods after the first page of jobs, which decides how old their list is: a pod that is missing
        from a list older than its job's status would seem lost.
        """
        path, params = LISTS[kind]
        present: set[str] = set()
        version = 0
        try:
            if kind == "pods" and "jobs" not in self._listed:
                await jobs_began.wait()
            async for items, version in self._client.pages(path, params):  # noqa: B007 - used after the loop
                if kind == "jobs":
                    jobs_began.set()
                await self._put(kind, items, present)
        finally:
            if kind == "jobs":
                jobs_began.set()  # also if there is no page
        self._cache.drop_missing(kind, present, version)
        self._listed.add(kind)

    async def _put(self, kind: str, items: list[dict[str, Any]], present: set[str]) -> None:
        until = self._clock() + SLICE
        for raw in items:
            present.add(raw["metadata"]["uid"])
            self._cache.put(kind, raw)
            if self._clock() >= until:
                await asyncio.sleep(0)
                until = self._clock() + SLICE

    async def check(self) -> None:
        """Read one object of each kind. Raises ApiError if the rights or the CRDs are missing."""
        for path, params in LISTS.values():
            await self._client.request("GET", path, params={**params, "limit": 1})

    async def until_done(self, work: Callable[[], Awaitable[None]] | None = None) -> None:
        """Try until one resync, or other `work`, succeeds; also waits for CRDs that are installed late."""
        while True:
            try:
                await (work or self.once)()
            except ApiError as error:
                hint = " (install the CRDs)" if error.not_found else ""
                log.warning("cannot list the cluster yet: %s%s", error, hint)
                await asyncio.sleep(RETRY)
            else:
                return

    async def run(self) -> None:
        """Resync until cancelled."""
        while True:
            await asyncio.sleep(self._every * self._random.uniform(0.8, 1.2))
            await self.until_done()
