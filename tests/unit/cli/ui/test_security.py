"""Which requests the server of the pages refuses, with which words, and what is on every answer."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientResponse, ClientSession, web

from holdfast_cli.ui.command import listening
from holdfast_cli.ui.security import HEADERS, POST_TOKEN, Guard, add_headers

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Server:
    """A server with one page and one action, and a client that sends what a test wants."""

    def __init__(self, guard: Guard, session: ClientSession) -> None:
        self.guard = guard
        self._session = session
        self.host = f"127.0.0.1:{guard.port}"
        self.cookie = {"Cookie": f"holdfast-{guard.port}={guard.token}"}
        self.own = {**self.cookie, **FORM, "Origin": f"http://{self.host}", POST_TOKEN: guard.post_token}

    async def send(self, method: str, path: str, headers: dict[str, str]) -> ClientResponse:
        async with self._session.request(method, f"http://{self.host}{path}", headers=headers) as answer:
            await answer.read()
            return answer


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="a page")

    with listening(0) as sock:
        guard = Guard(sock.getsockname()[1])
        app = web.Application(middlewares=[guard.middleware()])
        app.on_response_prepare.append(add_headers)
        app.router.add_get("/jobs", page, allow_head=False)
        app.router.add_post("/act", page)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.SockSite(runner, sock).start()
        async with ClientSession() as session:
            yield Server(guard, session)
        await runner.cleanup()


# Breaks if a page elsewhere can point its own name to 127.0.0.1 and read jobs.
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1", "0.0.0.0:{port}", ""]
)
async def test_another_host_is_refused(server: Server, host: str) -> None:
    answer = await server.send("GET", "/jobs", {**server.cookie, "Host": host.format(port=server.guard.port)})
    assert answer.status in (400, 403)
    assert "a page" not in await answer.text()


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "LOCALHOST:{port}"])
async def test_the_own_names_are_answered(server: Server, host: str) -> None:
    answer = await server.send("GET", "/jobs", {**server.cookie, "Host": host.format(port=server.guard.port)})
    assert answer.status == 200


# Breaks if another user or program of the machine is let in.
@pytest.mark.parametrize(
    "cookie", ["", "holdfast-{port}=", "holdfast-{port}=wrong", "holdfast-1={token}", "other={token}"]
)
async def test_without_the_cookie_nothing_is_shown(server: Server, cookie: str) -> None:
    named = cookie.format(port=server.guard.port, token=server.guard.token)
    answer = await server.send("GET", "/jobs", {"Cookie": named} if named else {})
    assert answer.status == 401
    assert "holdfast ui" in await answer.text()


async def test_the_printed_address_gives_the_cookie_and_leaves_the_address_bar(server: Server) -> None:
    """Breaks if scripts can read the cookie, if other sites send it, or if it is all that an action needs."""
    answer = await server.send(
        "GET", f"/?token={server.guard.token}", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    )
    cookie = answer.headers["Set-Cookie"]
    assert answer.status == 200
    assert '<script src="/enter.js">' in await answer.text()
    assert server.guard.post_token not in str(answer.headers) + await answer.text()
    assert server.guard.address.partition("#")[2] == server.guard.post_token
    assert server.guard.token in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert len(server.guard.token) >= 43  # 32 bytes in base64


@pytest.mark.parametrize("token", ["", "x", "é"])
async def test_another_token_gives_no_cookie(server: Server, token: str) -> None:
    answer = await server.send("GET", f"/?token={token}", {})
    assert answer.status == 401
    assert "Set-Cookie" not in answer.headers


async def test_an_action_from_the_pages_is_done(server: Server) -> None:
    assert (await server.send("POST", "/act", {**server.own, "Sec-Fetch-Site": "same-origin"})).status == 200


# Breaks if a page of another site, or of another port of this machine, can act on jobs through the browser.
@pytest.mark.parametrize(
    ("changed", "status"),
    [({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Origin": None}, 403),
     ({"Origin": "http://127.0.0.1:1"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
     ({"Sec-Fetch-Site": "same-site"}, 403), ({POST_TOKEN: None}, 403), ({POST_TOKEN: "wrong"}, 403),
     ({"Cookie": None}, 401), ({"Content-Type": "text/plain"}, 415)],
)  # fmt: skip
async def test_a_forged_action_is_refused(server: Server, changed: dict[str, str | None], status: int) -> None:
    headers = {name: value for name, value in {**server.own, **changed}.items() if value is not None}
    answer = await server.send("POST", "/act", headers)
    assert answer.status == status
    assert "a page" not in await answer.text()


async def test_another_site_may_link_to_a_page_and_not_load_it(server: Server) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await server.send("GET", "/jobs", {**server.cookie, **link})).status == 200
    assert (await server.send("GET", "/jobs", {**server.cookie, **link, "Sec-Fetch-Mode": "no-cors"})).status == 403


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_are_refused(server: Server, method: str) -> None:
    assert (await server.send(method, "/jobs", server.own)).status == 405


# Breaks if any answer, also to what does not exist or is refused, lacks a header, or allows other origins.
@pytest.mark.parametrize(("path", "cookie"), [("/jobs", True), ("/nothing", True), ("/act", True), ("/jobs", False)])
async def test_every_answer_has_the_headers(server: Server, path: str, cookie: bool) -> None:
    answer = await server.send("GET", path, server.cookie if cookie else {})
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert not [name for name in answer.headers if name.startswith("Access-Control")]
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
