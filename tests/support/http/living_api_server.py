"""An API server that lives: objects that a test changes, lists in pages, watches that stay open, logs that grow.

It knows no rights and no schemas: a test refuses paths by hand.
"""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from tests.support.http.kubeconfig import write_kubeconfig
from tests.support.http.loop_thread import LoopThread

T = TypeVar("T")
PAGE = 500


def status(code: int, reason: str, message: str) -> web.Response:
    """An answer that is an error."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


class LivingApi:
    """Objects by the path of their list and their key. Its methods are for the thread of the test."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[str] = []
        self.refused: dict[tuple[str, str], tuple[int, str, str]] = {}
        """By verb (GET, PATCH) and path of a list: code, reason and message of the refusal."""
        self._objects: dict[str, dict[str, dict[str, Any]]] = {}
        self._watches: dict[str, list[asyncio.Queue[dict[str, Any] | None]]] = {}
        self._logs: dict[str, bytes] = {}
        self._ended = set[str]()  # the logs that do not grow any more
        self._grown = asyncio.Event()  # set, and replaced, when a log has grown
        self._versions = itertools.count(1)
        self._thread = LoopThread("living-api")
        self._runner: web.AppRunner | None = None

    def put(self, path: str, *objects: dict[str, Any]) -> None:
        """Create or replace objects of a list, and tell the watches."""
        self._call(lambda: (self._objects.setdefault(path, {}), [self._put(path, one) for one in objects]))

    def delete(self, path: str, name: str) -> None:
        """Delete an object, and tell the watches."""

        def gone() -> None:
            found = self._objects[path].pop(name)
            found["metadata"]["resourceVersion"] = str(next(self._versions))
            self._tell(path, {"type": "DELETED", "object": found})

        self._call(gone)

    def get(self, path: str, name: str) -> dict[str, Any]:
        """An object."""
        found = self._call(lambda: json.dumps(self._objects[path][name]))
        return dict(json.loads(found))

    def write_log(self, path: str, content: bytes, *, ends: bool = False) -> None:
        """Append to what `GET path` answers, the log of a pod. One that is followed stays open until it `ends`."""

        def grow() -> None:
            self._logs[path] = self._logs.get(path, b"") + content
            self._ended |= {path} if ends else set()
            self._grown.set()
            self._grown = asyncio.Event()

        self._call(grow)

    def expire(self, path: str) -> None:
        """End all watches of a list as the API server does when their version is too old."""
        gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        self._call(lambda: self._tell(path, {"type": "ERROR", "object": gone}))

    def watching(self, path: str) -> int:
        """How many watches of a list are open."""
        return self._call(lambda: len(self._watches.get(path, [])))

    def stop(self) -> None:
        """Go away, with all connections."""
        self._await(self._stop())

    def start(self) -> None:
        """Come (again) on the same port."""
        self._await(self._start())

    def kubeconfig(self, path: Path, namespace: str = "demo") -> Path:
        """Write a kubeconfig for this server."""
        return write_kubeconfig(path, self.port, namespace)

    def _call(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return self._await(run())

    def _await(self, work: Any) -> Any:
        return self._thread.run(work)

    def _put(self, path: str, one: dict[str, Any]) -> None:
        one = json.loads(json.dumps(one))
        one["metadata"]["resourceVersion"] = str(next(self._versions))
        objects = self._objects.setdefault(path, {})
        kind = "MODIFIED" if one["metadata"]["name"] in objects else "ADDED"
        objects[one["metadata"]["name"]] = one
        self._tell(path, {"type": kind, "object": one})

    def _tell(self, path: str, event: dict[str, Any]) -> None:
        for queue in self._watches.get(path, []):
            queue.put_nowait(event)

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path, verb = request.path, request.method
        self.requests.append(f"{'WATCH' if 'watch' in request.query else verb} {path}")
        of_list, _, name = path.rpartition("/")
        for (refused, where), (code, reason, message) in self.refused.items():
            if verb == refused and where in (path, of_list):
                return status(code, reason, message)
        if verb == "GET" and path in self._objects:
            return await self._watch(request, path) if "watch" in request.query else self._list(request, path)
        if path in self._logs:
            return await self._log(request, path)
        found = self._objects.get(of_list, {}).get(name)
        if found is None:
            return status(404, "NotFound", f'"{name}" not found')
        if verb == "PATCH":
            merge(found, await request.json())
            self._put(of_list, found)
            found = self._objects[of_list][name]
        return web.json_response(found)

    def _list(self, request: web.Request, path: str) -> web.Response:
        begin = int(request.query.get("continue", 0))
        items = list(self._objects[path].values())
        version = str(next(self._versions))
        meta = {"resourceVersion": version}
        if begin + PAGE < len(items):
            meta["continue"] = str(begin + PAGE)
        return web.json_response({"kind": "List", "metadata": meta, "items": items[begin : begin + PAGE]})

    async def _log(self, request: web.Request, path: str) -> web.StreamResponse:
        if "follow" not in request.query:
            return web.Response(body=self._logs[path])
        response, sent = web.StreamResponse(), 0
        await response.prepare(request)
        while True:
            grown, content = self._grown, self._logs[path]
            if content[sent:]:
                await response.write(content[sent:])
                sent = len(content)
            if path in self._ended:
                return response
            await grown.wait()

    async def _watch(self, request: web.Request, path: str) -> web.StreamResponse:
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._watches.setdefault(path, []).append(queue)
        try:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            while event := await queue.get():
                await response.write(json.dumps(event).encode() + b"\n")
                if event["type"] == "ERROR":
                    break
            return response
        finally:
            self._watches[path].remove(queue)


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """A JSON merge patch."""
    for key, value in patch.items():
        if isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = value


@contextmanager
def living_api() -> Iterator[LivingApi]:
    """A server on a free port of the loopback interface."""
    api = LivingApi()
    api._thread.start()
    api.start()
    try:
        yield api
    finally:
        api.stop()
        api._thread.stop()
