"""A relay in front of a server. It counts the bytes of all connections, those of other programs too.

The kernel moves the bytes from socket to socket, and this process sees none of them.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

AT_ONCE: Final = 1 << 20


class Relay:
    """On `port` of 127.0.0.1. `sent`: bytes from clients to the server; `received`: bytes from the server."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._counts = {"sent": 0, "received": 0}
        self._open: set[socket.socket] = set()

    @property
    def sent(self) -> int:
        """Requests with their heads and bodies."""
        return self._counts["sent"]

    @property
    def received(self) -> int:
        """Answers with their heads and bodies."""
        return self._counts["received"]

    def serve(self) -> None:
        """Until `close`."""
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open |= {client, server}
                for source, target, way in ((client, server, "sent"), (server, client, "received")):
                    threading.Thread(target=self._pass, args=(source, target, way), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, way: str) -> None:
        out, into = os.pipe()
        try:
            with suppress(OSError):  # one end has closed the connection
                while count := os.splice(source.fileno(), into, AT_ONCE):
                    with self._lock:
                        self._counts[way] += count
                    while count:
                        count -= os.splice(out, target.fileno(), count)
        finally:
            os.close(out)
            os.close(into)
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def relay(server_port: int) -> Iterator[Relay]:
    """One that serves inside the block."""
    made = Relay(server_port)
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()
