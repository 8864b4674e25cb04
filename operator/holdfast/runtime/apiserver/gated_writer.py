"""The path of every write to the API server: only while leading, and not faster than the rate limit."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from holdfast.runtime.apiserver.client import namespace_of
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.serve.token_bucket import TokenBucket


class Requester(Protocol):
    """The part of `client.Client` that the rest of the operator uses."""

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
        """See `client.Client.request`."""

    def pages(
        self, path: str, params: Mapping[str, str | int] | None = None
    ) -> AsyncIterator[tuple[list[dict[str, Any]], int]]:
        """See `client.Client.pages`."""

    async def list_all(
        self, path: str, params: Mapping[str, str | int] | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        """See `client.Client.list_all`."""


class GatedWriter:
    """A client whose writes wait for the token bucket and need the lease. Reads need neither.

    Namespaces take turns: the writes that the people of one namespace cause do not hold up those of another.
    """

    def __init__(self, client: Requester, gate: LeadershipGate, limit: TokenBucket) -> None:
        self._client = client
        self._gate = gate
        self._limit = limit

    @property
    def may_write(self) -> bool:
        """True if this process may write now."""
        return self._gate.is_open

    @property
    def leading_for(self) -> float:
        """For how many seconds this process has led without a gap."""
        return self._gate.open_for

    async def get(self, path: str, params: Mapping[str, str | int] | None = None) -> dict[str, Any]:
        """Read one object, or one page of a list. Raises ApiError."""
        return await self._client.request("GET", path, params=params)

    async def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | list[Any],
        content_type: str | None = None,
        *,
        first: bool = False,
    ) -> dict[str, Any]:
        """Send a write; before the others of its namespace that wait, if it is a `first` one.

        Raises ApiError; NotLeadingError if this process may not write now.
        """
        self._gate.check()
        await self._limit.acquire(namespace_of(path), first=first)
        self._gate.check()
        return await self._client.request(method, path, body=body, content_type=content_type)
