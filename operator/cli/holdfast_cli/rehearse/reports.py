"""`Reports`: takes what the program reports, in place of an operator that gives no orders."""

import http.server
import json
import sys
import threading
import time
import urllib.parse
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self

from holdfast_protocol.document import DocumentError
from holdfast_protocol.endpoint import LONGEST_WAIT, ORDERS
from holdfast_protocol.report import MAX_BODY, ProgressReport, read

EVERY_SECONDS: Final = 0.5  # between two reports of a program with Run


@dataclass(frozen=True, slots=True)
class Reported:
    """What one start has reported: its `first` and `last` step, and when it told the first, by time.monotonic()."""

    first: int | None = None
    last: int | None = None
    first_at: float | None = None
    goal: int | None = None


class Reports:
    """Serves on this machine between `with` and its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[int, Reported] = {}
        self._is_over = threading.Event()
        reports = self

        class Handler(_Handler):
            of = reports

        self._server = _Server(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Where it takes them."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def begin(self) -> None:
        """Forget everything: another run begins, whose starts have the same numbers."""
        with self._lock:
            self._of.clear()

    def of(self, number: int) -> Reported:
        """What the start with this number has reported until now."""
        with self._lock:
            return self._of.get(number, Reported())

    def take(self, report: ProgressReport) -> None:
        """Note a report."""
        with self._lock:
            known = self._of.get(report.attempt, Reported())
            if report.steps is not None:
                known = replace(known, goal=report.steps)
            if report.step is not None and report.state != "starting":
                first = report.step if report.first_step is None else report.first_step.step
                if known.first is None:
                    known = replace(known, first=first, first_at=time.monotonic())
                known = replace(known, last=max(report.step, known.last or 0))
            self._of[report.attempt] = known

    def wait(self, seconds: float) -> None:
        """A program waits for an order, which never comes."""
        self._is_over.wait(min(seconds, LONGEST_WAIT))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="reports", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # as of a program that was killed
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    of: Reports

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the library
        return

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > MAX_BODY:
            self.close_connection = True
            self._answer(413, {"error": f"a report has at most {MAX_BODY} bytes"})
            return
        try:
            self.of.take(read(json.loads(self.rfile.read(int(size)))))
        except (DocumentError, ValueError) as error:
            self._answer(400, {"error": str(error)})
            return
        self._answer(200, {"orders": [], "reportEverySeconds": EVERY_SECONDS})

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        if not url.path.endswith(ORDERS.rpartition("/")[2]):
            self._answer(404, {"error": "only orders can be read here"})
            return
        try:
            self.of.wait(float(urllib.parse.parse_qs(url.query)["wait"][0]))
        except (KeyError, ValueError):
            self._answer(400, {"error": "wait: expected seconds"})
            return
        self._answer(200, {"orders": []})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
