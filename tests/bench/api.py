"""The harness's own client: aiohttp with the administrator's certificate and a fixed number of connections."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self, TypeVar

import aiohttp

from holdfast_local.cluster import Cluster

Raw = dict[str, Any]
T = TypeVar("T")

AGENT = "holdfast-bench"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class ApiFailureError(Exception):
    """The API server answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text}")
        self.status = status


class Api:
    """Requests to the API server over at most `connections` connections. Use it as an async context manager."""

    def __init__(self, cluster: Cluster, connections: int = 16) -> None:
        context = ssl.create_default_context(cafile=str(cluster.ca_cert))
        pki = cluster.ca_cert.parent
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._server = cluster.server
        self._connector = aiohttp.TCPConnector(limit=connections, ssl=context)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            headers={"User-Agent": AGENT},
            timeout=aiohttp.ClientTimeout(total=300),  # deleting a thousand jobs is one request
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Raw:
        """Send one request and return the decoded answer. Raises ApiFailureError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind} if data else {}
        async with self._session.request(method, f"{self._server}{path}", data=data, headers=headers) as answer:
            text = await answer.read()
            if answer.status >= 400:
                raise ApiFailureError(answer.status, text[:500].decode(errors="replace"))
            decoded: Raw = json.loads(text)
            return decoded

    async def items(self, path: str) -> list[Raw]:
        """The objects of a list."""
        found: list[Raw] = (await self.request("GET", path)).get("items") or []
        return found

    async def present(self, path: str) -> bool:
        """Whether a list holds anything at all."""
        separator = "&" if "?" in path else "?"
        return bool(await self.items(f"{path}{separator}limit=1"))


async def spread(work: Callable[[T], Awaitable[object]], over: Iterable[T], workers: int) -> None:
    """Do `work` for every item, `workers` at a time, each taking the next as soon as it is free."""
    rest = iter(over)

    async def worker() -> None:
        for item in rest:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())
