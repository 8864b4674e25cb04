"""The run of an MLflow server that all attempts share, with a server that speaks the four requests."""

import base64
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast_train.pod.launcher.mlflow_run import TAG, mlflow_variables
from holdfast_train.pod.launcher.timings import Timings

UID = "6f1c-u"


class Server(http.server.ThreadingHTTPServer):
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
    server: Server

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


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.is_over.set()
    found.shutdown()
    found.server_close()


def run_of(server: Server, seconds: float = 10.0, **more: str) -> str | None:
    """The id that an attempt gets, from a server that has so much time for its answers."""
    given = {"HOLDFAST_JOB": "vit", "HOLDFAST_JOB_UID": UID, "MLFLOW_TRACKING_URI": server.uri, **more}
    return mlflow_variables(given, Timings(mlflow=seconds, mlflow_pause=0.0)).get("MLFLOW_RUN_ID")


def test_all_attempts_get_the_run_that_the_first_one_has_made(server: Server) -> None:
    """Breaks if each attempt has a curve of its own, or if two jobs share one."""
    assert [run_of(server), run_of(server), run_of(server, HOLDFAST_JOB_UID="other")] == ["run0", "run0", "run1"]
    (made, _) = server.runs
    assert (made["experiment_id"], made["run_name"]) == ("0", "vit")
    assert made["start_time"] > 1e12, "milliseconds"


def test_the_run_is_in_the_experiment_that_the_program_uses(server: Server) -> None:
    """Breaks if a program that sets its experiment cannot continue the run: MLflow refuses one of another."""
    assert run_of(server, MLFLOW_EXPERIMENT_NAME="faces") == run_of(server, MLFLOW_EXPERIMENT_NAME="faces") == "run0"
    assert run_of(server, MLFLOW_EXPERIMENT_ID="1") == "run0"
    assert run_of(server) == "run1"
    assert server.experiments == {"Default": "0", "faces": "1"}


@pytest.mark.parametrize("own", [{"MLFLOW_RUN_ID": "mine"}, {"HOLDFAST_RANK": "1"}])
def test_nothing_is_asked_if_the_user_has_a_run_or_another_node_logs(server: Server, own: dict[str, str]) -> None:
    assert run_of(server, **own) is None
    assert server.heard == []


def test_a_server_that_fails_once_is_asked_again(server: Server) -> None:
    server.fails = [503]
    assert run_of(server) == "run0"


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_server_that_refuses_does_not_keep_the_program_from_training(
    server: Server, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fails = [status] * 4
    assert run_of(server) is None
    assert f"HTTP status {status}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "says", [b"[]", b"<html>", b'{"runs": [{}]}', b'{"runs": [{"info": {"run_id": "a\\nB=c"}}]}', b'{"runs": 5}']
)
def test_an_answer_that_makes_no_sense_is_no_run(server: Server, says: bytes) -> None:
    """Breaks if a server can write more than an id into the environment of a program."""
    server.says = says
    assert run_of(server) is None


@pytest.mark.parametrize("uri", ["", "file:///mlruns", "databricks", "http://127.0.0.1:1"])
def test_a_server_that_cannot_be_asked_is_said(server: Server, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_of(server, MLFLOW_TRACKING_URI=uri) is None
    assert "MLflow: no run for this job" in capsys.readouterr().err


def test_the_credentials_of_mlflow_are_used_and_never_said(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Breaks if a password is in the log, or if a server with users refuses the launcher."""
    user = {"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": "s3cret"}
    run_of(server, **user)
    run_of(server, MLFLOW_TRACKING_TOKEN="t0ken", **user)
    run_of(server, MLFLOW_TRACKING_URI=server.uri.replace("//", "//ada:s3cret@"))
    basic = "Basic " + base64.b64encode(b"ada:s3cret").decode()
    assert [said for path, said in server.heard if path.endswith("search")] == [basic, basic, "Bearer t0ken", basic]
    server.fails = [500] * 2
    run_of(server, MLFLOW_TRACKING_URI=server.uri.replace("//", "//ada:s3cret@"))
    assert "s3cret" not in "".join(capsys.readouterr())


def test_two_attempts_that_make_a_run_at_once_use_the_same_one(server: Server) -> None:
    """Breaks if the attempts of one job log into two runs because they overlap."""
    tags = [{"key": TAG, "value": UID}]
    server.between = lambda: server.runs.append({"id": "of-the-other", "experiment_id": "0", "tags": tags})
    assert run_of(server) == "of-the-other"


def test_an_answer_that_gets_lost_makes_no_second_curve(server: Server) -> None:
    """Breaks if this attempt logs into the second run, and all later ones into the first."""

    def lose() -> None:
        if not server.runs:
            server.between = lambda: None
            server.answer("/api/2.0/mlflow/runs/create", {"tags": [{"key": TAG, "value": UID}], "experiment_id": "0"})
            raise ConnectionResetError

    server.between = lose
    assert [run_of(server), run_of(server)] == ["run0", "run0"]
    assert len(server.runs) == 2


def test_credentials_do_not_follow_a_redirect(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Breaks if the token goes to the host that a redirect names."""
    with Server() as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        server.redirects_to = other.uri
        for name in ("", "faces"):  # a POST, and a GET
            assert run_of(server, MLFLOW_TRACKING_TOKEN="t0ken", MLFLOW_EXPERIMENT_NAME=name) is None
        other.shutdown()
        assert other.heard == []
    assert "HTTP status 302" in capsys.readouterr().err


def test_a_server_that_is_slow_costs_a_bounded_time(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Breaks if a server that answers byte by byte keeps the program from training."""
    server.trickles = True
    assert run_of(server, 0.2) is None
    assert "no answer within 0.2 s" in capsys.readouterr().err
