"""An endpoint of the operator as the launcher meets it: it keeps what it gets, and answers as a test wants."""

import http.server
import json
import threading
from typing import Any


class FakeOperator:
    """Answers with the statuses of `answers`, the last one again and again, as soon as `gate` is set.

    `says`: the body of each answer.
    """

    def __init__(self) -> None:
        operator = self
        self.answers = [200]
        self.says = b""
        self.gate = threading.Event()
        self.gate.set()
        self.got: list[tuple[str, str, dict[str, Any]]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                operator.got.append((self.path, self.headers["Authorization"], body))
                operator.gate.wait(30)
                self.send_response(operator.answers.pop(0) if len(operator.answers) > 1 else operator.answers[0])
                self.send_header("Content-Length", str(len(operator.says)))
                self.end_headers()
                self.wfile.write(operator.says)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=lambda: self.server.serve_forever(0.02), daemon=True).start()
