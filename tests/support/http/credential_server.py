"""A credential server as containers have one: short-lived keys over HTTP."""

import contextlib
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class CredentialsServer:
    """Gives out one pair of keys, valid for `seconds` from then. `asked` counts the requests."""

    def __init__(self, access_key: str, secret_key: str) -> None:
        self.seconds = 3600.0
        self.asked = 0
        parent = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parent.asked += 1
                end = datetime.now(UTC) + timedelta(seconds=parent.seconds)
                body = json.dumps(
                    {
                        "AccessKeyId": access_key,
                        "SecretAccessKey": secret_key,
                        "Token": "",
                        "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    }
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing is logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/keys"

    def start(self) -> None:
        """Serve, in a thread."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def credentials_server(access_key: str, secret_key: str) -> Iterator[CredentialsServer]:
    """A running one."""
    server = CredentialsServer(access_key, secret_key)
    server.start()
    yield server
    server.stop()
