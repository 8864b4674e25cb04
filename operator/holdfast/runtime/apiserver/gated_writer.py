"""Every write to the API server goes through here: only while leading, and no faster than allowed."""

from collections.abc import Mapping
from typing import Any, Protocol

from holdfast.runtime.apiserver.leadership_gate import Gate
from holdfast.serve.token_bucket import TokenBucket


class Requester(Protocol):
    """The part of `kube.Client` that the rest of the operator uses."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | list[Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        content_type: str | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - as in the client
    ) -> dict[str, Any]:
        """See `kube.Client.request`."""
        ...

    async def list_all(
        self, path: str, params: Mapping[str, str | int] | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        """See `kube.Client.list_all`."""
        ...


class Writer:
    """A client whose writes wait for the token bucket and stop when the lease is lost. Reads pass freely."""

    def __init__(self, client: Requester, gate: Gate, limit: TokenBucket) -> None:
        self._client = client
        self._gate = gate
        self._limit = limit

    @property
    def open(self) -> bool:
        """True if this process may write now."""
        return self._gate.open

    @property
    def open_for(self) -> float:
        """For how many seconds that has been so without a gap."""
        return self._gate.open_for

    async def get(self, path: str) -> dict[str, Any]:
        """Read one object. Raises ApiError."""
        return await self._client.request("GET", path)

    async def write(
        self, method: str, path: str, body: Mapping[str, Any] | list[Any], content_type: str | None = None
    ) -> dict[str, Any]:
        """Send a write. Raises ApiError, NotLeadingError if this process may not write now."""
        self._gate.check()
        await self._limit.acquire()
        self._gate.check()
        return await self._client.request(method, path, body=body, content_type=content_type)
