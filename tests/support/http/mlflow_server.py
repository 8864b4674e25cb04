"""A server that speaks the four requests of MLflow which the launcher makes."""

import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast_train.pod.launcher.mlflow_run import TAG


class MlflowServer(http.server.ThreadingHTTPServer):
    """Experiments and runs as MLflow's server keeps them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.experiments = {"Default": "0"}
        self.runs: list[dict[str, Any]] = []
        self.heard: list[tuple[str, str | None]] = []
        self.fails: list[int] = []  # statuses of the next answers
        self.says: bytes | None = None
        self.redirects_to = ""
        self.trickles = False
        self.is_over = threading.Event()
        self.between = lambda: None  # before a run is made

    def handle_error(self, *_: object) -> None:
        """Nothing: a test breaks connections."""

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        what, _, query = path.removeprefix("/api/2.0/mlflow/").partition("?")
        if what == "experiments/get-by-name":
            (name,) = urllib.parse.parse_qs(query)["experiment_name"]
            known = self.experiments.get(name)
            return (200, {"experiment": {"experiment_id": known}}) if known else (404, {"error_code": "X"})
        if what == "experiments/create":
            self.experiments[body["name"]] = made = str(len(self.experiments))
            return 200, {"experiment_id": made}
        if what == "runs/search":
            tag, _, value = body["filter"].partition(" = ")
            assert tag == f"tags.`{TAG}`"
            fits = {"key": TAG, "value": value.strip("'")}
            runs = [run for run in self.runs if fits in run["tags"] and run["experiment_id"] in body["experiment_ids"]]
            return 200, {
                "runs": [{"info": {"run_id": run["id"]}} for run in runs[: body["max_results"]]]
            } if runs else {}
        assert what == "runs/create"
        self.between()
        self.runs.append({**body, "id": f"run{len(self.runs)}"})
        return 200, {"run": {"info": {"run_id": self.runs[-1]["id"]}}}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: MlflowServer

    def do_GET(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        self.server.heard.append((self.path.partition("?")[0], self.headers.get("Authorization")))
        status, said = (self.server.fails.pop(0), {}) if self.server.fails else self.server.answer(self.path, body)
        data = self.server.says if self.server.says is not None else json.dumps(said).encode()
        if self.server.redirects_to:
            self.send_response(307 if self.command == "GET" else 302)
            self.send_header("Location", self.server.redirects_to + self.path)
        else:
            self.send_response(status)
        self.send_header("Content-Length", str(len(data) + 1000 * self.server.trickles))
        self.end_headers()
        while self.server.trickles and not self.server.is_over.wait(0.01):
            self.wfile.write(b" ")
        self.wfile.write(data)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def mlflow_server() -> Iterator[MlflowServer]:
    """The server, running."""
    found = MlflowServer()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        found.is_over.set()
        found.shutdown()
        found.server_close()
