"""A store that takes few bytes a second, through a long and narrow way."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from holdfast_train.environment import Credentials
from holdfast_train.storage.s3 import S3Storage
from holdfast_train.storage.s3_server import S3Server

SEGMENT = 1400  # of a real network: the loopback interface would take a whole block as one segment
TAKEN, EVERY = 64 << 10, 0.05  # bytes, and seconds
PATIENCE = 0.6  # seconds of the client, instead of five
SUM = "x-amz-checksum-crc64nvme"


def _serve(listening: socket.socket, got: list[int], over: threading.Event) -> None:
    """Answer one request after the other, and take its body slowly."""
    connection, _ = listening.accept()
    with connection, connection.makefile("rb", buffering=0) as stream:
        while line := stream.readline():
            headers = {}
            while (line := stream.readline().strip()) != b"":
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            if "expect" in headers:
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            left = int(headers["content-length"])
            got.append(left)
            while left and not over.wait(EVERY):
                for _ in range(TAKEN // SEGMENT):
                    left -= len(stream.read(min(left, SEGMENT)) or b"")
            echo = f"{SUM}: {headers[SUM]}\r\n" if SUM in headers else ""
            connection.sendall(f"HTTP/1.1 200 OK\r\nETag: x\r\n{echo}Content-Length: 0\r\n\r\n".encode())


@contextmanager
def slow_store() -> Iterator[tuple[S3Storage, list[int]]]:
    """A storage on such a server, and the lengths of the bodies that came."""
    got, over = list[int](), threading.Event()
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TAKEN)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=_serve, args=(listening, got, over), daemon=True)
        thread.start()
        server = S3Server(f"http://127.0.0.1:{listening.getsockname()[1]}", credentials=Credentials("a", "b"))
        yield S3Storage("bucket", "prefix", server, connect_seconds=PATIENCE), got
        over.set()


@pytest.mark.parametrize(
    "send",
    [
        pytest.param(lambda store, body: store.write("key", memoryview(body)), id="write"),
        pytest.param(lambda store, body: store.put("key", body), id="put"),
    ],
)
def test_a_slow_store_is_not_a_silent_one(send: Callable[[S3Storage, bytearray], None]) -> None:
    """Breaks if each mebibyte must be on its way within the timeout of a connection."""
    body = bytearray(4 << 20)
    with slow_store() as (store, got):
        send(store, body)
    assert got == [len(body)]
