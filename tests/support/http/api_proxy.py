"""A proxy before a real API server that refuses, holds or cuts requests, as a test says.

Requests are passed on with the credentials that they carry. The proxy runs on a loop of its own in a thread.
"""

import asyncio
import itertools
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientSession, ClientTimeout, TCPConnector, web
from tests.support.http.loop_thread import LoopThread
from yarl import URL

_HOP = {"host", "content-length", "transfer-encoding", "connection"}


@dataclass
class Rule:
    """Each `every`th request whose method and path match `pattern` is refused with `status`, or held if that is 0."""

    pattern: str
    status: int = 0
    every: int = 1
    retry_after: str | None = None
    met: int = 0
    is_met: threading.Event = field(default_factory=threading.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def applies(self, request: web.Request) -> bool:
        """Count the request, and say whether it meets this rule."""
        if not re.search(self.pattern, f"{request.method} {request.path}") or next(self.numbers) % self.every:
            return False
        self.met += 1
        self.is_met.set()
        return True


class ApiProxy:
    """Listens on 127.0.0.1. `page` is how many objects a page of a list has, in place of what the client wants."""

    def __init__(self, server: str, ca: Path) -> None:
        self._server = server
        self._ca = ca
        self._rules: list[Rule] = []
        self._watches: dict[asyncio.Task[Any], str] = {}
        self._thread = LoopThread("api-proxy")
        self._session: ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.page: int | None = None
        self.pages = 0
        """Pages of lists that were given."""
        self.port = 0

    def kubeconfig(self, of: Path, path: Path) -> Path:
        """Write to `path` what another kubeconfig says, with this proxy in place of its server."""
        content = yaml.safe_load(of.read_text())
        content["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        path.write_text(yaml.safe_dump(content))
        return path

    def add(self, pattern: str, status: int = 0, **more: Any) -> Rule:
        """A rule from now on: see Rule."""
        rule = Rule(pattern, status, **more)
        self._thread.loop.call_soon_threadsafe(self._rules.append, rule)
        return rule

    def release(self, rule: Rule) -> None:
        """Pass on the requests that a rule holds."""
        self._thread.loop.call_soon_threadsafe(rule.go.set)

    def cut_watches(self, path: str) -> None:
        """Close the open watches of this path."""
        self._cut(lambda watched: watched == path)

    def cut_logs(self) -> None:
        """Close the open streams of logs, wherever in a line they are."""
        self._cut(lambda watched: watched.endswith("/log"))

    def _cut(self, chosen: Callable[[str], bool]) -> None:
        def cut() -> None:
            for task, watched in list(self._watches.items()):
                if chosen(watched):
                    task.cancel()

        self._thread.loop.call_soon_threadsafe(cut)

    async def start(self) -> None:
        """Listen."""
        connector = TCPConnector(ssl=ssl.create_default_context(cafile=str(self._ca)), limit=0)
        self._session = ClientSession(connector=connector, timeout=ClientTimeout(total=None), auto_decompress=False)
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close all connections."""
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        for rule in self._rules:
            if rule.applies(request):
                if rule.status:
                    return _refusal(rule)
                await rule.go.wait()
        task = asyncio.current_task()
        assert task is not None
        if "true" in (request.query.get("watch"), request.query.get("follow")):
            self._watches[task] = request.path
        try:
            return await self._pass_on(request)
        finally:
            self._watches.pop(task, None)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        url = URL(f"{self._server}{request.path_qs}", encoded=True)
        if self.page and "limit" in request.query:
            url = url.update_query(limit=self.page)
            self.pages += 1
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        body = await request.read() or None
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            reply = web.StreamResponse(status=answer.status, headers=kept)
            await reply.prepare(request)
            async for chunk in answer.content.iter_any():
                await reply.write(chunk)
            return reply


def _refusal(rule: Rule) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": rule.status, "reason": "Refused", "message": "by the test"}
    headers = {} if rule.retry_after is None else {"Retry-After": rule.retry_after}
    return web.json_response(body, status=rule.status, headers=headers)


@contextmanager
def api_proxy(server: str, ca: Path) -> Iterator[ApiProxy]:
    """A running proxy before the API server at `server` (https://host:port)."""
    proxy = ApiProxy(server, ca)
    proxy._thread.start()
    proxy._thread.run(proxy.start())
    try:
        yield proxy
    finally:
        proxy._thread.run(proxy.stop())
        proxy._thread.stop()
