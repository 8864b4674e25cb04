"""The listener with real sockets on the loopback interface."""

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from holdfast.serve.certs import make_ca, make_serving, server_context
from holdfast.serve.connections import Bounds, Connections
from holdfast.serve.listener import Listener, peer_of

Start = Callable[..., Awaitable[tuple[int, Connections]]]
GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts a server: / answers, /proven shows a valid token first."""
    listeners = []

    async def begin(context: ssl.SSLContext | None = None, **bounds: float) -> tuple[int, Connections]:
        connections = Connections(Bounds(**bounds))  # type: ignore[arg-type]

        async def answer(request: web.Request) -> web.Response:
            if request.path == "/proven":
                connections.prove(peer_of(request), "p1")
            return web.Response(text="hello")

        app = web.Application()
        app.router.add_get("/", answer)
        app.router.add_get("/proven", answer)
        listeners.append(Listener(app, connections))
        return await listeners[-1].start("127.0.0.1", 0, context), connections

    yield begin
    for listener in listeners:
        await listener.stop()


def client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Everything until the server closes the connection."""
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        except (ConnectionError, ssl.SSLError):
            return b""


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "])
async def test_a_silent_connection_is_closed(start: Start, said: bytes) -> None:
    port, _ = await start(seconds=0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    assert await ended(reader) == b""
    writer.close()


async def test_a_silent_connection_is_closed_before_and_after_its_tls_handshake(start: Start) -> None:
    context = server_context(make_serving(make_ca(), ["localhost"]))
    port, connections = await start(context, seconds=1.0)
    before, writer = await asyncio.open_connection("127.0.0.1", port)
    after, second = await asyncio.open_connection("127.0.0.1", port, ssl=client_context())
    assert connections.unproven == 2
    assert await ended(before) == b""
    assert await ended(after) == b""
    writer.close()
    second.close()


async def test_a_tls_connection_has_a_small_buffer(start: Start) -> None:
    """Breaks if each connection takes as much as asyncio gives it: 8,000 launchers would take 2 GiB."""
    await start(server_context(make_serving(make_ca(), ["localhost"])))
    assert sslproto.SSLProtocol.max_size == 16 * 1024  # type: ignore[attr-defined]


async def test_a_caller_without_a_valid_token_gets_one_answer_for_each_connection(start: Start) -> None:
    port, _ = await start()
    for path in (b"", b"nothing-here"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET % path * 5)
        assert (await ended(reader)).count(b"HTTP/1.1") == 1
        writer.close()


async def test_a_proven_connection_stays_open(start: Start) -> None:
    port, _ = await start(seconds=0.01)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for path in (b"proven", b"", b"proven"):
        writer.write(GET % path)
        async with asyncio.timeout(20):
            assert b"200 OK" in await reader.readuntil(b"hello")
    writer.close()


async def test_a_source_above_its_rate_is_closed_at_once(start: Start) -> None:
    context = server_context(make_serving(make_ca(), ["localhost"]))
    port, connections = await start(context, rate=0.001, burst=2.0)
    first = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await ended(reader) == b""
    assert connections.unproven == 2
    for _, one in [*first, (reader, writer)]:
        one.close()


async def test_the_port_is_free_after_the_stop(start: Start) -> None:
    app = web.Application()
    listener = Listener(app, Connections())
    port = await listener.start("127.0.0.1", 0)
    await listener.stop()
    again = Listener(web.Application(), Connections())
    assert await again.start("127.0.0.1", port) == port
    with pytest.raises(OSError, match="in use"):
        await Listener(web.Application(), Connections()).start("127.0.0.1", port)
    await again.stop()


async def test_all_addresses_are_served_without_a_host() -> None:
    listener = Listener(web.Application(), Connections())
    port = await listener.start(None, 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(GET % b"")
    assert b"404" in await ended(reader)
    writer.close()
    await listener.stop()
