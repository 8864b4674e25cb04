"""An S3 server that does nothing: it throws away what is put and serves every object from the same memory.

    python null_server.py PORT-FILE OBJECT-BYTES

Bodies are dropped inside the kernel (recv with MSG_TRUNC copies nothing), and GET sends one block of memory again and
again: what is left to measure is the client. One thread a connection. A connection that starts with the line RAW is
no HTTP: all that follows is dropped, until the client shuts its side, and is answered with one byte.
"""

import argparse
import mmap
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.waiting import wait_for

BLOCK: Final = 8 << 20
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
_STAMP: Final = "Thu, 01 Jan 2026 00:00:00 GMT"
_INITIATE: Final = b"<InitiateMultipartUploadResult><UploadId>upload</UploadId></InitiateMultipartUploadResult>"
_COMPLETE: Final = (
    b"<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><ETag>&quot;0-1&quot;</ETag>"
    b"</CompleteMultipartUploadResult>"
)


class _Connection:
    """One client, until it hangs up."""

    def __init__(self, client: socket.socket, content: memoryview, size: int) -> None:
        self._socket = client
        self._file = client.makefile("rb", buffering=65536)
        self._content = content
        self._size = size

    def serve(self) -> None:
        with self._socket, self._file:
            while line := self._file.readline():
                if line == b"RAW\n":
                    self._raw()
                    return
                self._request(line.decode("latin-1"))

    def _raw(self) -> None:
        while self._drop(BLOCK):
            pass
        self._socket.sendall(b".")

    def _drop(self, most: int) -> int:
        return self._socket.recv_into(_SINK, min(most, BLOCK), socket.MSG_TRUNC)

    def _request(self, line: str) -> None:
        method, path, _ = line.split(" ", 2)
        headers: dict[str, str] = {}
        while (header := self._file.readline().decode("latin-1").rstrip("\r\n")) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("expect", "").lower() == "100-continue":
            self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in headers.get("transfer-encoding", ""):
            while length := int(self._file.readline().split(b";")[0], 16):
                self._body(length + 2)
            self._file.readline()
        else:
            self._body(int(headers.get("content-length", 0)))
        if method in ("GET", "HEAD"):
            self._give(method, headers.get("range"))
        elif method == "POST":
            self._answer(_COMPLETE if "uploadId=" in path else _INITIATE)
        else:
            self._answer(b"", headers.get("x-amz-checksum-crc64nvme"))

    def _body(self, length: int) -> None:
        if length:  # what came together with the head is in the file's buffer
            length -= len(self._file.read(min(length, len(self._file.peek()))))
        while length > 0:
            length -= self._drop(length)

    def _answer(self, body: bytes, crc: str | None = None) -> None:
        head = f'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n'
        if crc:
            head += f"x-amz-checksum-crc64nvme: {crc}\r\n"
        self._socket.sendall(f"{head}\r\n".encode() + body)

    def _give(self, method: str, wanted: str | None) -> None:
        start, end, status = 0, self._size - 1, "200 OK"
        extra = ""
        if wanted and (found := _RANGE.fullmatch(wanted)):
            start, status = int(found[1]), "206 Partial Content"
            end = min(int(found[2] or end), end)
            extra = f"Content-Range: bytes {start}-{end}/{self._size}\r\n"
        length = end - start + 1
        head = (
            f'HTTP/1.1 {status}\r\nETag: "0"\r\nLast-Modified: {_STAMP}\r\nAccept-Ranges: bytes\r\n{extra}'
            f"Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
        )
        self._socket.sendall(head.encode())
        while length > 0 and method == "GET":
            piece = min(length, len(self._content))
            self._socket.sendall(self._content[:piece])
            length -= piece


_SINK = mmap.mmap(-1, BLOCK)  # never touched: MSG_TRUNC writes nothing


@contextmanager
def null_server(size: int) -> Iterator[int]:
    """One in a process of its own, whose objects all have `size` bytes; gives its port on 127.0.0.1."""
    with tempfile.TemporaryDirectory() as name:
        port_file = Path(name, "port")
        command = [sys.executable, "-m", "tests.bench.checkpoint.null_server", str(port_file), str(size)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            wait_for(lambda: port_file.exists() and port_file.read_text(), 30, "the null server to listen")
            yield int(port_file.read_text())
            assert process.stdin is not None
            process.stdin.close()


def main() -> None:
    """Serve until the process that started us closes standard input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port_file", type=Path)
    parser.add_argument("size", type=int)
    options = parser.parse_args()
    content = memoryview(os.urandom(BLOCK))
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_Connection(client, content, options.size).serve, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    options.port_file.write_text(str(listener.getsockname()[1]))
    sys.stdin.read()


if __name__ == "__main__":
    main()
