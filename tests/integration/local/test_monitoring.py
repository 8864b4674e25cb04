"""A real Prometheus beside the local cluster: it scrapes an operator that comes later, and knows the chart's alerts."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.support.cluster.local_cluster import running_cluster
from tests.support.cluster.monitoring import ask
from tests.support.waiting import wait_for
from typer.testing import CliRunner

from holdfast_cli.main import app
from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster


class Page(BaseHTTPRequestHandler):
    """Metrics of an operator that does not lead."""

    def do_GET(self) -> None:
        body = b"# TYPE holdfast_leading gauge\nholdfast_leading 0\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def operator() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster(agent=False, s3=False, prometheus=True) as running:
        yield running


# Breaks if Prometheus does not look at the file of addresses, or an alert of the chart is not loaded.
def test_it_scrapes_an_operator_that_comes_later_and_its_alerts_see_it(cluster: Cluster, operator: str) -> None:
    rules = [rule["name"] for group in ask(cluster, "rules")["groups"] for rule in group["rules"]]
    assert {"HoldfastDown", "TrainingJobStuck"} <= set(rules)
    assert not ask(cluster, "query", query="holdfast_leading")["result"]
    cluster.scrape(operator)
    wait_for(lambda: ask(cluster, "query", query="holdfast_leading")["result"], 30, "a scrape")
    pending = 'ALERTS{alertname="HoldfastDown",alertstate="pending"}'
    wait_for(lambda: ask(cluster, "query", query=pending)["result"], 30, "the alert to see that no operator leads")


# Breaks if status says that all is well without Prometheus.
def test_status_knows_it_and_a_crash_of_it(cluster: Cluster) -> None:
    assert cluster.status().healthy
    shown = CliRunner().invoke(app, ["local", "status", "--root", str(cluster.root)])
    assert f"Prometheus  {cluster.prometheus}" in shown.output
    cluster.kill_component("prometheus")
    assert not cluster.status().healthy
    cluster.start_component("prometheus")
    assert cluster.status().healthy
