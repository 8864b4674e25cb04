"""A server that is no S3 server, and answers every request with success: a page for people, or a proxy."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from holdfast_train.environment import Credentials
from holdfast_train.errors import StorageUnreachableError
from holdfast_train.storage.s3 import S3Storage
from holdfast_train.storage.s3_server import S3Server

PAGE = b"<html>Please sign in</html>"
TEXT = b"ready"
CALLS: dict[str, Callable[[S3Storage], Any]] = {
    "get": lambda store: store.get("key"),
    "put": lambda store: store.put("key", b"x"),
    "put if absent": lambda store: store.put_if_absent("key", b"x"),
    "write": lambda store: store.write("key", memoryview(b"x")),
    "write in parts": lambda store: store.write("key", memoryview(bytes(20 << 20))),
    "read": lambda store: store.read_into("key", 0, memoryview(bytearray(8))),
    "size": lambda store: store.size("key"),
    "keys": lambda store: store.keys(""),
    "drop": lambda store: store.drop_unfinished("", datetime.now(UTC)),
}


class Page(BaseHTTPRequestHandler):
    """Answers with a page, of a length that is told at the end."""

    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind, body = ("text/plain", TEXT) if "text" in self.path else ("text/html", PAGE)
        self.send_response(201 if kind == "text/plain" else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve  # noqa: N815 - the names that http.server asks for

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("prefix", ["page", "text"])
@pytest.mark.parametrize("call", CALLS)
def test_another_server_in_place_of_the_store_is_not_an_empty_store(endpoint: str, call: str, prefix: str) -> None:
    """Breaks if a training starts at step 0 because a page is read as a list without checkpoints, or if a save counts
    that went nowhere.
    """
    store = S3Storage("bucket", prefix, S3Server(endpoint, credentials=Credentials("a", "b")))
    with pytest.raises(StorageUnreachableError):
        CALLS[call](store)
