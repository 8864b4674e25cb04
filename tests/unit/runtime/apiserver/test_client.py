from pathlib import Path
from time import monotonic

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from holdfast.runtime.apiserver.client import Client, resource_of
from holdfast.runtime.errors import ApiError, NoClusterError


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", ("pods", False)),
        ("/api/v1/nodes/n1", ("nodes", True)),
        ("/api/v1/namespaces", ("namespaces", False)),
        ("/api/v1/namespaces/x", ("namespaces", True)),
        ("/api/v1/namespaces/x/pods", ("pods", False)),
        ("/api/v1/namespaces/x/pods/y", ("pods", True)),
        ("/apis/holdfast.dev/v1alpha1/namespaces/x/trainingjobs/y/status", ("trainingjobs/status", True)),
        ("/apis/holdfast.dev/v1alpha1/trainingjobs", ("trainingjobs", False)),
        ("/version", ("other", False)),
    ],
)
def test_the_resource_of_a_path(path: str, expected: tuple[str, bool]) -> None:
    assert resource_of(path) == expected


async def test_a_missing_kubeconfig_is_named() -> None:
    with pytest.raises(NoClusterError, match="/nowhere"):
        await Client.from_kubeconfig(Path("/nowhere"))


async def test_a_kubeconfig_without_a_context_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("kind: Config")
    with pytest.raises(NoClusterError, match=f"kubeconfig {tmp_path}/config cannot be used: .*current-context"):
        await Client.from_kubeconfig(tmp_path / "config")


def test_kinds_of_errors() -> None:
    assert ApiError(409, "AlreadyExists", "x").already_exists
    assert not ApiError(409, "AlreadyExists", "x").conflict
    assert ApiError(409, "Conflict", "x").conflict
    assert all(ApiError(status, "x", "y").transient for status in (0, 429, 500, 503))
    assert not any(ApiError(status, "x", "y").transient for status in (400, 403, 404, 409, 422))


class Pages:
    """A server with a list of five pages, which answers some requests with these statuses first."""

    def __init__(self, *refusals: int, first: bool = False, retry_after: str | None = "0") -> None:
        self.refusals = list(refusals)
        self.first = first
        self.headers = {"Retry-After": retry_after} if retry_after else {}
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        """One page, or a refusal; not of the first page, unless `first` says so."""
        place = request.query.get("continue", "0")
        self.asked.append(place)
        if self.refusals and (place != "0" or self.first):
            body = {"reason": "TooManyRequests", "message": "slow down"}
            return web.json_response(body, status=self.refusals.pop(0), headers=self.headers)
        after = {"continue": str(int(place) + 1)} if place != "4" else {}
        return web.json_response({"metadata": {"resourceVersion": "7", **after}, "items": [{"page": place}]})

    async def read(self) -> list[str]:
        """The pages, as the client reads them."""
        app = web.Application()
        app.router.add_get("/api/v1/nodes", self.answer)
        async with TestServer(app) as server:
            configuration = Configuration()
            configuration.host = str(server.make_url("")).rstrip("/")
            async with Client(configuration) as client:
                return [items[0]["page"] async for items, _ in client.pages("/api/v1/nodes")]


@pytest.mark.parametrize("first", [True, False])
async def test_a_page_that_is_refused_is_asked_for_again_and_no_other_one(first: bool) -> None:
    """Breaks if a new leader reads the whole list again because one page was refused."""
    server = Pages(429, 503, 500, first=first)
    assert await server.read() == ["0", "1", "2", "3", "4"]
    assert len(server.asked) == 5 + 3
    assert sorted(server.asked) == server.asked


async def test_a_refused_page_waits_as_long_as_the_server_says_and_otherwise_shortly() -> None:
    """Breaks if a new leader waits for a second at each refusal of a server that names no time."""
    times = []
    for retry_after in (None, "0.5"):
        began = monotonic()
        assert len(await Pages(429, retry_after=retry_after).read()) == 5
        times.append(monotonic() - began)
    assert times[0] >= 0.1
    assert times[0] < 1
    assert times[1] >= 0.5


async def test_a_list_that_has_expired_is_an_error() -> None:
    server = Pages(410)
    with pytest.raises(ApiError, match="410"):
        await server.read()
    assert server.asked == ["0", "1"]
