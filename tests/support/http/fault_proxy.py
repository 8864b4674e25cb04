"""A proxy before an S3 server that makes requests fail as networks and stores do, by a script.

It runs on a loop of its own in a thread. Each request is read whole, matched against the rules, and passed on over a
connection of its own, so that a fault of one request cannot touch another. Nothing here waits for a time: a request
that gets no answer is held until its client has hung up.
"""

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus

from tests.support.http.loop_thread import LoopThread


class Act(Enum):
    """What happens to a request."""

    LOSE_REQUEST = "it never reaches the store, and there is no answer"
    LOSE_ANSWER = "it takes effect, and there is no answer"
    REFUSE = "it never reaches the store; the answer is `status`, `code`"
    REFUSE_LATE = "it takes effect; the answer is `status`, `code` all the same"
    RESET = "it never reaches the store; the connection is reset"
    RESET_LATE = "it takes effect; the connection is reset"
    HALF = "the connection is closed after half of the answer's body"
    HALF_RESET = "the connection is reset after half of the answer's body"
    STALL = "nothing comes after half of the answer's body"
    SLOW = "the answer comes in many small pieces"
    DAMAGE_REQUEST = "one bit of its body is flipped on the way"
    DAMAGE_ANSWER = "one bit of the answer's body is flipped on the way"
    STALE = "the answer is the one that the same request got the time before; an empty list if there was none"
    HIDE_HEADER = "the answer comes without the header `header`"
    HOLD = "it takes effect at once; the answer waits until `release` is called"


@dataclass(frozen=True)
class Request:
    """One request: `target` is path and query as sent."""

    method: str
    target: str
    head: bytes
    body: bytes


@dataclass
class Rule:
    """Requests whose method and target match two regular expressions meet `act`: `times` of them, after `skip`.

    `met` counts those that did. A test that never looks at it may have tested nothing.
    """

    act: Act
    method: str = ".*"
    target: str = ""
    times: int = 1
    skip: int = 0
    status: int = 503
    code: str = "SlowDown"
    header: str = ""
    met: int = 0
    _go: asyncio.Event = field(default_factory=asyncio.Event)

    def applies(self, request: Request) -> bool:
        """Count `request`, and say whether it is one of them."""
        if not re.fullmatch(self.method, request.method) or not re.search(self.target, request.target):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.met >= self.times:
            return False
        self.met += 1
        return True


class FaultProxy:
    """Listens on a port of 127.0.0.1 and passes on to the server at `host`:`port`."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = host, port
        self._rules: list[Rule] = []
        self._seen: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()
        self._thread = LoopThread("fault-proxy")
        self.requests: list[Request] = []
        self.endpoint = ""

    def start(self) -> None:
        """Serve, in a thread."""
        self._thread.start()
        server = self._thread.run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        port = server.sockets[0].getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        """Drop all connections and end the thread."""
        self._thread.stop()

    def add(self, act: Act, method: str = ".*", target: str = "", **more: object) -> Rule:
        """A rule from now on. The first one that applies to a request decides."""
        rule = Rule(act, method, target, **more)  # type: ignore[arg-type]
        with self._lock:
            self._rules.append(rule)
        return rule

    def release(self, rule: Rule) -> None:
        """Let the answers that `rule` holds go."""
        self._thread.loop.call_soon_threadsafe(rule._go.set)

    def count(self, method: str, target: str = "") -> int:
        """How many requests of `method` matched `target`."""
        return sum(r.method == method and re.search(target, r.target) is not None for r in self.requests)

    def _rule(self, request: Request) -> Rule | None:
        with self._lock:
            self.requests.append(request)
            return next((rule for rule in self._rules if rule.applies(request)), None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            request = await _read_request(reader, writer)
            await self._answer(request, self._rule(request), reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(
        self, request: Request, rule: Rule | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        act = rule.act if rule else None
        if act in (Act.LOSE_REQUEST, Act.REFUSE, Act.RESET):
            answer = b""
        else:
            earlier = self._seen.get((request.method, request.target))
            answer = await self._pass_on(_damaged(request) if act is Act.DAMAGE_REQUEST else request)
            if act is Act.STALE:
                answer = earlier or _response(
                    200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
                )
        head, _, body = answer.partition(b"\r\n\r\n")
        head += b"\r\n\r\n"
        if act in (Act.LOSE_REQUEST, Act.LOSE_ANSWER):
            await reader.read()
        elif act in (Act.REFUSE, Act.REFUSE_LATE):
            assert rule is not None
            text = f"<Error><Code>{rule.code}</Code><Message>by the script</Message></Error>".encode()
            writer.write(_response(rule.status, text))
        elif act in (Act.RESET, Act.RESET_LATE):
            _reset(writer)
        elif act in (Act.HALF, Act.HALF_RESET, Act.STALL):
            writer.write(head + body[: len(body) // 2])
            await writer.drain()
            if act is Act.STALL:
                await reader.read()
            elif act is Act.HALF_RESET:
                _reset(writer)
        elif act is Act.SLOW:
            for at in range(0, len(answer), max(1, len(answer) // 50)):
                writer.write(answer[at : at + max(1, len(answer) // 50)])
                await writer.drain()
                await asyncio.sleep(0.002)
        elif act is Act.DAMAGE_ANSWER:
            writer.write(head + _flipped(body))
        elif act is Act.HIDE_HEADER:
            assert rule is not None
            writer.write(re.sub(rb"(?im)^%s:.*\r\n" % re.escape(rule.header.encode()), b"", head) + body)
        else:
            if act is Act.HOLD:
                assert rule is not None
                await rule._go.wait()
            writer.write(answer)
        await writer.drain()

    async def _pass_on(self, request: Request) -> bytes:
        reader, writer = await asyncio.open_connection(*self._upstream)
        head = re.sub(rb"(?im)^(expect|connection):.*\r\n", b"", request.head)
        writer.write(head[:-2] + b"Connection: close\r\n\r\n" + request.body)
        answer = await reader.read()
        writer.close()
        self._seen[request.method, request.target] = answer
        return answer


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    method, target, _ = head.decode("latin-1").split(" ", 2)
    if re.search(rb"(?im)^expect: *100-continue", head):
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    found = re.search(rb"(?im)^content-length: *(\d+)", head)
    body = await reader.readexactly(int(found[1])) if found else b""
    return Request(method, target, head, body)


def _response(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/xml\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _damaged(request: Request) -> Request:
    return Request(request.method, request.target, request.head, _flipped(request.body))


def _flipped(body: bytes) -> bytes:
    at = len(body) // 2
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :] if body else body


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the other side gets RST instead of an end."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextlib.contextmanager
def fault_proxy(endpoint: str) -> Iterator[FaultProxy]:
    """A running proxy before the server at `endpoint` (http://host:port)."""
    host, _, port = endpoint.removeprefix("http://").rpartition(":")
    proxy = FaultProxy(host, int(port))
    proxy.start()
    yield proxy
    proxy.stop()
