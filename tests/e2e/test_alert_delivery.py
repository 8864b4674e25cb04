"""An alert of the chart travels from a job that fails to a person, by a real Prometheus and Alertmanager."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.conftest import PATIENCE
from tests.support.cluster.local_cluster import fresh_namespace, running_cluster
from tests.support.cluster.training_jobs import Pool, pool_nodes, stub, submit
from tests.support.free_ports import free_port
from tests.support.operator.operator_process import OperatorProcess
from tests.support.tools.catalogue import ALERTMANAGER
from tests.support.waiting import wait_for

from holdfast_local import toolchain
from holdfast_local.cluster import Cluster
from holdfast_local.layout import Layout

Alert = dict[str, Any]


class Webhook(HTTPServer):
    """Keeps the alerts that it is told of, in their order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.told: list[Alert] = []

    def alert(self, name: str, status: str) -> Alert | None:
        """An alert that was told of with this status, firing or resolved."""
        found = (one for one in self.told if (one["labels"]["alertname"], one["status"]) == (name, status))
        return next(found, None)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Webhook)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.told += json.loads(body)["alerts"]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@contextmanager
def alertmanager(folder: Path, webhook: Webhook) -> Iterator[int]:
    """An Alertmanager that tells the webhook at once; its port."""
    port = free_port()
    receiver = {"url": f"http://127.0.0.1:{webhook.server_port}/", "send_resolved": True}
    settings = {
        "route": {"receiver": "hook", "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"},
        "receivers": [{"name": "hook", "webhook_configs": [receiver]}],
    }
    (folder / "alertmanager.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    command = [
        toolchain.build(ALERTMANAGER), f"--config.file={folder / 'alertmanager.yaml'}",
        f"--storage.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip
    with (folder / "alertmanager.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield port
        finally:
            process.terminate()


def send_alerts_to(cluster: Cluster, port: int) -> None:
    """Let the Prometheus of the cluster send its alerts to this port."""
    file = Layout(cluster.root).prometheus / "prometheus.yaml"
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    settings["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]}
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    cluster.kill_component("prometheus")
    cluster.start_component("prometheus")


@pytest.mark.thorough
@pytest.mark.cluster
def test_a_job_that_fails_is_told_of_and_so_is_its_end(webhook: Webhook, tmp_path: Path) -> None:
    """Breaks if an alert has labels or annotations that nobody can use, or goes on when its cause is gone."""
    with running_cluster(prometheus=True, nodes=pool_nodes(1)) as cluster, alertmanager(tmp_path, webhook) as port:
        send_alerts_to(cluster, port)
        cluster.install()
        with OperatorProcess(cluster, patience=PATIENCE) as operator, fresh_namespace(cluster) as namespace:
            cluster.scrape(f"127.0.0.1:{operator.metrics_port}")
            pool = Pool(cluster, "p1").rent()
            failure = {"maxFailures": 0}
            job = submit(cluster, namespace, [pool.tier("cpu")], stub("--fail-at", 3), failure=failure)
            job.wait_phase("Failed")
            fired = wait_for(lambda: webhook.alert("TrainingJobFailed", "firing"), 60, "the alert")
            assert (fired["labels"]["job_namespace"], fired["labels"]["job_name"]) == (namespace, job.name)
            assert f"{namespace}/{job.name} has failed" in fired["annotations"]["summary"]
            assert Path(fired["annotations"]["runbook_url"]).is_file()
            job.delete()
            wait_for(lambda: webhook.alert("TrainingJobFailed", "resolved"), 60, "the end of the alert")
    assert not [one for one in webhook.told if one["labels"]["alertname"] != "TrainingJobFailed"]
