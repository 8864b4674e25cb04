"""Which clients may talk to the server: only the browser that opened the printed address.

The server listens on the loopback interface, where every program of the machine and every page in its browsers can
send requests. So each request needs the name of this server in Host (a page elsewhere that points its own name to
127.0.0.1 sends its own), and a cookie that only the printed address gives. A request that changes something also needs
the Origin of these pages and a second secret. Browsers send a cookie to all ports of a host, so a server of another
user of this machine sees the cookie if this browser opens one of its pages. The second secret is therefore in no
cookie: it is the fragment of the printed address, which browsers send to nobody, and the pages keep it in the storage
of their origin, to which the port belongs.
"""

import secrets
from hmac import compare_digest
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from holdfast_cli.pages.assets import asset

POST_TOKEN: Final = "X-Holdfast-Token"  # noqa: S105 - the name of a header
NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OWN: Final = ("same-origin", "none")  # values of Sec-Fetch-Site of requests that no other site began
_FORM: Final = "application/x-www-form-urlencoded"


class Guard:
    """The secrets of one server, and the middleware that asks for them."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.token = secrets.token_urlsafe(32)
        self.post_token = secrets.token_urlsafe(32)
        self._cookie = f"holdfast-{port}"  # browsers share cookies among all ports of a host

    @property
    def address(self) -> str:
        """The address that opens the pages. It holds both secrets."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}#{self.post_token}"

    def middleware(self) -> Middleware:
        """Refuses a request before anything else reads it."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.method not in (hdrs.METH_GET, hdrs.METH_POST):
                return _refusal(405, f"{request.method} is not allowed: only GET and POST are")
            if why := self.refusal(request):
                return _refusal(403, why)
            if request.method == hdrs.METH_GET and request.path == "/" and "token" in request.query:
                return self._enter(request)
            if not self._knows(request.cookies.get(self._cookie, ""), self.token):
                return _refusal(401, "open the address that `holdfast ui` has printed: it lets this browser in")
            if request.method == hdrs.METH_POST:
                if not self._knows(request.headers.get(POST_TOKEN, ""), self.post_token):
                    return _refusal(
                        403, "this browser may look and not act: open the address that `holdfast ui` has printed"
                    )
                if request.content_type != _FORM:
                    return _refusal(415, f"the body must be {_FORM}")
            return await handler(request)

        return guard

    def refusal(self, request: web.BaseRequest) -> str:
        """Why a request is refused because of where it comes from; empty if it is not."""
        hosts = request.headers.getall(hdrs.HOST, [])
        own = {f"{name}:{self.port}" for name in NAMES} | (set(NAMES) if self.port == 80 else set())
        if len(hosts) != 1 or hosts[0].lower() not in own:
            return f"Host must be 127.0.0.1:{self.port} or localhost:{self.port}"
        site = request.headers.get("Sec-Fetch-Site", "none")
        if request.method == hdrs.METH_POST:
            origins = request.headers.getall(hdrs.ORIGIN, [])
            if origins != [f"http://{hosts[0].lower()}"] or site not in _OWN:
                return "Origin must be that of these pages"
        elif site not in _OWN and request.headers.get("Sec-Fetch-Mode") != "navigate":
            return "another site may link to these pages, and not load parts of them"
        return ""

    def _enter(self, request: web.Request) -> web.Response:
        """Give the cookie, and a page whose script keeps the other secret and replaces this address in the history.

        A redirect would not do: after a link of another site, browsers do not send a strict cookie with it.
        """
        if not self._knows(request.query["token"], self.token):
            return _refusal(
                401, "the token is not that of this server: open the address that `holdfast ui` has printed"
            )
        answer = web.Response(body=asset("enter.html"), content_type="text/html", charset="utf-8")
        answer.set_cookie(self._cookie, self.token, httponly=True, samesite="Strict", path="/")
        return answer

    @staticmethod
    def _knows(given: str, secret: str) -> bool:
        return compare_digest(given.encode(errors="surrogateescape"), secret.encode())


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Put the headers of every answer on it, also on answers to what does not exist."""
    response.headers.update(HEADERS)


def _refusal(status: int, why: str) -> web.Response:
    return web.Response(status=status, text=f"{why}\n")
