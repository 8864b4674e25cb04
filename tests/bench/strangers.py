"""Callers without a right, in a process of their own: scrapers in a loop, or forged tokens at a steady rate.

`python -m tests.bench.strangers scrape URL` and `... forge URL --pods UIDS` run until their standard input is closed,
and print how often each answer came. They use sockets without a library for HTTP, and send the first message of a TLS
handshake again if nobody has answered it: a flood must cost the server time, not the machine that it shares with it.
"""

import argparse
import asyncio
import base64
import json
import socket
import ssl
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

SCRAPERS = 50
TOKENS = 1000  # a second
OUTSTANDING = 400  # forged tokens that wait for their answer
SECONDS = 10.0  # until an answer must be there
PAUSE = 0.01  # seconds until a scraper that was refused asks again
# Strangers have addresses of their own, as pods do.
SCRAPER_ADDRESS, FORGER_ADDRESS = "127.0.0.66", "127.0.0.67"
READ = 1 << 18


def forged(uid: str) -> str:
    """A token with the right audience and a wrong signature, never the same one twice."""
    claims = {"aud": ["holdfast"], "exp": 9e9, "jti": uuid.uuid4().hex, "kubernetes.io": {"pod": {"uid": uid}}}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"aGVhZA.{body}.c2ln"


class Plain:
    """HTTP without TLS."""

    async def ask(self, sock: socket.socket, request: bytes) -> bytes:
        """Send the request; the first bytes of the answer, once all of it has come."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(sock, request)
        first = data = await loop.sock_recv(sock, READ)
        while data:
            data = await loop.sock_recv(sock, READ)
        return first


class Secure:
    """HTTPS, for one connection. It serves for another one if the server has not answered its first message."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out)
        self._step(self._tls.do_handshake)
        self._hello = self._out.read()
        self.unused = True

    @staticmethod
    def _step(work: Callable[[], object]) -> object:
        try:
            return work() or b""
        except ssl.SSLWantReadError:
            return None

    async def ask(self, sock: socket.socket, request: bytes) -> bytes:
        """Make the handshake, send the request; the first bytes of the answer."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(sock, self._hello)
        await self._feed(sock)
        while self._step(self._tls.do_handshake) is None:
            await self._flush(sock)
            await self._feed(sock)
        self._tls.write(request)
        await self._flush(sock)
        while not (answer := self._step(lambda: self._tls.read(READ))):
            await self._feed(sock)
        assert isinstance(answer, bytes)
        return answer

    async def _flush(self, sock: socket.socket) -> None:
        if data := self._out.read():
            await asyncio.get_running_loop().sock_sendall(sock, data)

    async def _feed(self, sock: socket.socket) -> None:
        data = await asyncio.get_running_loop().sock_recv(sock, READ)
        if not data:
            raise ConnectionResetError("closed")
        self.unused = False
        self._in.write(data)


class Caller:
    """Asks one server from one address, with a connection for each request, and counts the answers."""

    def __init__(self, url: str, address: str) -> None:
        parts = urlsplit(url)
        self._to = (str(parts.hostname), int(parts.port or 443))
        self._from = address
        self._path = parts.path
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if parts.scheme == "https" else None
        if self._context:
            self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._spare: list[Secure] = []
        self.count: Counter[str] = Counter()

    async def ask(self, header: str = "") -> bool:
        """Ask once; True if an answer came."""
        request = f"GET {self._path} HTTP/1.1\r\nHost: holdfast\r\n{header}\r\n".encode()
        client = self._client()
        with socket.socket() as sock:
            sock.setblocking(False)
            try:
                async with asyncio.timeout(SECONDS):
                    sock.bind((self._from, 0))
                    await asyncio.get_running_loop().sock_connect(sock, self._to)
                    answer = await client.ask(sock, request)
                self.count[answer.split(b" ", 2)[1].decode() if answer else "closed"] += 1
            except (OSError, TimeoutError) as error:
                self.count["closed" if isinstance(error, ConnectionError) else type(error).__name__] += 1
                answer = b""
        if isinstance(client, Secure) and client.unused:
            self._spare.append(client)
        return bool(answer)

    def _client(self) -> Plain | Secure:
        if self._context is None:
            return Plain()
        return self._spare.pop() if self._spare else Secure(self._context)


async def scrape(caller: Caller, _pods: list[str]) -> None:
    """Fifty scrapers; each asks again as soon as it has its answer."""

    async def one() -> None:
        while True:
            if not await caller.ask():
                await asyncio.sleep(PAUSE)

    await asyncio.gather(*(one() for _ in range(SCRAPERS)))


async def forge(caller: Caller, pods: list[str]) -> None:
    """Half of the tokens name a pod that trains, half name one that does not exist."""
    loop, waiting, number = asyncio.get_running_loop(), set[asyncio.Task[bool]](), 0
    started = loop.time()
    while True:
        number += 1
        uid = pods[number % len(pods)] if number % 2 else str(uuid.uuid4())
        if len(waiting) < OUTSTANDING:
            one = asyncio.create_task(caller.ask(f"Authorization: Bearer {forged(uid)}\r\n"))
            waiting.add(one)
            one.add_done_callback(waiting.discard)
        else:
            caller.count["not sent"] += 1
        await asyncio.sleep(max(0.0, started + number / TOKENS - loop.time()))


ROLES: dict[str, tuple[Callable[[Caller, list[str]], Coroutine[Any, Any, None]], str]] = {
    "scrape": (scrape, SCRAPER_ADDRESS),
    "forge": (forge, FORGER_ADDRESS),
}


async def main() -> None:
    """Run until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("url")
    parser.add_argument("--pods", default="", help="UIDs, with commas")
    options = parser.parse_args()
    work, address = ROLES[options.role]
    caller = Caller(options.url, address)
    task = asyncio.create_task(work(caller, options.pods.split(",")))
    await asyncio.to_thread(sys.stdin.read)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    sys.stdout.write(json.dumps(caller.count) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
