"""The kubelet port: container logs, ports of pods, and commands in containers, for the API server.

It must show a certificate of the cluster's CA.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from holdfast_local.agent import commands, ports
from holdfast_local.agent.config import AgentConfig
from holdfast_local.agent.container import logs
from holdfast_local.agent.container.container import Container
from holdfast_local.agent.container.network import Network
from holdfast_local.agent.pod import PodWorker
from holdfast_local.agent.status import Waiting

Find = Callable[[str, str], PodWorker | None]


class LogServer:
    """HTTPS on the address of each node: /containerLogs/..., /portForward/... and /exec/..., as of a kubelet."""

    def __init__(self, config: AgentConfig, find: Find) -> None:
        self._config = config
        self._find = find
        app = web.Application()
        app.router.add_get("/healthz", _healthz)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_get("/portForward/{namespace}/{pod}", self._forward)
        app.router.add_get("/portForward/{namespace}/{pod}/{uid}", self._forward)
        app.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.5)

    async def start(self, isolated: Iterable[Network]) -> int:
        """Listen in the network of the machine, and in these ones; returns the port. Raises OSError if it is taken."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self._config.ca_cert))
        context.load_cert_chain(str(self._config.kubelet_cert), str(self._config.kubelet_key))
        context.verify_mode = ssl.CERT_REQUIRED
        await self._runner.setup()
        own = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        port = await self._listen(own, ("127.0.0.1", self._config.kubelet_port), context)
        for network in isolated:
            inside = network.open_socket((socket.AF_INET, socket.SOCK_STREAM, 0))
            await self._listen(inside, (network.address, port), context)
        return port

    async def _listen(self, listening: socket.socket, address: tuple[str, int], context: ssl.SSLContext) -> int:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        await web.SockSite(self._runner, listening, ssl_context=context).start()
        return int(listening.getsockname()[1])

    async def stop(self) -> None:
        """Stop listening; streams are cut."""
        await self._runner.cleanup()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        pod, name = request.match_info["pod"], request.match_info["container"]
        worker = self._find(request.match_info["namespace"], pod)
        if worker is None:
            raise web.HTTPNotFound(text=f'pod "{pod}" does not exist on a node that answers')
        options = _Options(request)
        path = worker.folder / f"{name}.log"
        container = next((one for one in (*worker.init, *worker.containers) if one.state.name == name), None)
        if options.previous:
            path = worker.folder / f"{name}.previous.log"
            if not path.exists():
                raise web.HTTPBadRequest(text=f'previous terminated container "{name}" in pod "{pod}" not found')
        elif not path.exists():
            raise _no_log(name, pod, container)
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        live = container.log if container is not None and not options.previous else None
        await _stream(answer, path, live, options)
        await answer.write_eof()
        return answer

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        worker = self._find(request.match_info["namespace"], request.match_info["pod"])
        if worker is None:
            raise web.HTTPNotFound(text="the pod does not exist on a node that answers")
        return await ports.forward(request, tuple(filter(None, (worker.address, "127.0.0.1"))))

    async def _exec(self, request: web.Request) -> web.WebSocketResponse:
        worker = self._find(request.match_info["namespace"], request.match_info["pod"])
        found = worker.containers if worker is not None else []
        container = next((one for one in found if one.state.name == request.match_info["container"]), None)
        if container is None:
            raise web.HTTPNotFound(text="the container does not exist on a node that answers")
        return await commands.run(request, container)


class _Options:
    """The query of a log request, as PodLogOptions has it. Raises HTTPBadRequest that names the parameter."""

    def __init__(self, request: web.Request) -> None:
        query = request.query
        self.follow = query.get("follow") in ("true", "1")
        self.timestamps = query.get("timestamps") in ("true", "1")
        self.previous = query.get("previous") in ("true", "1")
        self.tail = _number(query.get("tailLines"), "tailLines")
        self.left = _number(query.get("limitBytes"), "limitBytes")
        seconds = _number(query.get("sinceSeconds"), "sinceSeconds")
        try:
            self.since = logs.since_time(datetime.now(UTC), seconds, query.get("sinceTime"))
        except ValueError as err:
            raise web.HTTPBadRequest(text=f"sinceTime: {err}; use RFC 3339") from err

    def cut(self, data: bytes) -> bytes:
        """What limitBytes leaves of the next bytes."""
        if self.left is None:
            return data
        data = data[: self.left]
        self.left -= len(data)
        return data


def _number(text: str | None, name: str) -> int | None:
    if text is None or text == "":
        return None
    if not text.isdigit():
        raise web.HTTPBadRequest(text=f"{name}: {text!r} is not a whole number of 0 or more")
    return int(text)


def _no_log(name: str, pod: str, container: Container | None) -> web.HTTPException:
    if container is None:
        return web.HTTPNotFound(text=f'container "{name}" in pod "{pod}" is not known on this node')
    state = container.state.state
    reason = state.reason if isinstance(state, Waiting) else "ContainerCreating"
    return web.HTTPBadRequest(text=f'container "{name}" in pod "{pod}" is waiting to start: {reason}')


async def _stream(answer: web.StreamResponse, path: Path, live: logs.ContainerLog | None, options: _Options) -> None:
    begins = True  # the next entry begins a line

    async def send(entries: list[logs.Entry]) -> None:
        nonlocal begins
        parts = []
        for entry in entries:
            parts.append(entry.shown(timestamp=options.timestamps and begins))
            begins = entry.whole
        if data := options.cut(b"".join(parts)):
            await answer.write(data)

    if not options.follow or live is None:
        stored = await asyncio.to_thread(logs.read, path)
        await send(logs.select(stored, tail=options.tail, since=options.since))
        return
    first = True
    async for batch in live.news():
        if first:  # the subscription stands, and nothing is written while this reads: no line is lost or doubled
            first = False
            await send(logs.select(logs.read(path), tail=options.tail, since=options.since))
        await send(batch)
        if options.left == 0:
            return


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok")
