"""`holdfast nodes`, against an API server with scripted answers."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import FakeApi, failure, fake_api, listing
from typer.testing import CliRunner

from holdfast.api.names import ANNOTATION_FORGIVEN
from holdfast.api.scalars import format_time, parse_time
from holdfast.core.observe.digest import digest
from holdfast_cli.main import app

PROFILES = "/apis/holdfast.dev/v1alpha1/capacityprofiles"
NODES = "/api/v1/nodes"


def fault(reason: str, namespace: str, attempt: int) -> dict[str, Any]:
    at = format_time(datetime.now(UTC) - timedelta(hours=2))
    return {"reason": reason, "at": at, "namespace": digest(namespace), "job": "j", "attempt": attempt}


def profile() -> dict[str, Any]:
    faults = {
        "bad": [fault("NodeSilent", "x", 1), fault("NodeSilent", "x", 2)],
        "suspect": [fault("ContainerLost", "demo", 1)],
        "elsewhere": [fault("ContainerLost", "other", 1)],
    }
    return {
        "metadata": {"name": "gpus", "uid": "u", "resourceVersion": "5"},
        "spec": {"tiers": [{"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu"}]},
        "status": {"faultyNodes": [{"node": name, "faults": found} for name, found in faults.items()]},
    }


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    with fake_api() as server:
        conditions = [{"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error"}]
        broken = {"metadata": {"name": "xid", "uid": "n"}, "status": {"conditions": conditions}}
        server.answers = {("GET", PROFILES): listing(profile()), ("GET", NODES): listing(broken)}
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield server


@pytest.mark.usefixtures("api")
def test_the_table_says_what_each_node_is_for_this_namespace() -> None:
    result = CliRunner().invoke(app, ["nodes", "-n", "demo"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in result.output.splitlines()[2:]}
    assert rows["xid"] == "broken AcceleratedHardwareReady=False: NvidiaXID79Error"
    assert rows["bad"] == "gpus avoided 2 NodeSilent 2h00m"
    assert rows["suspect"] == "gpus last choice 1 ContainerLost 2h00m"
    assert rows["elsewhere"] == "gpus - 1 ContainerLost 2h00m"


def test_faults_that_are_forgiven_or_too_old_are_not_shown(api: FakeApi) -> None:
    """Breaks if a node that was just forgiven still counts as avoided, until the operator has written the status."""
    shown = profile()
    now = datetime.now(UTC)
    given = {"bad": format_time(now), "suspect": format_time(now - timedelta(hours=3))}
    shown["metadata"]["annotations"] = {ANNOTATION_FORGIVEN: json.dumps(given)}
    for one in shown["status"]["faultyNodes"]:
        if one["node"] == "elsewhere":
            one["faults"][0]["at"] = format_time(now - timedelta(hours=25))
    api.answers = {("GET", PROFILES): listing(shown), ("GET", NODES): listing()}
    found = json.loads(CliRunner().invoke(app, ["nodes", "-n", "demo", "-o", "json"]).output)["nodes"]
    assert [one["node"] for one in found] == ["suspect"]
    assert "no profile tells a fault" in CliRunner().invoke(app, ["nodes", "--forgive", "bad"]).output


def test_without_faults(api: FakeApi) -> None:
    api.answers = {("GET", PROFILES): listing(), ("GET", NODES): listing()}
    assert CliRunner().invoke(app, ["nodes"]).output == "no node is avoided\n"


# Breaks if somebody who may not list nodes believes that none is broken.
def test_without_the_right_to_list_nodes(api: FakeApi) -> None:
    api.answers["GET", NODES] = failure(403, "Forbidden", "nodes is forbidden")
    result = CliRunner().invoke(app, ["nodes", "-n", "demo"])
    assert result.exit_code == 0, result.output
    assert "xid" not in result.stdout
    assert "avoided" in result.stdout
    assert "you may not list nodes" in result.stderr


def test_a_node_is_forgiven_by_annotation(api: FakeApi) -> None:
    api.answers["PATCH", f"{PROFILES}/gpus"] = profile()
    result = CliRunner().invoke(app, ["nodes", "--forgive", "bad"])
    assert result.exit_code == 0, result.output
    assert result.output == "bad is forgiven in gpus\n"
    (body,) = [body for method, _, body in api.requests if method == "PATCH"]
    assert body["metadata"]["resourceVersion"] == "5"
    given = json.loads(body["metadata"]["annotations"][ANNOTATION_FORGIVEN])
    assert abs(parse_time(given["bad"]) - datetime.now(UTC)) < timedelta(minutes=5)


@pytest.mark.usefixtures("api")
def test_a_node_without_faults_cannot_be_forgiven() -> None:
    result = CliRunner().invoke(app, ["nodes", "--forgive", "good"])
    assert result.exit_code == 1
    assert "no profile tells a fault of node good" in result.output
