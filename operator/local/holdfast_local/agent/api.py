"""A small client of the Kubernetes API: raw JSON over HTTPS with a client certificate. No typed models."""

import asyncio
import json
import logging
import random
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from weakref import WeakSet

import aiohttp

from holdfast_local.agent.config import AgentConfig
from holdfast_local.agent.errors import ApiError, ApiUnreachableError

Object = dict[str, Any]
OpenSocket = Callable[[tuple[Any, ...]], socket.socket]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

REQUEST_SECONDS = 10.0
WATCH_SECONDS = 300
BOOKMARK_SECONDS = 90.0  # the server sends a bookmark about every minute; a longer silence is a dead connection

log = logging.getLogger(__name__)


class Backoff:
    """Growing waits with jitter, for one peer that does not answer."""

    def __init__(self, first: float = 0.1, longest: float = 3.0) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def reset(self) -> None:
        """Forget earlier failures."""
        self._next = self._first

    def take(self) -> float:
        """The next wait in seconds."""
        wait = self._next * random.uniform(0.8, 1.2)  # noqa: S311 - spreads retries, guards nothing
        self._next = min(self._next * 2, self._longest)
        return wait


class ApiClient:
    """Requests of one node to the API server. Usable from one event loop; close it at the end.

    `open_socket` makes the sockets, in the network of the node; None stands for the network of this process.
    """

    def __init__(self, config: AgentConfig, open_socket: OpenSocket | None = None) -> None:
        self._context = ssl.create_default_context(cafile=str(config.ca_cert))
        self._context.load_cert_chain(str(config.client_cert), str(config.client_key))
        self._server = config.server.rstrip("/")
        self._open_socket = open_socket
        self._is_cut = False
        self._streams: WeakSet[aiohttp.ClientResponse] = WeakSet()
        self._session = self._new_session()

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=self._context, limit=0, keepalive_timeout=60, socket_factory=self._open_socket
            ),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def cut(self) -> None:
        """Let every request fail as if the API server did not answer, those that wait for an answer too."""
        self._is_cut = True
        await self._replace_session()

    async def reconnect(self) -> None:
        """Make new connections. Old ones are silent for a long time after a cut, for TCP waits longer each time."""
        self._is_cut = False
        await self._replace_session()

    async def _replace_session(self) -> None:
        old, self._session = self._session, self._new_session()
        for stream in list(self._streams):
            stream.close()  # a reader of a stream does not notice the end of its session
        await old.close()

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """One request. Raises ApiError for an answer of 400 or more, ApiUnreachableError without an answer."""
        self._check_connected(f"{method} {path}")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        try:
            async with self._session.request(
                method, self._server + path, data=data, params=query, headers=headers
            ) as answer:
                text = await answer.text()
                if answer.status >= 400:
                    raise _error(answer.status, text)
                parsed: Object = json.loads(text)
                return parsed
        except (aiohttp.ClientError, TimeoutError, json.JSONDecodeError) as err:
            raise ApiUnreachableError(f"{method} {path}: {type(err).__name__}: {err}") from err

    async def get(self, path: str) -> Object:
        """GET one object."""
        return await self.request("GET", path)

    async def create(self, path: str, body: Object) -> Object:
        """POST one object to its collection, or to a subresource."""
        return await self.request("POST", path, body)

    async def patch(self, path: str, body: Object, content_type: str = MERGE) -> Object:
        """PATCH one object."""
        return await self.request("PATCH", path, body, content_type=content_type)

    async def delete(self, path: str, uid: str | None = None, grace: int | None = None) -> Object:
        """DELETE one object, only if it still has this UID."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return await self.request("DELETE", path, options)

    async def watch(self, path: str, selector: str, version: str) -> AsyncIterator[Object]:
        """Events after a resource version, until the server ends the stream. Raises ApiError (410: list again)."""
        query = {
            "watch": "1",
            "fieldSelector": selector,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        self._check_connected(f"watch {path}")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=BOOKMARK_SECONDS)
        try:
            async with self._session.get(self._server + path, params=query, timeout=timeout) as answer:
                self._streams.add(answer)
                if answer.status >= 400:
                    raise _error(answer.status, await answer.text())
                async for line in _lines(answer.content):
                    event: Object = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ApiError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
                    yield event
        except (aiohttp.ClientError, TimeoutError, json.JSONDecodeError) as err:
            raise ApiUnreachableError(f"watch {path}: {type(err).__name__}: {err}") from err

    def _check_connected(self, what: str) -> None:
        if self._is_cut:
            raise ApiUnreachableError(f"{what}: the node is cut off from the API server")


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines of any length: StreamReader.readline refuses lines above 128 KiB, and an object may be 1 MiB."""
    rest = b""
    async for chunk in stream.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line


def _error(status: int, text: str) -> ApiError:
    try:
        body = json.loads(text)
        return ApiError(status, str(body.get("reason", "")), str(body.get("message", text)))
    except (json.JSONDecodeError, AttributeError):
        return ApiError(status, "", text[:500])


async def follow(
    api: ApiClient,
    path: str,
    selector: str,
    on_list: Callable[[list[Object]], Awaitable[None]],
    on_event: Callable[[str, Object], Awaitable[None]],
) -> None:
    """List, then watch, forever: on_list gets every full list, on_event each change (ADDED, MODIFIED, DELETED).

    A broken connection resumes at the last version seen; "too old" lists again. Ends only by cancellation.
    """
    backoff = Backoff()
    version: str | None = None
    while True:
        try:
            if version is None:
                listed = await api.request("GET", path, query={"fieldSelector": selector, "resourceVersion": "0"})
                version = listed["metadata"]["resourceVersion"]
                await on_list(listed.get("items") or [])
            async for event in api.watch(path, selector, version):
                backoff.reset()
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    await on_event(event["type"], event["object"])
            await asyncio.sleep(
                backoff.take()
            )  # the server ends a watch now and then; never spin on one that ends at once
        except ApiError as err:
            log.warning("list or watch of %s refused: %s", path, err)
            version = None
            await asyncio.sleep(backoff.take())
        except ApiUnreachableError as err:
            log.warning("%s", err)
            await asyncio.sleep(backoff.take())


async def insist(request: Callable[[], Awaitable[Object]]) -> Object:
    """Repeat a request until the API server answers. Raises ApiError for an answer that more tries cannot change."""
    backoff = Backoff()
    while True:
        try:
            return await request()
        except ApiUnreachableError as err:
            log.warning("%s", err)
        except ApiError as err:
            if err.status != 429 and err.status < 500:
                raise
            log.warning("%s", err)
        await asyncio.sleep(backoff.take())
