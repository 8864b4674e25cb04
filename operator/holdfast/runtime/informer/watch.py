"""The watches. Only this module imports kopf, and only as an informer.

Its handlers put objects into the cache and the affected keys into the queue. They make no API call, finalizer,
annotation or Event. Its tasks are spawned and awaited here. If one watch fails, `kopf.operator` cancels every task of
the process, also writes in flight, and then waits for those that do not end: its other watches, which wait for a login
that does not come.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from time import monotonic
from typing import Any

import aiohttp
import kopf

from holdfast.api import names
from holdfast.runtime.apiserver.client import PAGE, Client, retry_after
from holdfast.runtime.errors import WatchDiedError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.resync import MANAGED
from holdfast.runtime.informer.work_queue import WorkQueue

log = logging.getLogger(__name__)

RESOURCES = ("nodes", "pods", names.PROFILE_PLURAL, names.JOB_PLURAL)
# Seconds until the start of a pod (bound, pulled, running) goes into status: several steps become one write.
CALM = 0.5
BACKOFFS = (
    0.2,
    0.5,
    1,
    *([2] * 150),
)  # seconds; after five minutes of refusals the process ends, so that it is restarted


class Frames:
    """When each watch last received anything: an event, a bookmark, or the start of the answer; and since when it is
    closed.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}
        self._started: float | None = None
        self._closed: dict[str, float] = {}
        self.connected: Callable[[str], None] = lambda resource: None

    def start(self) -> None:
        """Measure silence from now on."""
        self._started = self._clock()
        self._closed = dict.fromkeys(RESOURCES, self._started)

    def note(self, resource: str) -> None:
        """Record that the watch of this resource received something."""
        self._last[resource] = self._clock()

    def opened(self, resource: str) -> None:
        """Record that the watch of this resource was opened."""
        self.note(resource)
        self._closed.pop(resource, None)
        self.connected(resource)

    def closed(self, resource: str) -> None:
        """Record that the watch of this resource has ended; a new one follows, if the API server answers."""
        self._closed[resource] = self._clock()

    def gaps(self) -> dict[str, float]:
        """Seconds for which each watch has been closed; those that are open are left out."""
        now = self._clock()
        return {resource: now - since for resource, since in self._closed.items()}

    def ages(self) -> dict[str, float]:
        """Seconds since each watch received anything; empty before the start."""
        if self._started is None:
            return {}
        now = self._clock()
        return {resource: now - self._last.get(resource, self._started) for resource in RESOURCES}


class _NotedContent:
    """The content of a response; it reports every read, so that bookmarks count too, and its end."""

    def __init__(self, content: aiohttp.StreamReader, note: Callable[[], None], end: Callable[[], None]) -> None:
        self._content = content
        self._note = note
        self._end = end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        try:
            async for data in self._content.iter_chunked(size):
                self._note()
                yield data
        finally:
            self._end()


def noted_response(frames: Frames) -> type[aiohttp.ClientResponse]:
    """A class of responses: what a watch receives is noted in `frames`."""

    class NotedResponse(aiohttp.ClientResponse):
        @property
        def headers(self) -> Any:
            """Those of the answer. kopf trusts any Retry-After: it would die of a date, and sleep for years, or not at
            all.
            """
            found = super().headers.copy()
            seconds = retry_after(found)
            found.popall("Retry-After", None)
            if seconds is not None:
                found["Retry-After"] = str(max(1, round(seconds)))
            return found

        async def start(self, connection: Any) -> "NotedResponse":
            await super().start(connection)
            if self.status == 200 and self.url.query.get("watch") == "true":
                resource = self.url.path.rpartition("/")[2]
                frames.opened(resource)
                self.content = _NotedContent(  # type: ignore[assignment]
                    self.content, lambda: frames.note(resource), lambda: frames.closed(resource)
                )
            return self

    return NotedResponse


async def _login(client: Client, frames: Frames) -> Any:
    access = await client.credentials()
    info = kopf.ConnectionInfo(
        server=access["server"],
        ca_path=access["ca_path"],
        insecure=access["insecure"],
        certificate_path=access["certificate_path"],
        private_key_path=access["private_key_path"],
    )
    headers = {"User-Agent": "holdfast"}
    if access["authorization"]:
        headers["Authorization"] = access["authorization"]
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=headers,
        response_class=noted_response(frames),
        read_bufsize=2**20,
    )
    return kopf.AiohttpSession(server=access["server"], aiohttp_session=session)


class Watches:
    """All watches of the operator."""

    def __init__(self, client: Client, cache: Cache, queue: WorkQueue[Key], frames: Frames) -> None:
        self._client = client
        self._queue = queue
        self._frames = frames
        self._registry = kopf.OperatorRegistry()
        self._settings = _settings()
        self._parts: Collection[asyncio.Task[Any]] = ()
        self._cache = cache
        self._register()

    def _register(self) -> None:
        registry = self._registry

        async def login(**_: Any) -> Any:
            return await _login(self._client, self._frames)

        kopf.on.login(registry=registry)(login)

        def watch(kind: str, *where: str) -> None:
            async def seen(event: Any, **_: Any) -> None:
                self.apply(kind, event)

            kopf.on.event(*where, id=f"see-{where[-1]}", registry=registry)(seen)

        watch("nodes", "", "v1", "nodes")
        watch("pods", "", "v1", "pods")
        watch("profiles", names.GROUP, names.VERSION, names.PROFILE_PLURAL)
        watch("jobs", names.GROUP, names.VERSION, names.JOB_PLURAL)

    def apply(self, kind: str, event: Mapping[str, Any]) -> None:
        """Bring one event of `jobs`, `pods`, `nodes` or `profiles` into the cache, and queue the jobs it concerns."""
        raw = event["object"]
        touched = self._cache.drop(kind, raw) if event["type"] == "DELETED" else self._cache.put(kind, raw)
        pod = self._cache.pod(raw["metadata"]["uid"])  # None for other kinds
        for key in touched:
            if pod and pod.calm:
                self._queue.after(key, CALM, calm=True)
            else:
                self._queue.add(key)

    async def start(self) -> None:
        """Begin to watch; `run` must follow. This replaces the signal handlers: install them again."""
        self._frames.start()
        self._parts = await kopf.spawn_tasks(
            registry=self._registry, settings=self._settings, clusterwide=True, standalone=True, identity="holdfast"
        )

    async def run(self) -> None:
        """Watch until cancelled. Raises WatchDiedError, or kopf's own error, if the watches end before."""
        try:
            ended, _ = await asyncio.wait(self._parts, return_when=asyncio.FIRST_COMPLETED)
            errors = [part.exception() for part in ended if not part.cancelled()]
            raise next(
                filter(None, errors), WatchDiedError("the watches ended; the operator ends and must be restarted")
            )
        finally:
            for part in self._parts:
                part.cancel()
            await asyncio.wait(self._parts)


class _NoDiff(kopf.DiffBaseStorage):  # type: ignore[misc]
    """Compares nothing: kopf would copy each object three times per event for handlers that do not exist here."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):  # type: ignore[misc]
    """Stores nothing: no handler here has progress to store."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return essence


def _settings() -> Any:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # the CRDs do not change; so no right to list CRDs is needed
    settings.peering.standalone = True
    settings.persistence.diffbase_storage = _NoDiff()
    settings.persistence.progress_storage = _NoProgress()
    settings.watching.inactivity_timeout = 70
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = PAGE
    settings.watching.label_selectors["", "v1", "pods"] = MANAGED
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = BACKOFFS
    settings.networking.enforce_retry_after = True
    settings.queueing.worker_limit = None
    settings.queueing.idle_timeout = 1.0
    settings.queueing.exit_timeout = 0.5
    settings.process.ultimate_exiting_timeout = None
    return settings
