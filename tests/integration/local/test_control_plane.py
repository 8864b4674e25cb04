"""The local cluster is a real control plane that tells the truth about itself and leaves nothing behind."""

import json
import os
import signal
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import boto3
import psutil
import pytest
from botocore.exceptions import ClientError
from tests.support.cluster.agent_pods import container, pod
from tests.support.cluster.local_cluster import apply, audit_events, exists, get, running_cluster
from tests.support.cluster.monitoring import ask
from tests.support.waiting import wait_for
from typer.testing import CliRunner

from holdfast_cli.main import app
from holdfast_local.access import OPERATOR_NAMESPACE
from holdfast_local.agent.config import NodeSpec
from holdfast_local.agent.container import procfs
from holdfast_local.agent.container.process import agent_mark
from holdfast_local.cluster import Cluster, up
from holdfast_local.config import COMPONENTS, ClusterConfig, load_nodes
from holdfast_local.errors import AlreadyUpError, LocalError
from holdfast_local.state import ClusterState

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[3] / "examples/nodes/eight-nodes.yaml"


@pytest.fixture(scope="module")
def bare() -> Iterator[Cluster]:
    """A cluster of this file's own, because its parts are killed; no node is up, because nothing here runs on one."""
    later = NodeSpec(name="later-1", standby=True)
    with running_cluster(audit=True, prometheus=True, nodes=(later,)) as cluster:
        yield cluster


def alive(root: Path) -> list[int]:
    """Processes that mention the cluster's folder on their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(root) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def healthy(cluster: Cluster) -> bool:
    status = cluster.status()
    assert status.healthy, status
    return True


def part(cluster: Cluster, name: str) -> str:
    return next(part.state for part in cluster.status().parts if part.name == name)


def test_every_part_runs_and_the_api_answers(bare: Cluster) -> None:
    assert healthy(bare)
    assert {part.name for part in bare.status().parts} == {*COMPONENTS, "prometheus"}
    shown = CliRunner().invoke(app, ["local", "status", "--root", str(bare.root)])
    assert f"Prometheus  {bare.prometheus}" in shown.output
    assert "kube-system" in bare.kubectl("get", "namespaces", "-o", "name")


def test_it_is_found_again_from_its_folder_alone(bare: Cluster) -> None:
    assert Cluster.load(bare.root).kubectl("get", "--raw", "/readyz") == "ok"


def test_a_second_up_is_refused_and_leaves_the_first_running(bare: Cluster) -> None:
    before = ClusterState.load(bare.root)
    with pytest.raises(AlreadyUpError, match="already up"):
        up(ClusterConfig(root=bare.root))
    assert ClusterState.load(bare.root) == before
    assert healthy(bare)


def test_objects_are_stored_in_s3_and_a_create_only_put_has_one_winner(bare: Cluster) -> None:
    access = bare.s3
    client = boto3.client(
        "s3", endpoint_url=access.endpoint, region_name=access.region,
        aws_access_key_id=access.access_key, aws_secret_access_key=access.secret_key,
    )  # fmt: skip
    client.put_object(Bucket=access.bucket, Key="a/b", Body=b"one", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=access.bucket, Key="a/b", Body=b"two", IfNoneMatch="*")
    assert client.get_object(Bucket=access.bucket, Key="a/b")["Body"].read() == b"one"


def test_s3_refuses_a_wrong_key(bare: Cluster) -> None:
    client = boto3.client(
        "s3", endpoint_url=bare.s3.endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y"
    )
    with pytest.raises(ClientError):
        client.list_objects_v2(Bucket=bare.s3.bucket)


def test_rbac_is_on_and_a_service_account_has_only_its_rights(bare: Cluster) -> None:
    config = bare.kubeconfig_for("default", "default")
    assert config.stat().st_mode & 0o077 == 0
    with pytest.raises(LocalError, match="forbidden"):
        bare.kubectl(f"--kubeconfig={config}", "get", "pods")


def test_a_standby_node_is_not_there_until_it_is_restored(bare: Cluster) -> None:
    assert not exists(bare, "node/later-1")
    bare.restore("later-1")
    assert exists(bare, "node/later-1")
    bare.reclaim("later-1", timedelta(0))
    wait_for(lambda: not exists(bare, "node/later-1"), 30, "the node to be gone again")


def test_strangers_get_nothing(bare: Cluster) -> None:
    context = ssl.create_default_context(cafile=str(bare.ca_cert))
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{bare.server}/api/v1/namespaces", context=context)
    with pytest.raises((ssl.SSLError, ConnectionError, urllib.error.URLError)):
        urllib.request.urlopen(f"https://127.0.0.1:{bare.ports['etcd']}/version", context=context)


def test_what_install_gives_the_operator_is_enough_and_nothing_more(bare: Cluster) -> None:
    bare.install()
    bare.install()
    assert exists(bare, "customresourcedefinition/trainingjobs.holdfast.dev")
    user = f"--as=system:serviceaccount:{OPERATOR_NAMESPACE}:holdfast"

    def may(*question: str) -> bool:
        try:
            return bare.kubectl("auth", "can-i", *question, user).strip() == "yes"
        except LocalError:  # kubectl's way to say no
            return False

    assert may("patch", "trainingjobs.holdfast.dev", "--subresource=status", "-n", "default")
    assert may("create", "pods", "-n", "default")
    assert may("get", "secrets/holdfast-serving", "-n", OPERATOR_NAMESPACE)
    assert may("get", "configmaps/holdfast-ca", "-n", "default")
    assert not may("get", "secrets", "-n", "default")
    assert not may("list", "secrets", "-n", OPERATOR_NAMESPACE)
    assert not may("get", "configmaps/others", "-n", "default")
    assert not may("patch", "nodes")


def test_the_audit_log_holds_every_write_with_its_object_but_no_secret(bare: Cluster) -> None:
    meta = {"apiVersion": "v1", "metadata": {"name": "audited"}}
    apply(bare, {**meta, "kind": "ConfigMap", "data": {"k": "visible"}}, namespace="default")
    apply(bare, {**meta, "kind": "Secret", "stringData": {"k": "hidden-value"}}, namespace="default")
    writes = {
        event["objectRef"]["resource"]: event
        for event in audit_events(bare, "holdfast-admin")
        if event["verb"] == "patch" and event["objectRef"]["name"] == "audited"
    }
    assert writes["configmaps"]["requestObject"]["data"] == {"k": "visible"}
    assert "requestObject" not in writes["secrets"]
    assert bare.audit_log is not None
    assert "hidden-value" not in bare.audit_log.read_text()


def test_pods_that_ask_for_too_much_are_refused(bare: Cluster) -> None:
    privileged = pod("root", container("true", securityContext={"privileged": True}))
    with pytest.raises(LocalError, match='violates PodSecurity "baseline'):
        apply(bare, privileged, namespace="default")


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


# Breaks if Prometheus does not look at the file of addresses, or an alert of the chart is not loaded.
def test_it_scrapes_an_operator_that_comes_later_and_its_alerts_see_it(bare: Cluster, operator: str) -> None:
    rules = [rule["name"] for group in ask(bare, "rules")["groups"] for rule in group["rules"]]
    assert {"HoldfastDown", "TrainingJobStuck"} <= set(rules)
    assert not ask(bare, "query", query="holdfast_leading")["result"]
    bare.scrape(operator)
    wait_for(lambda: ask(bare, "query", query="holdfast_leading")["result"], 30, "a scrape")
    pending = 'ALERTS{alertname="HoldfastDown",alertstate="pending"}'
    wait_for(lambda: ask(bare, "query", query=pending)["result"], 30, "the alert to see that no operator leads")


@pytest.mark.parametrize(
    "name", ["kube-scheduler", "kube-controller-manager", "s3", "etcd", "kube-apiserver", "prometheus"]
)
def test_a_crash_is_seen_by_status_and_the_part_can_be_started_again(bare: Cluster, name: str) -> None:
    bare.kill_component(name)
    done = CliRunner().invoke(app, ["local", "status", "-o", "json", "--root", str(bare.root)])
    assert done.exit_code == 1
    states = {part["name"]: part["state"] for part in json.loads(done.stdout)["parts"]}
    assert states.pop(name) == "crashed"
    bare.start_component(name)
    assert part(bare, name) == "running"
    wait_for(lambda: healthy(bare), 30, f"the cluster to be healthy with a new {name}")


def test_a_paused_part_is_seen_and_resumed(bare: Cluster) -> None:
    bare.pause_component("kube-scheduler")
    wait_for(lambda: part(bare, "kube-scheduler") == "paused", 10, "the scheduler to be paused")
    bare.resume_component("kube-scheduler")
    wait_for(lambda: healthy(bare), 10, "the scheduler to go on")


# Breaks if the API server refuses a node of the example, or a field of the file does not reach the Node object. Or if
# `down` leaves a process: also of pods whose agent was killed, of a part that crashed, and of one that cannot answer.
def test_a_cluster_with_nodes_of_a_file_comes_up_and_down_leaves_nothing_of_it() -> None:
    nodes = load_nodes(EXAMPLE)
    with running_cluster(nodes=nodes, s3=False) as cluster:
        assert {node.name for node in cluster.status().nodes if node.ready} == {one.name for one in nodes} - {"cpu-2"}
        spot = get(cluster, "node/spot-3")
        assert spot["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-b"
        assert spot["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert not exists(cluster, "node/cpu-2")
        cluster.restore("cpu-2")
        wait_for(lambda: exists(cluster, "node/cpu-2"), 20, "the standby node")

        tier = {"holdfast.dev/tier": "dedicated"}
        tolerations = [{"key": "example.com/reserved", "operator": "Exists"}]
        sleeper = pod("sleeper", container("sleep 613 & sleep 614"), nodeSelector=tier, tolerations=tolerations)
        apply(cluster, sleeper, namespace="default")
        prefix = agent_mark(cluster.root)

        def marked() -> list[int]:
            return [pid for pid in procfs.table() if (procfs.mark(pid) or "").startswith(prefix)]

        wait_for(lambda: len(marked()) == 3, 30, "the shell and its two children")
        cluster.kill_component("agent")
        assert len(marked()) == 3
        assert alive(cluster.root)
        crashed = next(part for part in cluster.status().parts if part.name == "kube-scheduler")
        os.kill(crashed.pid, signal.SIGKILL)
        cluster.pause_component("kube-controller-manager")
        for _ in range(2):
            done = CliRunner().invoke(app, ["local", "down", "--root", str(cluster.root)])
            assert done.exit_code == 0, done.output
        assert not cluster.root.exists()
        assert alive(cluster.root) == []
        assert marked() == []
