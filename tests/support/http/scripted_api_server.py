"""An API server with scripted answers, for errors that a real one does not give on demand."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.http.kubeconfig import write_kubeconfig

Answer = dict[str, Any] | Callable[[dict[str, Any] | None], dict[str, Any]]


@dataclass
class FakeApi:
    """`answers`: (method, path) -> an object, or a function of the request's body. Any other request gets NotFound.

    `watches`: path -> what one watch after the other gets: its events, or a Status. Further watches get no events.
    """

    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    watches: dict[str, list[list[dict[str, Any]] | dict[str, Any]]] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    port: int = 0

    def kubeconfig(self, path: Path, namespace: str | None = "demo") -> Path:
        """Write a kubeconfig for this server."""
        return write_kubeconfig(path, self.port, namespace)

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """Status and body."""
        self.requests.append((method, path, body))
        found = self.answers.get((method, path))
        if found is None:
            return 404, failure(404, "NotFound", f'"{path.rpartition("/")[2]}" not found')
        result = found(body) if callable(found) else found
        return int(result.get("code", 200)) if result.get("kind") == "Status" else 200, result

    def watch(self, path: str) -> tuple[int, bytes]:
        """Status and body of the next watch of a list."""
        self.requests.append(("WATCH", path, None))
        planned = self.watches.get(path) or [[]]
        events = planned.pop(0)
        if isinstance(events, dict):
            return int(events["code"]), json.dumps(events).encode()
        return 200, b"".join(json.dumps(event).encode() + b"\n" for event in events)


def failure(code: int, reason: str, message: str) -> dict[str, Any]:
    """A Status object."""
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def listing(*items: dict[str, Any]) -> dict[str, Any]:
    """A list of objects."""
    return {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": list(items)}


@contextmanager
def fake_api() -> Iterator[FakeApi]:
    """A server on a free port of the loopback interface."""
    api = FakeApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            path = unquote(urlsplit(self.path).path)
            if "watch=1" in urlsplit(self.path).query:
                status, data = api.watch(path)
            else:
                status, body = api.answer(self.command, path, json.loads(raw) if raw.strip() else None)
                data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PATCH = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the names that http.server asks for

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
