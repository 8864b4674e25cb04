"""An HTTP proxy as companies have one: CONNECT for TLS, whole addresses for plain HTTP.

It runs on a loop of its own in a thread. Its hosts are names that only it can resolve.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from tests.support.http.loop_thread import LoopThread

from holdfast_local.ports import HOST


class ForwardProxy:
    """Listens on a port of this machine. `ports`: domain -> the port here that answers for it and for all below it.

    `seen`: method and target of each request. `refuses`: it answers with this status instead.
    """

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports
        self._thread = LoopThread("forward-proxy")
        self.seen: list[tuple[str, str]] = []
        self.refuses: HTTPStatus | None = None
        self.address = ""

    def start(self) -> None:
        """Serve, in a thread."""
        self._thread.start()
        server = self._thread.run(asyncio.start_server(self._serve, HOST, 0))
        self.address = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        """Drop all connections and end the thread."""
        self._thread.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split(" ", 2)
        self.seen.append((method, target))
        if self.refuses is not None:
            writer.write(_answer(self.refuses))
            return
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        try:
            there, to_there = await asyncio.open_connection(HOST, self._port(url.hostname or "", url.port or 80))
        except OSError:
            writer.write(_answer(HTTPStatus.BAD_GATEWAY))
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            rest = re.sub(r"(?im)^(proxy-)?connection:.*\r\n", "", head.partition("\r\n")[2])
            path = f"{url.path}?{url.query}" if url.query else url.path
            to_there.write(f"{method} {path} HTTP/1.1\r\nConnection: close\r\n{rest}".encode("latin-1"))
        pumps = [asyncio.create_task(_pump(reader, to_there)), asyncio.create_task(_pump(there, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        to_there.close()

    def _port(self, host: str, port: int) -> int:
        """The port here. OSError if nobody knows the host."""
        if host == HOST:
            return port
        for domain, own in self._ports.items():
            if host == domain or host.endswith(f".{domain}"):
                return own
        raise OSError(f"no such host: {host}")


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()


def _answer(status: HTTPStatus) -> bytes:
    return f"HTTP/1.1 {status} {status.phrase}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


@contextlib.contextmanager
def forward_proxy(ports: Mapping[str, int]) -> Iterator[ForwardProxy]:
    """A running proxy."""
    proxy = ForwardProxy(ports)
    proxy.start()
    yield proxy
    proxy.stop()
