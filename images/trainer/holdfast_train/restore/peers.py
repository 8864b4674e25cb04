"""Files in the memory of one node, read by the ranks of other nodes while all restore.

Each rank whose node has such files listens at the address of its pod until the restore is over. A reader names a file
and a range. Without the token of the server it gets nothing. The traffic is not encrypted, like that of gloo and NCCL
between the same pods. The reader checks the bytes.
"""

import contextlib
import hmac
import os
import secrets
import socket
import socketserver
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast_train.say import say

CONNECT_SECONDS: Final = 2.0
SILENT_SECONDS: Final = 10.0  # for a peer to send something
_REQUEST: Final = struct.Struct("!16sIIQI")  # token, rank, index, offset, length
_ANSWER: Final = struct.Struct("!I")  # length: 0 if there are not so many bytes


class Peer:
    """Another rank that serves files. It is not asked again after an error."""

    def __init__(self, host: str, port: int, token: bytes) -> None:
        self._host, self._port, self._token = host, port, token
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._is_over = False

    def __getstate__(self) -> tuple[str, int, bytes]:
        return self._host, self._port, self._token

    def __setstate__(self, state: tuple[str, int, bytes]) -> None:
        self._host, self._port, self._token = state
        self._reset()

    def fill(self, rank: int, index: int, offset: int, views: Sequence[memoryview]) -> bool:
        """Fill `views` from the file. False if the peer cannot."""
        if self._is_over:
            return False
        size = sum(map(len, views))
        connection = None
        try:
            connection = self._take()
            connection.sendall(_REQUEST.pack(self._token, rank, index, offset, size))
            answer = bytearray(_ANSWER.size)
            _receive(connection, memoryview(answer))
            has_all: bool = _ANSWER.unpack(answer)[0] == size
            for view in views if has_all else ():
                _receive(connection, view)
        except OSError as error:
            if connection is not None:
                connection.close()
            with self._lock:
                is_first, self._is_over = not self._is_over, True
            if is_first:
                say(f"{self._host} does not send its copy of the state ({error}): it is read from the storage")
            return False
        self._put_back(connection)
        return has_all

    def close(self) -> None:
        """Ask nothing more."""
        with self._lock:
            self._is_over = True
            while self._idle:
                self._idle.pop().close()

    def _take(self) -> socket.socket:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        found = socket.create_connection((self._host, self._port), CONNECT_SECONDS)
        found.settimeout(SILENT_SECONDS)
        return found

    def _put_back(self, connection: socket.socket) -> None:
        with self._lock:
            if not self._is_over:
                self._idle.append(connection)
                return
        connection.close()


@dataclass(frozen=True)
class PeerFile:
    """File number `index` of those that `rank` has made, on the node of `peer`."""

    peer: Peer
    rank: int
    index: int

    def fill(self, offset: int, views: Sequence[memoryview]) -> bool:
        """As `surviving_bytes.File`."""
        return self.peer.fill(self.rank, self.index, offset, views)


class PeerServer:
    """Serves `files`, descriptors by rank, until `close`. `peer`: what others need to read them."""

    def __init__(self, address: str, files: Mapping[int, Sequence[int]]) -> None:
        """OSError if it cannot listen at `address`."""
        token = secrets.token_bytes(16)
        handler = type("Handler", (_Handler,), {"files": files, "token": token})
        kind = _ServerV6 if ":" in address else _Server
        self._server = kind((address, 0), handler)
        self.peer = Peer(address, self._server.server_address[1], token)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="peers", daemon=True)
        self._thread.start()

    @classmethod
    def start(cls, address: str | None, files: Mapping[int, Sequence[int]]) -> "PeerServer | None":
        """A server; None, with a line in the log, if there can be none."""
        try:
            return cls(address or "", files) if address else None
        except OSError as error:
            say(f"other nodes cannot read the copy of the state in this node's memory: {error}")
            return None

    def close(self) -> None:
        """Serve nothing more. Return when nothing reads `files`."""
        self._server.shutdown()
        self._server.end_connections()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    """`server_close` waits for the threads of all connections."""

    def __init__(self, address: tuple[str, int], handler: type["_Handler"]) -> None:
        self._open: set[Any] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """End the thread of each connection."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _Handler(socketserver.BaseRequestHandler):
    files: Mapping[int, Sequence[int]] = {}
    token = b""

    def handle(self) -> None:
        request = bytearray(_REQUEST.size)
        with contextlib.suppress(OSError):
            while True:
                _receive(self.request, memoryview(request))
                token, rank, index, offset, length = _REQUEST.unpack(request)
                if not hmac.compare_digest(token, self.token):
                    return
                self._send(rank, index, offset, length)

    def _send(self, rank: int, index: int, offset: int, length: int) -> None:
        files = self.files.get(rank, ())
        if index >= len(files) or os.fstat(files[index]).st_size < offset + length:
            self.request.sendall(_ANSWER.pack(0))
            return
        self.request.sendall(_ANSWER.pack(length))
        while length:
            sent = os.sendfile(self.request.fileno(), files[index], offset, length)
            offset, length = offset + sent, length - sent


def _receive(connection: socket.socket, view: memoryview) -> None:
    """Fill `view`. OSError if the connection ends before."""
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionResetError("the connection has ended")
        view = view[count:]
