"""Launchers of trainings on several nodes, as the progress endpoint sees them: real tokens, real TLS, one call each.

A launcher holds one connection, from an address of its own as a pod has. The HTTP client is small, and so are the
buffers of TLS, so that one process can be 8,000 launchers.
"""

import asyncio
import json
import ssl
from asyncio import sslproto
from collections.abc import Mapping
from time import time
from typing import Any, Final
from urllib.parse import urlsplit

from tests.bench.api import Api, spread
from tests.bench.trainers import token_of, trusted

from holdfast.api import names
from holdfast_protocol.document import encode
from holdfast_protocol.endpoint import MEMBER, WAIT_SECONDS
from holdfast_protocol.reasons import REGROUPED
from holdfast_protocol.verdict import Verdict

AGAIN_AFTER = 0.5  # seconds after a call that failed
AT_ONCE = 64  # launchers that get their token, or connect, at the same time
TLS_BUFFER = 16 * 1024
OK: Final = 200
PEER_LOST: Mapping[str, Any] = encode(
    Verdict("failed", REGROUPED, "the operator starts the program again", exit_code=137, signal=9)
)


def address_of(number: int) -> str:
    """An address of this machine for the launcher with this number, other than those of the control plane."""
    return f"127.{100 + number // 62_500}.{1 + number // 250 % 250}.{1 + number % 250}"


class Link:
    """One HTTPS connection; requests go one after the other. It is opened by the first request."""

    def __init__(self, url: str, context: ssl.SSLContext, source: str, token: str) -> None:
        parts = urlsplit(url)
        self._to = (str(parts.hostname), int(parts.port or 443))
        self._context = context
        self._source = source
        self._head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> None:
        """Connect, if it is not connected. Raises OSError."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._to, ssl=self._context, local_addr=(self._source, 0))

    async def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the decoded body of the answer. Raises OSError if the connection breaks."""
        await self.open()
        assert self._streams
        reader, writer = self._streams
        data = json.dumps(body).encode()
        writer.write(f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            answer = json.loads(await reader.readexactly(int(fields["content-length"])))
        except asyncio.IncompleteReadError as error:
            self.close()
            raise ConnectionResetError("the endpoint closed the connection") from error
        if fields.get("connection") == "close":
            self.close()
        return int(head.split(" ", 2)[1]), answer

    def close(self) -> None:
        """Close it; the next request opens another one."""
        if self._streams:
            self._streams[1].transport.abort()
            self._streams = None


class Launcher:
    """The launcher of one pod: it gets ready, starts a program when told so, and ends it when told so.

    Times are in seconds since 1970: `started` when the order to start came, by attempt, `ready_at` when it last told
    that it is ready, `regrouped_at` when it was last told to end its program. While `hold` is clear, a launcher whose
    program ended does not get ready.
    """

    def __init__(self, pod: Mapping[str, Any], link: Link, address: str) -> None:
        meta = pod["metadata"]
        self.uid: str = meta["uid"]
        self.job: str = meta["labels"][names.LABEL_JOB]
        self.rank = int(meta["labels"][names.LABEL_RANK])
        self.pod = pod
        self.attempt = 0
        self.started: dict[int, float] = {}
        self.ready_at = 0.0
        self.regrouped_at = 0.0
        self.refused = 0
        self.hold = asyncio.Event()
        self.hold.set()
        self._link = link
        self._path = f"{MEMBER.format(namespace=meta['namespace'], job=self.job)}?wait={WAIT_SECONDS}"
        self._body = {"podUID": meta["uid"], "address": address}
        self._verdict: Mapping[str, Any] | None = None
        self._is_running = False
        self._task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """True if its program runs."""
        return self._is_running

    async def connect(self) -> None:
        """Open the connection, without a request. A launcher that is refused tries again, as a real one does."""
        while True:
            try:
                return await self._link.open()
            except OSError:
                self.refused += 1
                await asyncio.sleep(AGAIN_AFTER)

    def begin(self) -> None:
        """Ask from now on, in a task."""
        self._task = asyncio.create_task(self._follow())

    async def end(self) -> None:
        """Ask no more: the pod is gone."""
        if self._task:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        self._link.close()

    async def fail(self, verdict: Mapping[str, Any]) -> None:
        """The program ends by itself: the call in flight is dropped, as a launcher does, and another one tells it."""
        await self.end()
        self._is_running, self._verdict = False, verdict
        self.begin()

    async def _follow(self) -> None:
        while True:
            try:
                await self._ask()
            except OSError:  # ssl.SSLError is one
                self._link.close()
                self.refused += 1
                await asyncio.sleep(AGAIN_AFTER)

    async def _ask(self) -> None:
        if not self._is_running:
            await self.hold.wait()
            self.ready_at = time()
        state = "running" if self._is_running else "ready"
        port = 20_000 + self.attempt
        body = {**self._body, "attempt": self.attempt, "state": state, "port": port, "verdict": self._verdict}
        status, answer = await self._link.post(self._path, body)
        if status != OK:
            self.refused += 1
            await asyncio.sleep(AGAIN_AFTER)
        elif answer["do"] == "start":
            self.attempt = int(answer["attempt"])
            self._is_running, self._verdict = True, None
            self.started[self.attempt] = time()
        elif answer["do"] == "regroup":
            self._is_running, self._verdict = False, PEER_LOST
            self.regrouped_at = time()


async def launchers(api: Api, pods: list[dict[str, Any]], url: str, first: int = 0) -> list[Launcher]:
    """A launcher for each pod, in the order of the pods. All pods are of one namespace.

    `first` is the number of the first launcher, so that later ones have other addresses.
    """
    context = await trusted(api, pods[0]["metadata"]["namespace"])
    setattr(sslproto.SSLProtocol, "max_size", TLS_BUFFER)  # noqa: B010
    made: dict[int, Launcher] = {}

    async def one(numbered: tuple[int, dict[str, Any]]) -> None:
        number, pod = numbered
        address = address_of(first + number)
        made[number] = Launcher(pod, Link(url, context, address, await token_of(api, pod)), address)

    await spread(one, enumerate(pods), AT_ONCE)
    return [made[number] for number in range(len(pods))]


async def begin(members: list[Launcher]) -> None:
    """Let all of them ask, `AT_ONCE` at a time: their handshakes must not wait for each other."""

    async def one(member: Launcher) -> None:
        await member.connect()
        member.begin()

    await spread(one, members, AT_ONCE)


async def end(members: list[Launcher]) -> None:
    """End all of them."""
    await asyncio.gather(*(member.end() for member in members))
