"""Messages between a trainer and its writer: Python objects and file descriptors over a pair of sockets."""

import contextlib
import pickle
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any, Final

_HEADER: Final = struct.Struct("!QB")


class ClosedError(Exception):
    """The other side has closed the channel, or its process has ended."""


class Channel:
    """One end. Any thread may send, one at a time may receive. Messages are trusted: one program has both ends."""

    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        self._lock = threading.Lock()

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """Send one object, and open files with it. ClosedError if the other side is closed."""
        body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        try:
            with self._lock:
                socket.send_fds(self._socket, [_HEADER.pack(len(body), len(descriptors))], list(descriptors))
                self._socket.sendall(body)
        except OSError as error:
            raise ClosedError(str(error)) from error

    def receive(self) -> tuple[Any, list[int]]:
        """The next object and its open files. ClosedError if none will come."""
        try:
            header, descriptors, _, _ = socket.recv_fds(self._socket, _HEADER.size, 1)
            header += self._read(_HEADER.size - len(header))
            length, _ = _HEADER.unpack(header)
            return pickle.loads(self._read(length)), descriptors  # noqa: S301 - written by our own process
        except OSError as error:
            raise ClosedError(str(error)) from error

    def finish(self) -> None:
        """Send nothing more. The other side gets a ClosedError once it has received what was sent."""
        with contextlib.suppress(OSError):  # the other side may be closed already
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Neither send nor receive any more."""
        self._socket.close()

    def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            piece = self._socket.recv(min(size - len(found), 1 << 20))
            if not piece:
                raise ClosedError("the channel is closed")
            found += piece
        return bytes(found)
