"""A progress endpoint like the operator's, over TLS, for the trainer's tests."""

import dataclasses
import datetime
import http.server
import ipaddress
import json
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.http.member_calls import MemberCalls

from holdfast_protocol.document import name_of
from holdfast_protocol.report import ProgressReport

FIELDS = dict.fromkeys(name_of(field) for field in dataclasses.fields(ProgressReport))


def certificate(folder: Path) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key, in one file that also serves as the CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "endpoint")])
    today = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(hours=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "endpoint.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        return


class Endpoint:
    """Collects reports, gives orders. `status` is the HTTP status that answers a report.

    `members` answers the member calls of launchers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = certificate(folder)
        self.token = folder / "token"
        self.token.write_text("first")
        self.members = MemberCalls()
        self.reports: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.connections = 0
        self.status = 200
        self.every = 15.0
        self.port = 0
        self._orders: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._server: http.server.ThreadingHTTPServer | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The environment that gives a pod the address of this endpoint."""
        return {
            "operator_url": f"https://127.0.0.1:{self.port}",
            "token_file": str(self.token),
            "ca_file": str(self.ca),
        }

    def order(self, kind: str, seconds_left: float = 20.0, reason: str = "a test") -> None:
        """Give an order to the next pod that polls."""
        with self._changed:
            number = len(self._orders) + 1
            self._orders.append({"id": number, "type": kind, "secondsLeft": seconds_left, "reason": reason})
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[dict[str, Any]], bool], seconds: float = 20.0) -> dict[str, Any]:
        """The first report for which `condition` holds, waiting for it."""
        with self._changed:
            if not self._changed.wait_for(lambda: any(map(condition, self.reports)), seconds):
                raise TimeoutError(f"no such report; the last ones: {self.reports[-3:]}")
            return next(filter(condition, self.reports))

    def start(self) -> None:
        """Serve, on the same port as before if there was one."""
        endpoint = self
        self.members.set_away(False)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                endpoint.connections += 1
                super().setup()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

            def answer(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                url = urllib.parse.urlsplit(self.path)
                if url.path.endswith("/member"):
                    wait = float(urllib.parse.parse_qs(url.query)["wait"][0])
                    if (found := endpoint.members.answer(body, wait)) is None:
                        self.close_connection = True
                    else:
                        self.answer(*found)
                    return
                with endpoint._changed:
                    endpoint.tokens.append(self.headers["Authorization"])
                    if endpoint.status == 200:
                        endpoint.reports.append(FIELDS | body | {"path": self.path})
                    orders = [o for o in endpoint._orders if o["id"] > body.get("acknowledged", 0)]
                    endpoint._changed.notify_all()
                self.answer(endpoint.status, {"orders": orders, "reportEverySeconds": endpoint.every})

            def do_GET(self) -> None:
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                after, wait = int(query["after"][0]), float(query["wait"][0])
                with endpoint._changed:
                    endpoint._changed.wait_for(lambda: len(endpoint._orders) > after, wait)
                    orders = [o for o in endpoint._orders if o["id"] > after]
                self.answer(200, {"orders": orders})

        server = _Server(("127.0.0.1", self.port), Handler)
        self.port = server.server_address[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True).start()
        self._server = server

    def stop(self) -> None:
        """Stop accepting connections, and end member calls without an answer."""
        self.members.set_away(True)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@contextmanager
def serving(folder: Path) -> Iterator[Endpoint]:
    """An Endpoint that serves until the end of the block."""
    endpoint = Endpoint(folder)
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.stop()
