"""The Kubernetes client, reduced to what a fast operator needs: one method that sends JSON and returns JSON.

Only this module imports the Kubernetes client library. It uses the library's configuration, authentication and REST
layer, but not its generated classes and models: decoding them takes twenty times as long as decoding the JSON.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from holdfast.runtime.apiserver import kubeconfig
from holdfast.runtime.errors import ApiError, NoClusterError

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
POOL_SIZE = 100
RELOAD_EVERY = 10.0  # seconds between two readings of the credentials because they, or the server's, were refused
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
PAGE = 500
PAGE_AGAIN = 0.02  # seconds until a page is asked for again, if the server names no time; doubled each time
LONGEST_PAGE_AGAIN = 2.0
PAGE_PATIENCE = 60.0  # seconds; the continue token of a list is good for five minutes
LONGEST_RETRY_AFTER = 30.0  # seconds: a longer wish of a server, or of a proxy before it, is cut to this
WATCH_SECONDS = 300

Observer = Callable[[str, str, int, float], None]  # verb, resource, HTTP status (0: no answer), seconds
Body = Mapping[str, Any] | list[Any]

_REFUSED = (401, 403, 404)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def resource_of(path: str) -> tuple[str, bool]:
    """The resource of an API path (`pods`, `pods/status`), and True if the path names one object."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return "other", False
    return "/".join((rest[0], *rest[2:3])), len(rest) > 1


def namespace_of(path: str) -> str:
    """The namespace in an API path, "" if the path has none."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    return rest[1] if len(rest) > 2 and rest[0] == "namespaces" else ""


def _verb(method: str, named: bool) -> str:
    if method == "GET":
        return "get" if named else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return _VERBS.get(method, method.lower())


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the next try; None if the server names no number of seconds."""
    try:
        return min(max(0.0, float(headers["Retry-After"])), LONGEST_RETRY_AFTER)
    except (KeyError, ValueError):
        return None


def _object(data: bytes, what: str) -> dict[str, Any]:
    """The JSON object; empty if there is no text. Raises ApiError: a proxy may answer in the server's place."""
    try:
        decoded = json.loads(data) if data else {}
    except ValueError as error:
        raise ApiError(0, "BadAnswer", f"{what} is not JSON") from error
    if not isinstance(decoded, dict):
        raise ApiError(0, "BadAnswer", f"{what} is not a JSON object")
    return decoded


def _error(status: int, headers: Mapping[str, str], data: bytes) -> ApiError:
    try:
        said = _object(data, "the error")
    except ApiError:
        said = {"message": data[:512].decode(errors="replace")}
    reason, message = str(said.get("reason") or "Unknown"), str(said.get("message") or "")
    rest = (said.get("metadata") or {}).get("continue") if status == 410 else None
    return ApiError(status, reason, message, retry_after(headers), rest)


def _event(line: bytes) -> dict[str, Any]:
    """One line of a watch. Raises ApiError if it is an error."""
    event = _object(line, "a line of a watch")
    if event.get("type") == "ERROR":
        said = event.get("object") or {}
        raise ApiError(int(said.get("code") or 500), str(said.get("reason") or ""), str(said.get("message") or ""))
    return event


class Client:
    """A connection pool to one API server. Use it as an async context manager, inside one event loop."""

    def __init__(self, configuration: Any, reload: Callable[[], Awaitable[None]] | None = None) -> None:
        """`reload` reads into `configuration` what its files say now; None: nothing in it changes."""
        configuration.connection_pool_maxsize = POOL_SIZE
        configuration.retries = None  # the work queue retries with its own delays
        # trust_env makes aiohttp read .netrc from disk for every request: only set it where a proxy is configured.
        proxied = any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"))
        configuration.client_session_kwargs = {"trust_env": proxied}
        self._configuration = configuration
        self._rest = RESTClientObject(configuration)
        self._reload = reload
        self._reloaded_at = monotonic()
        self.reload_every = RELOAD_EVERY
        self.observer: Observer | None = None
        self.page_patience = PAGE_PATIENCE  # seconds for which a refused page is asked for again

    @classmethod
    async def from_kubeconfig(cls, path: Path | None = None) -> Self:
        """Connect with a kubeconfig file; None uses $KUBECONFIG or ~/.kube/config.

        Raises NoClusterError if there is no usable file.
        """
        files = os.pathsep.join(map(str, kubeconfig.existing(path)))
        configuration = Configuration()

        async def load() -> None:
            await kube_config.load_kube_config(
                config_file=files, client_configuration=configuration, persist_config=False
            )

        try:
            await load()
            return cls(configuration, load)
        except (kube_config.ConfigException, OSError) as error:
            raise NoClusterError(f"kubeconfig {files} cannot be used: {error}") from error

    @classmethod
    async def in_cluster(cls) -> Self:
        """Connect with the pod's service account. Raises NoClusterError outside a pod."""
        configuration = Configuration()

        async def load() -> None:
            kube_config.load_incluster_config(client_configuration=configuration)

        try:
            await load()
            return cls(configuration, load)
        except (kube_config.ConfigException, OSError) as error:
            raise NoClusterError(
                f"the pod's service account cannot be used: {error}; give --kubeconfig FILE"
            ) from error

    @classmethod
    async def auto(cls, path: Path | None = None) -> Self:
        """Connect with the kubeconfig at `path`; without one as a pod, outside a pod with the default kubeconfig."""
        if path is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
            return await cls.in_cluster()
        return await cls.from_kubeconfig(path)

    @property
    def host(self) -> str:
        """The address of the API server."""
        return str(self._configuration.host)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._rest.close()

    async def credentials(self) -> dict[str, Any]:
        """Server, CA, token and client certificate files for the informer, which has its own connections."""
        c = self._configuration
        return {
            "server": c.host,
            "ca_path": c.ssl_ca_cert,
            "insecure": not c.verify_ssl,
            "authorization": await c.get_api_key_with_prefix("BearerToken"),
            "certificate_path": c.cert_file,
            "private_key_path": c.key_file,
        }

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        params: Mapping[str, str | int] | None = None,
        content_type: str | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - aiohttp enforces it
    ) -> dict[str, Any]:
        """Send one request and return the decoded answer.

        `timeout` is for the whole request, in seconds. A PATCH is a JSON merge patch unless `content_type` is set.
        Raises ApiError for every status from 400 on, and with status 0 without a complete answer.
        """
        content_type = content_type or (MERGE_PATCH if method == "PATCH" else "application/json")
        url = f"{path}?{urlencode(params)}" if params else path
        status, headers, data = await self._sent_trusted(method, url, body, content_type, timeout)
        if status >= 400:
            raise _error(status, headers, data)
        return _object(data, f"{method} {path}: the answer")

    async def _sent_trusted(self, *request: Any) -> tuple[int, Mapping[str, str], bytes]:
        """The answer. If one side does not trust the other any more, its certificates and tokens are read again: they
        are replaced while this process runs.
        """
        try:
            answer = await self._send(*request)
            if answer[0] != 401 or not self._may_renew():
                return answer
        except ApiError as error:
            if not isinstance(error.__cause__, aiohttp.ClientSSLError) or not self._may_renew():
                raise
        await self._renew()
        return await self._send(*request)

    def _may_renew(self) -> bool:
        return self._reload is not None and monotonic() - self._reloaded_at > self.reload_every

    async def _renew(self) -> None:
        """Read the files and connect again. Requests in flight get no answer."""
        assert self._reload is not None
        self._reloaded_at = monotonic()
        try:
            await self._reload()
            old, self._rest = self._rest, RESTClientObject(self._configuration)
        except (kube_config.ConfigException, OSError) as error:
            raise ApiError(0, "Unreachable", f"the credentials cannot be read again: {error}") from error
        await old.close()

    async def _send(
        self,
        method: str,
        path: str,
        body: Body | None,
        content_type: str,
        seconds: float,
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = await self._headers(content_type)
        resource, named = resource_of(path.partition("?")[0])
        status, start = 0, monotonic()
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=min(10.0, seconds))
        try:
            response = await self._rest.request(
                method, f"{self._configuration.host}{path}", headers=headers, body=body, _request_timeout=limit
            )
            data = await response.read()
            status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(0, "Unreachable", f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error
        finally:
            if self.observer:
                self.observer(_verb(method, named), resource, status, monotonic() - start)
        return status, response.headers, data

    async def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"Content-Type": content_type, "Accept": "application/json", "User-Agent": "holdfast"}
        if key := await self._configuration.get_api_key_with_prefix("BearerToken"):
            headers["Authorization"] = key
        return headers

    async def watch(
        self, path: str, params: Mapping[str, str | int], version: int, *, seconds: int = WATCH_SECONDS
    ) -> AsyncIterator[dict[str, Any]]:
        """The changes of a list after `version`, as the API server sends them: type and object.

        Ends after `seconds`, when the server ends it. Raises ApiError, with status 410 if the version is too old and
        with status 0 if the connection breaks.
        """
        query = {**params, "watch": 1, "resourceVersion": version, "timeoutSeconds": seconds}
        limit = aiohttp.ClientTimeout(total=seconds + 30.0, sock_connect=10.0)
        rest = b""
        async with aclosing(self._chunks(path, {**query, "allowWatchBookmarks": "true"}, limit)) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _event(line)

    async def stream(self, path: str, params: Mapping[str, str | int], *, quiet: float) -> AsyncIterator[bytes]:
        """The bytes of an answer as they come, until the server ends it.

        Raises ApiError, with status 0 if the connection breaks, or if no byte comes for `quiet` seconds.
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=quiet)
        async with aclosing(self._chunks(path, params, limit)) as chunks:
            async for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def websocket(
        self, path: str, params: Mapping[str, str | int | Sequence[str]], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """An open WebSocket with one of the protocols, closed at the end of the block.

        A parameter may have several values. Raises ApiError if it cannot be opened.
        """
        url = f"{path}?{urlencode(params, doseq=True)}"
        if self._rest.pool_manager is None:
            self._rest.pool_manager = self._rest._create_pool_manager()
        try:
            socket = await self._rest.pool_manager.ws_connect(
                f"{self._configuration.host}{url}",
                protocols=protocols,
                headers=await self._headers("application/json"),
                proxy=self._configuration.proxy,
                max_msg_size=0,
                autoclose=True,
            )
        except aiohttp.WSServerHandshakeError as error:
            if error.status in _REFUSED:
                await self.request("GET", url)  # aiohttp drops the words of a refusal: this one has the same
            raise ApiError(error.status, "Refused", f"GET {path}: {error.message}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(0, "Unreachable", f"GET {path}: {type(error).__name__} {error}".rstrip()) from error
        async with socket:
            yield socket

    async def _chunks(
        self, path: str, params: Mapping[str, str | int], limit: aiohttp.ClientTimeout
    ) -> AsyncGenerator[bytes, None]:
        url = f"{self._configuration.host}{path}?{urlencode(params)}"
        try:
            headers = await self._headers("application/json")
            response = await self._rest.request("GET", url, headers=headers, body=None, _request_timeout=limit)
            if response.status >= 400:
                raise _error(response.status, response.headers, await response.read())
            async with response.response as stream:  # closes the connection if the caller stops reading
                async for chunk in stream.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(0, "Unreachable", f"GET {path}: {type(error).__name__} {error}".rstrip()) from error

    async def pages(
        self, path: str, params: Mapping[str, str | int] | None = None
    ) -> AsyncIterator[tuple[list[dict[str, Any]], int]]:
        """The pages of a list: their objects, and the resourceVersion of its first page. An object that the list lacks
        was deleted, unless it is newer.

        A page that an overloaded server refuses is asked for again, after the time that the server names. If the list
        expires between two pages, the others are of a newer list, as far as the server offers it. Raises ApiError.
        """
        query: dict[str, str | int] = {"limit": PAGE, **(params or {})}
        version = 0
        while True:
            page = await self._page(path, query)
            meta = page.get("metadata") or {}
            version = version or int(meta.get("resourceVersion") or 0)
            yield page.pop("items", None) or [], version
            if not meta.get("continue"):
                return
            if meta["continue"] == query.get("continue"):
                raise ApiError(0, "BadAnswer", f"GET {path}: a page names itself as the next one")
            query["continue"] = meta["continue"]

    async def _page(self, path: str, query: dict[str, str | int]) -> dict[str, Any]:
        """One page. The first one is not asked for again if no server answers: there may be none."""
        until, again, expired = monotonic() + self.page_patience, PAGE_AGAIN, False
        while True:
            try:
                return await self.request("GET", path, params=query)
            except ApiError as error:
                if error.rest and not expired:
                    expired, query["continue"] = True, error.rest
                    continue
                pause = max(again, error.retry_after or 0.0)
                again = min(2 * again, LONGEST_PAGE_AGAIN)
                is_lost = error.status == 0 and "continue" not in query
                if is_lost or not error.transient or monotonic() + pause > until:
                    raise
            await asyncio.sleep(pause)

    async def list_all(
        self, path: str, params: Mapping[str, str | int] | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        """All objects of a list at once, and the list's resourceVersion: for lists that are short.

        Raises ApiError (410 if the list expired between two pages).
        """
        items: list[dict[str, Any]] = []
        version = 0
        async for page, version in self.pages(path, params):  # noqa: B007 - used after the loop
            items += page
        return items, version
