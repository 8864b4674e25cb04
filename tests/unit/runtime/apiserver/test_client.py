from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TypeVar

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from holdfast.runtime.apiserver.client import LONGEST_RETRY_AFTER, Client, resource_of, retry_after
from holdfast.runtime.errors import ApiError, NoClusterError
from holdfast.serve.authority import Authority
from holdfast.serve.certs import server_context

T = TypeVar("T")


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


async def reading(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], read: Callable[[Client], Awaitable[T]]
) -> T:
    """What `read` gets from a server that answers every request for nodes with `answer`."""
    app = web.Application()
    app.router.add_get("/api/v1/nodes", answer)
    async with TestServer(app) as server:
        configuration = Configuration()
        configuration.host = str(server.make_url("")).rstrip("/")
        async with Client(configuration) as client:
            return await read(client)


class Pages:
    """A server with a list of five pages, which answers some requests with these statuses first."""

    def __init__(
        self, *refusals: int, first: bool = False, retry_after: str | None = "0", rest: str | None = None
    ) -> None:
        self.refusals = list(refusals)
        self.first = first
        self.rest = rest
        self.versions: list[int] = []
        self.headers = {"Retry-After": retry_after} if retry_after else {}
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        """One page, or a refusal; not of the first page, unless `first` says so."""
        place = request.query.get("continue", "0")
        self.asked.append(place)
        if self.refusals and (place != "0" or self.first):
            body = {"reason": "TooManyRequests", "message": "slow down", "metadata": {"continue": self.rest}}
            return web.json_response(body, status=self.refusals.pop(0), headers=self.headers)
        place, _, newer = place.partition("-")
        after = {"continue": f"{int(place) + 1}{newer and '-newer'}"} if place != "4" else {}
        version = "9" if newer else "7"
        return web.json_response({"metadata": {"resourceVersion": version, **after}, "items": [{"page": place}]})

    async def read(self) -> list[str]:
        """The pages, as the client reads them."""

        async def read(client: Client) -> list[str]:
            pages = [(items[0]["page"], version) async for items, version in client.pages("/api/v1/nodes")]
            self.versions = [version for _, version in pages]
            return [page for page, _ in pages]

        return await reading(self.answer, read)


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
    for wish in (None, "0", "-1", "0.5"):
        began = monotonic()
        assert len(await Pages(429, 429, 429, retry_after=wish).read()) == 5
        times.append(monotonic() - began)
    assert min(times) >= 0.02 + 0.04 + 0.08, "a server that says 0 is not asked again at once"
    assert times[0] < 1
    assert times[-1] >= 3 * 0.5


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [
        ("1", 1.0),
        ("1e9", LONGEST_RETRY_AFTER),
        ("inf", LONGEST_RETRY_AFTER),
        ("-3", 0.0),
        ("nan", 0.0),
        ("Sat, 21 Nov 2026 07:28:00 GMT", None),
        ("soon", None),
    ],
)
def test_a_wish_of_the_server_is_bounded(wish: str, seconds: float | None) -> None:
    """Breaks if a proxy before the API server lets a job rest for years."""
    assert retry_after({"Retry-After": wish}) == seconds


async def test_a_list_that_has_expired_is_an_error() -> None:
    server = Pages(410)
    with pytest.raises(ApiError, match="410"):
        await server.read()
    assert server.asked == ["0", "1"]


async def test_a_list_that_expires_goes_on_where_the_server_offers_it() -> None:
    """Breaks if a list that takes longer than five minutes never ends, or drops what was created meanwhile."""
    server = Pages(410, rest="1-newer")
    assert await server.read() == ["0", "1", "2", "3", "4"]
    assert server.versions == [7] * 5


async def test_a_list_that_always_expires_is_an_error() -> None:
    server = Pages(*[410] * 9, rest="1-newer")
    with pytest.raises(ApiError, match="410"):
        await server.read()
    assert server.asked == ["0", "1", "1-newer"]


async def test_a_page_that_names_itself_as_the_next_one_ends_the_list() -> None:
    """Breaks if an operator reads one page for ever."""

    async def again(request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "7", "continue": "1"}, "items": []})

    with pytest.raises(ApiError, match="names itself"):
        await reading(again, lambda client: client.list_all("/api/v1/nodes"))


@pytest.mark.parametrize("text", ["<html>Sign in</html>", "null", '"ok"', "[1]", "\xff"])
async def test_an_answer_that_is_not_an_object_is_an_error(text: str) -> None:
    """Breaks if the page of a proxy ends the operator."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=text.encode("latin-1"), content_type="application/json")

    with pytest.raises(ApiError, match="BadAnswer") as caught:
        await reading(answer, lambda client: client.request("GET", "/api/v1/nodes"))
    assert caught.value.transient


@dataclass
class Rotated:
    """An API server whose CA and certificate are replaced while a client runs."""

    folder: Path
    ca: Path = field(init=False)
    port: int = 0

    def __post_init__(self) -> None:
        self.ca = self.folder / "ca.crt"

    @asynccontextmanager
    async def serving(self, authority: Authority) -> AsyncIterator[None]:
        """Serve with a certificate of this authority."""
        pair = authority.issue("127.0.0.1", timedelta(days=1), hosts=["127.0.0.1"])

        async def answer(request: web.Request) -> web.Response:
            return web.json_response({"served": True})

        app = web.Application()
        app.router.add_get("/version", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=server_context(pair)).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    def client(self) -> Client:
        """A client that may read its files again at once."""
        configuration = Configuration()
        configuration.host, configuration.ssl_ca_cert = f"https://127.0.0.1:{self.port}", str(self.ca)

        async def load() -> None:
            return None

        client = Client(configuration, load)
        client.reload_every = 0.0
        return client


async def test_a_new_ca_of_the_api_server_is_trusted_once_it_is_in_the_file(tmp_path: Path) -> None:
    """Breaks if an operator that waits for the Lease is of no use after the CA was replaced, until somebody notices."""
    server, life = Rotated(tmp_path), timedelta(days=10)
    old, new = Authority.create("old", life), Authority.create("new", life)
    server.ca.write_text(old.pair.certificate)
    async with server.serving(old):
        client = server.client()
        assert await client.request("GET", "/version")
    async with client, server.serving(new):
        for content in (old.pair.certificate, "garbage"):
            server.ca.write_text(content)
            with pytest.raises(ApiError, match="no answer"):
                await client.request("GET", "/version")
        server.ca.write_text(new.pair.certificate)
        assert await client.request("GET", "/version")
