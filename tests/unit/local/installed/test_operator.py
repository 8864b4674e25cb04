"""How the operator of a local cluster is started: its rights, its ports, its settings."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from holdfast.runtime.command import make_parser, settings_from
from holdfast.runtime.settings import Settings
from holdfast_local import access, bringup
from holdfast_local.config import OPERATOR, ClusterConfig
from holdfast_local.errors import PortTakenError
from holdfast_local.installed import operator
from holdfast_local.layout import Layout
from holdfast_local.processes import ProcessRecord
from holdfast_local.state import ClusterState


@pytest.fixture
def state(tmp_path: Path) -> ClusterState:
    config = ClusterConfig(root=tmp_path, prometheus=True, scrape=("127.0.0.1:7001",), ready_timeout=0.5)
    return ClusterState(config=config, server="https://127.0.0.1:1", ports={"prometheus": 2}, tools={})


@pytest.fixture
def started(state: ClusterState, monkeypatch: pytest.MonkeyPatch) -> list[ProcessRecord]:
    """What would be started, without a cluster; the first start finds its ports taken."""
    seen: list[ProcessRecord] = []

    def start(state: ClusterState, record: ProcessRecord) -> None:
        seen.append(record)
        state.processes[record.name] = record

    def wait_ready(_state: ClusterState) -> None:
        if len(seen) == 1:
            raise PortTakenError("taken")

    monkeypatch.setattr(access, "kubectl", lambda *_: "")
    monkeypatch.setattr(access, "kubeconfig_for", lambda *_, **__: Path("/k"))
    monkeypatch.setattr(bringup, "start", start)
    monkeypatch.setattr(operator, "wait_ready", wait_ready)
    Layout(state.config.root).prometheus.mkdir()
    return seen


def settings(record: ProcessRecord) -> Settings:
    """How the operator understands its command line."""
    _python, _isolated, _m, _module, *arguments = record.argv
    given = vars(make_parser().parse_args(arguments))
    return settings_from({name: value for name, value in given.items() if name != "command"})


# Breaks if a port that was taken in between ends the start, or the new ports reach neither flags, state nor Prometheus.
def test_it_is_tried_at_other_ports(state: ClusterState, started: list[ProcessRecord]) -> None:
    operator.start(state, ["--patience", "silent_timeout=3"])
    first, second = map(settings, started)
    binds = {first.progress_bind, first.health_bind, first.metrics_bind}
    assert not binds & {second.progress_bind, second.health_bind, second.metrics_bind}
    assert second.progress_url == f"https://{second.progress_bind}"
    assert second.progress_bind == f"127.0.0.1:{state.ports[OPERATOR]}"
    assert second.health_bind == f"127.0.0.1:{state.ports[operator.HEALTH]}"
    assert (second.metrics_auth, second.patience) == ("off", {"silent_timeout": 3.0})
    (targets,) = json.loads((Layout(state.config.root).prometheus / "targets.json").read_text())
    assert targets["targets"] == [second.metrics_bind, "127.0.0.1:7001"]


# Breaks if a second start changes the address that pods know, or forgets the flags of the first.
def test_it_is_started_again_as_it_was(state: ClusterState, started: list[ProcessRecord]) -> None:
    operator.start(state, ["--log-level", "DEBUG"])
    operator.start(state)
    assert started[-1] == started[-2]


# Breaks if a variable of the user, such as HOLDFAST_NAMESPACE, becomes a setting of the operator.
def test_it_gets_no_variables_of_the_user(
    state: ClusterState, started: list[ProcessRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_NAMESPACE", "elsewhere")
    operator.start(state)
    assert started[-1].env is not None
    assert not [name for name in started[-1].env if name.startswith("HOLDFAST_")]


class Page(BaseHTTPRequestHandler):
    """An operator that serves, and leads only if `leading` is true."""

    leading = False

    def do_GET(self) -> None:
        body = json.dumps({"leading": self.leading, "serving": True}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def health_port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


# Breaks if an operator that does not lead yet, or does not answer, counts as ready.
def test_it_is_ready_when_it_leads(health_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not operator.leads(health_port)
    monkeypatch.setattr(Page, "leading", True)
    assert operator.leads(health_port)
