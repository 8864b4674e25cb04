"""The endpoint of /metrics. Callers show a token that the API server knows, unless the installation turns that off."""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import monotonic

from aiohttp import web

from holdfast.api.errors import HoldfastError
from holdfast.serve.auth import ReviewedTokens, TooManyTokensError, bearer_token
from holdfast.serve.connections import Bounds, Connections
from holdfast.serve.listener import Listener, peer_of
from holdfast.serve.token_bucket import TokenBuckets

PATH = "/metrics"
RATE, BURST = 2.0, 20.0  # pages of one reader: a second, and at once
SLICE = 256 * 1024  # bytes that are sent until other work gets its turn
READERS = 1_000  # whose rates are remembered
BOUNDS = Bounds(unproven=64, rate=50.0, burst=200.0)
HEADERS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reader:
    """The user that a token belongs to, and if the user may `get` /metrics, as the API server says."""

    user: str
    may_read: bool


class MetricsServer:
    """Answers Prometheus. Without `readers` everyone may read, and TLS is off."""

    def __init__(
        self,
        page: Callable[[], Awaitable[bytes]],
        readers: ReviewedTokens[Reader] | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._page = page
        self._readers = readers
        self._rates = TokenBuckets(RATE, BURST, READERS, clock)
        self._connections = Connections(BOUNDS, clock)
        self._listener: Listener | None = None

    def application(self) -> web.Application:
        """The aiohttp application with the one route."""
        app = web.Application()
        app.router.add_get(PATH, self._metrics)
        return app

    async def start(self, host: str | None, port: int, context: ssl.SSLContext | None) -> int:
        """Listen and return the port. Raises OSError if the address is in use."""
        self._listener = Listener(self.application(), self._connections)
        return await self._listener.start(host, port, context)

    async def stop(self) -> None:
        """Stop listening."""
        if self._listener:
            await self._listener.stop()
            self._listener = None

    async def _metrics(self, request: web.Request) -> web.Response:
        peer = peer_of(request)
        reader = peer[0]
        if self._readers:
            try:
                found = await self._identify(self._readers, request, peer[0])
            except TooManyTokensError as error:
                return _too_many(str(error))
            except HoldfastError as error:
                log.warning("cannot answer a request for metrics: %s", error)
                return web.Response(status=503, text="the API server cannot review the token now; try again\n")
            if found is None:
                return web.Response(status=401, text="send a bearer token of a user of this cluster\n")
            if not found.may_read:
                text = (
                    f'user "{found.user}" may not "get" the URL {PATH}; bind the user to a ClusterRole that allows it\n'
                )
                return web.Response(status=403, text=text)
            reader = f"{found.user} {peer[0]}"
            self._connections.prove(peer, reader)
        if not self._rates.try_acquire(reader):
            return _too_many(f"too many requests: at most {RATE:g} a second are allowed")
        return web.Response(body=_slices(await self._page()), headers=HEADERS)

    @staticmethod
    async def _identify(readers: ReviewedTokens[Reader], request: web.Request, source: str) -> Reader | None:
        token = bearer_token(request.headers.get("Authorization"))
        return await readers.identify(token, source) if token else None


async def _slices(page: bytes) -> AsyncIterator[bytes]:
    """The page in pieces: to encrypt and send 20 MB in one piece would hold up the event loop."""
    for start in range(0, len(page), SLICE):
        yield page[start : start + SLICE]


def _too_many(text: str) -> web.Response:
    return web.Response(status=429, text=f"{text}\n", headers={"Retry-After": "2"})
