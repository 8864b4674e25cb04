"""A listening socket for an aiohttp application that bounds what callers without a valid token can take.

aiohttp's own sites accept as many connections as come, and see a TLS connection only once its handshake is done. Here
a connection is counted when it is accepted, before it costs a handshake.
"""

import asyncio
import logging
import socket
import ssl
from asyncio import sslproto
from typing import Any

from aiohttp import web

from holdfast.serve.connections import Connections, Peer

BACKLOG = 1024
AT_ONCE = 8  # connections accepted before other work of the event loop gets its turn
EXPIRE_EVERY = 1.0  # seconds
PAUSE = 0.5  # seconds without accepting after the system refused, for example because no file descriptor was left
TLS_BUFFER = 16 * 1024  # the largest record of TLS: a larger buffer makes nothing faster

log = logging.getLogger(__name__)


def peer_of(request: web.BaseRequest) -> Peer:
    """The other end of the request's connection; ("", 0) if it is closed."""
    name = request.transport.get_extra_info("peername") if request.transport else None
    return _peer(name) if name else ("", 0)


def _peer(name: tuple[Any, ...]) -> Peer:
    """An IPv4 address has the same form on an IPv6 socket."""
    return str(name[0]).removeprefix("::ffff:"), int(name[1])


def _shrink_tls_buffers() -> None:
    """Give each TLS connection 16 KiB instead of asyncio's 256 KiB: every pod has two connections and sends little."""
    if getattr(sslproto.SSLProtocol, "max_size", 0) > TLS_BUFFER:
        sslproto.SSLProtocol.max_size = TLS_BUFFER


class _Connection:
    """A connection from the accept on: first a task that makes the handshake, then a transport."""

    def __init__(self, accepted: socket.socket) -> None:
        self._accepted = accepted
        self.task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._over = False

    async def serve(self, server: Any, context: ssl.SSLContext | None, seconds: float) -> None:
        """Make the handshake and hand the connection to aiohttp."""
        try:
            self._transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                server, self._accepted, ssl=context, ssl_handshake_timeout=seconds if context else None
            )
        except (OSError, TimeoutError):  # the handshake failed; ssl.SSLError is an OSError
            self._over = True
        except asyncio.CancelledError:
            self._over = True
            raise

    def close(self) -> None:
        """Close it now, also in the middle of a handshake."""
        if self._transport:
            self._transport.abort()
        elif self.task:
            self.task.cancel()
        self._over = True

    @property
    def closed(self) -> bool:
        """True if it is closed or closing."""
        return self._over or bool(self._transport and self._transport.is_closing())


class Listener:
    """Accepts connections for `application` within the bounds of `connections`."""

    def __init__(self, application: web.Application, connections: Connections, *, idle: float = 75.0) -> None:
        self._connections = connections
        application.middlewares.append(self._bound)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0, keepalive_timeout=idle)
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str | None, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen and return the port (port 0 takes a free one). Raises OSError if the address is in use."""
        _shrink_tls_buffers()
        self._socket = await _bind(host, port)
        await self._runner.setup()
        self._spawn(self._accept(self._socket, context))
        self._spawn(self._expire())
        bound: int = self._socket.getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening, and end all requests."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._socket:
            self._socket.close()
            self._socket = None
            await self._runner.cleanup()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket, context: ssl.SSLContext | None) -> None:
        loop, number = asyncio.get_running_loop(), 0
        while True:
            try:
                accepted, name = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(PAUSE)
                continue
            connection = _Connection(accepted)
            if self._connections.admit(_peer(name), connection):
                work = connection.serve(self._runner.server, context, self._connections.bounds.seconds)
                connection.task = self._spawn(work)
            else:
                accepted.close()
            number += 1
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRE_EVERY)
            self._connections.expire()

    @web.middleware
    async def _bound(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """End the connection after an answer to a caller that has shown no valid token, and let one that has wait for a
        refusal.
        """
        try:
            answer: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            await self._end_or_wait(request, error)
            raise
        await self._end_or_wait(request, answer)
        return answer

    async def _end_or_wait(self, request: web.Request, answer: web.StreamResponse) -> None:
        if not self._connections.is_proven(peer_of(request)):
            answer.force_close()
        elif 400 <= answer.status < 500:
            await asyncio.sleep(self._connections.bounds.refusal_seconds)


async def _bind(host: str | None, port: int) -> socket.socket:
    """A listening socket; on all addresses if `host` is None."""
    if host is None and socket.has_dualstack_ipv6():
        made = socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    else:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        made = socket.create_server((str(address[0]), int(address[1])), family=family, backlog=BACKLOG)
    made.setblocking(False)
    return made
