"""`StatusServer`: takes the posts of one program in one thread, and answers each at once."""

from __future__ import annotations

import contextlib
import hmac
import json
import re
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

MAX_BODY = 65_536  # bytes, as Kubeflow's server allows
MAX_HEAD = 16_384  # bytes of the request line and the headers
CONNECTIONS = 16  # at once; if one more comes, the oldest is closed
SECONDS = 5.0  # for one request: Hugging Face's Trainer waits as long
_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*(?=\r\n)")
_TOKEN = re.compile(rb"(?i)\r\nauthorization:[ \t]*bearer[ \t]+([^\r\n]+?)[ \t]*(?=\r\n)")
_REASONS = {
    200: "OK",
    403: "Forbidden",
    404: "NotFound",
    413: "RequestEntityTooLarge",
    422: "Invalid",
}


class Refused(Exception):  # noqa: N818 - an answer
    """The request is answered with this HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Connection:
    """One client: what it has sent, and until when it may send."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.until = time.monotonic() + SECONDS
        self._data = b""
        self._expects = 0  # bytes of the whole request, once the head is there

    def read(self, data: bytes, path: str, token: str) -> bytes | None:
        """The body of the request, None until it is complete. Raises Refused."""
        self._data += data
        if not self._expects:
            head, end, _ = self._data.partition(b"\r\n\r\n")
            if not end:
                if len(self._data) > MAX_HEAD:
                    raise Refused(413, "Payload too large")
                return None
            self._expects = len(head) + len(end) + _length(head + b"\r\n", path, token)
        return self._data[self._data.index(b"\r\n\r\n") + 4 : self._expects] if self._is_whole else None

    @property
    def _is_whole(self) -> bool:
        return len(self._data) >= self._expects


def _length(head: bytes, path: str, token: str) -> int:
    """The length of the body. Raises Refused if the head does not allow it."""
    length, given = _LENGTH.search(head), _TOKEN.search(head)
    if given is None or not hmac.compare_digest(given[1], token.encode()):
        raise Refused(403, "Forbidden")
    if head.split(b"\r\n", 1)[0].split(b" ")[:2] != [b"POST", path.encode()]:
        raise Refused(404, "Not found")
    if length is None:
        raise Refused(422, "Invalid payload")
    if int(length[1]) > MAX_BODY:
        raise Refused(413, "Payload too large")
    return int(length[1])


def _answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode("ascii") + body


class StatusServer:
    """Listens on a free port of `address`. `on_status` gets each status whose request has `path` and `token`.

    `on_status` is called in the server's thread and must not block.
    """

    def __init__(self, address: str, path: str, token: str, on_status: Callable[[dict[str, Any]], None]) -> None:
        """Raises OSError if there is no free port."""
        self._path, self._token, self._on_status = path, token, on_status
        self._listening = socket.create_server((address, 0))
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self._wakes, self._wake = socket.socketpair()
        self._open: list[_Connection] = []  # the oldest first
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="progress-relay", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port and all connections."""
        self._wake.close()
        self._thread.join()

    def _run(self) -> None:
        while True:
            wait = max(0.0, self._open[0].until - time.monotonic()) if self._open else None
            for key, _ in self._selector.select(wait):
                if key.fileobj is self._wakes:
                    return self._close_all()
                if key.fileobj is self._listening:
                    self._accept()
                elif key.data in self._open:  # not closed meanwhile
                    self._receive(key.data)
            while self._open and self._open[0].until <= time.monotonic():
                self._close(self._open[0])

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the client has gone, or no file descriptor is free
            client, _ = self._listening.accept()
            client.setblocking(False)
            if len(self._open) == CONNECTIONS:
                self._close(self._open[0])
            self._open.append(_Connection(client))
            self._selector.register(client, selectors.EVENT_READ, self._open[-1])

    def _receive(self, one: _Connection) -> None:
        try:
            data = one.client.recv(MAX_BODY)
            body = one.read(data, self._path, self._token) if data else b""
            if body is None:
                return
            if data:
                self._on_status(_decoded(body))
                self._send(one, _answer(200, body))
        except Refused as error:
            status = {"metadata": {}, "status": "Failure", "message": str(error), "code": error.status}
            status["reason"] = _REASONS[error.status]
            self._send(one, _answer(error.status, json.dumps(status).encode()))
        except OSError:  # the client has gone
            pass
        self._close(one)

    def _send(self, one: _Connection, answer: bytes) -> None:
        """Send what fits into the buffers of the socket: a client that does not read gets a part."""
        with contextlib.suppress(OSError):
            one.client.send(answer)
            one.client.shutdown(socket.SHUT_WR)

    def _close(self, one: _Connection) -> None:
        self._open.remove(one)
        self._selector.unregister(one.client)
        one.client.close()

    def _close_all(self) -> None:
        for one in list(self._open):
            self._close(one)
        for each in (self._selector, self._listening, self._wakes):
            each.close()


def _decoded(body: bytes) -> dict[str, Any]:
    """The status as it was sent. Raises Refused if it is not a JSON object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(422, "Invalid payload") from error
    if not isinstance(found, dict):
        raise Refused(422, "Invalid payload")
    return found
