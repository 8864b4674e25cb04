"""The web application: addresses, documents, files, streams and actions."""

import asyncio
import socket
from typing import Any, Final

from aiohttp import ClientConnectionResetError, hdrs, web
from aiohttp.typedefs import Handler

from holdfast.api.errors import SpecError
from holdfast_cli.pages.assets import asset
from holdfast_cli.ui.actions import act
from holdfast_cli.ui.cluster import Cluster
from holdfast_cli.ui.readings import Readings
from holdfast_cli.ui.security import HEADERS, Guard, add_headers
from holdfast_cli.ui.stream import Stream
from holdfast_cli.ui.views import LONGEST, view_of

STREAMS: Final = 64  # pages that may be open at once
LARGEST_BODY: Final = 4096  # bytes
_TYPES: Final = {"css": "text/css", "js": "text/javascript"}
_NAME: Final = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"


@web.middleware
async def _in_words(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Say what is wrong with a job that this version cannot read."""
    try:
        return await handler(request)
    except SpecError as error:
        return web.Response(status=422, text=f"this version cannot read the job: {error}\n")


class Pages:
    """The handlers. `scope` says what is shown of which cluster."""

    def __init__(self, cluster: Cluster, guard: Guard, scope: str) -> None:
        self._cluster = cluster
        self._readings = Readings(cluster)
        self._guard = guard
        self._scope = scope
        self._streams = 0

    def app(self) -> web.Application:
        """The application."""
        app = web.Application(middlewares=[self._guard.middleware(), _in_words], client_max_size=LARGEST_BODY)
        app.on_response_prepare.append(add_headers)
        job = f"/jobs/{{namespace:{_NAME}}}/{{name:{_NAME}}}"
        routes: list[tuple[str, Handler]] = [
            ("/", self._home),
            *((path, self._document) for path in ("/jobs", "/tiers", job)),
            *((f"/{name}", self._file(name)) for name in ("page.js", "uplot.js", "live.js", "enter.js", "page.css")),
            ("/favicon.ico", self._icon),
            ("/events", self._events),
        ]
        for path, handler in routes:
            app.router.add_get(path, handler, allow_head=False)
        app.router.add_post(f"{job}/{{action:checkpoint|move|suspend|resume}}", self._act)
        return app

    async def _home(self, _: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/jobs")

    async def _document(self, request: web.Request) -> web.StreamResponse:
        async with view_of(self._cluster, self._readings, request.path_qs) as view:
            drawn = None if view is None else await view.draw()
        if view is None or drawn is None:
            raise web.HTTPNotFound(text="there is no such job, or you do not see it\n")
        html = drawn.document(view.path, self._scope, self._cluster.trouble)
        return web.Response(text=html, content_type="text/html", charset="utf-8")

    def _file(self, name: str) -> Handler:
        parts = (name, "live.css") if name == "page.css" else (name,)
        kind = _TYPES[name.rpartition(".")[2]]

        async def handler(_: web.Request) -> web.StreamResponse:
            body = b"\n".join(asset(part) for part in parts)
            return web.Response(body=body, content_type=kind, charset="utf-8")

        return handler

    async def _icon(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=asset("icon.svg"), content_type="image/svg+xml")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= STREAMS:
            return web.Response(status=503, text=f"{STREAMS} pages are open already: close some\n")
        page, stamp = request.query.get("page", ""), request.query.get("stamp", "")
        self._streams += 1
        try:
            async with view_of(self._cluster, self._readings, page[:LONGEST]) as view:
                if view is None:
                    return web.Response(status=404, text="there is no such page\n")
                response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream"})
                try:
                    await response.prepare(request)
                    await Stream(response, self._cluster, view).run(stamp)
                except ClientConnectionResetError:  # the tab is closed
                    pass
                except TimeoutError:
                    if request.transport is not None:
                        request.transport.abort()
                return response
        finally:
            self._streams -= 1

    async def _act(self, request: web.Request) -> web.StreamResponse:
        return await act(self._cluster, request.match_info, dict(await request.post()))


class _Connection(web.RequestHandler):
    """A connection whose errors are answered with the headers of every answer, and without bytes of the request."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """As RequestHandler; the message is not that of the library, which quotes the request."""
        super().handle_error(request, status, exc, message)  # writes the log; ConnectionError if an answer has begun
        text = "the request is not HTTP that this server reads" if status < 500 else "an error of the program"
        answer = web.Response(status=status, text=f"{text}\n", headers=HEADERS)
        answer.force_close()
        return answer


_QUIET: Final[dict[str, Any]] = {"access_log": None}  # addresses hold the secret


class _Server(web.Server):
    """Makes such a connection for each client."""

    def __call__(self) -> web.RequestHandler:
        """A new connection."""
        return _Connection(self, loop=asyncio.get_running_loop(), **_QUIET)


class _Runner(web.AppRunner):
    """Runs an application on such connections."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            if request.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
                return web.Response(status=417, text="Expect may only be 100-continue\n", headers=HEADERS)
            return await made.request_handler(request)

        return _Server(handle, request_factory=made.request_factory, handler_cancellation=True)


async def serve(app: web.Application, sock: socket.socket) -> web.AppRunner:
    """Answer requests on a socket that listens, until `cleanup` of what is returned."""
    runner = _Runner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.SockSite(runner, sock).start()
    return runner
