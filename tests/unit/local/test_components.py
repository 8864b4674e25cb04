"""What decides the safety of the control plane is on its command lines."""

from pathlib import Path

import pytest
import yaml

from holdfast_local import components
from holdfast_local.agent.config import Timings
from holdfast_local.config import PORTS, ClusterConfig
from holdfast_local.layout import Layout
from holdfast_local.state import ClusterState, S3Access


@pytest.fixture
def state(tmp_path: Path) -> ClusterState:
    config = ClusterConfig(
        root=tmp_path,
        timings=Timings(node_grace=7.5),
        extra_args={"kube-controller-manager": ["--concurrent-job-syncs=10"]},
    )
    ports = {name: 30000 + index for index, name in enumerate(PORTS)}
    access = S3Access(endpoint="http://127.0.0.1:30005", access_key="key", secret_key="very-secret")
    tools = {"kubernetes": Path("/t/kubernetes"), "versitygw": Path("/t/versitygw")}
    return ClusterState(config=config, server="https://127.0.0.1:30002", ports=ports, tools=tools, s3=access)


def test_every_part_listens_on_loopback_only(state: ClusterState) -> None:
    parts = (components.apiserver, components.controller_manager, components.scheduler)
    assert all("--bind-address=127.0.0.1" in part(state).argv for part in parts)
    urls = [arg for arg in components.etcd(state).argv if "listen-" in arg]
    assert len(urls) == 2
    assert all("https://127.0.0.1:" in url for url in urls)
    assert "127.0.0.1:30005" in components.s3(state).argv


def test_rbac_is_on_and_etcd_asks_for_client_certificates(state: ClusterState) -> None:
    assert "--authorization-mode=Node,RBAC" in components.apiserver(state).argv
    assert "--client-cert-auth" in components.etcd(state).argv


def test_timings_and_extra_arguments_reach_the_controller_manager(state: ClusterState) -> None:
    argv = components.controller_manager(state).argv
    assert "--node-monitor-grace-period=7.5s" in argv
    assert argv[-1] == "--concurrent-job-syncs=10", "further arguments come last, so that they win"


def test_the_audit_log_is_complete_and_only_there_on_request(state: ClusterState) -> None:
    assert not [arg for arg in components.apiserver(state).argv if arg.startswith("--audit")]
    audited = state.model_copy(update={"config": state.config.model_copy(update={"audit": True})})
    assert "--audit-log-mode=blocking" in components.apiserver(audited).argv


def test_no_secret_is_on_a_command_line(state: ClusterState) -> None:
    record = components.s3(state)
    assert "very-secret" not in " ".join(record.argv)
    assert record.env is not None
    assert record.env["ROOT_SECRET_KEY"] == "very-secret"


def test_the_agent_inherits_the_environment_which_is_not_written_down(state: ClusterState) -> None:
    assert components.agent(state).env is None


def test_object_metadata_goes_beside_the_objects_where_there_are_no_extended_attributes(
    state: ClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--sidecar" not in components.s3(state).argv
    monkeypatch.setattr(components, "_has_attributes", lambda _: False)
    assert "--sidecar" in components.s3(state).argv


def test_secrets_are_audited_without_their_content(state: ClusterState) -> None:
    layout = Layout(state.config.root)
    components.write_settings(layout, state.config)
    rules = yaml.safe_load((layout.settings / "audit.yaml").read_text())["rules"]
    first = rules[0]
    assert first["level"] == "Metadata"
    assert "secrets" in first["resources"][0]["resources"]
    admission = yaml.safe_load((layout.settings / "admission.yaml").read_text())
    assert admission["plugins"][0]["configuration"]["defaults"]["enforce"] == "baseline"


def test_kubeconfigs_are_private_and_name_no_more_than_they_need(state: ClusterState) -> None:
    layout = Layout(state.config.root)
    components.write_pki(state)
    assert layout.admin_kubeconfig.stat().st_mode & 0o077 == 0
    config = yaml.safe_load(layout.kubeconfig("kube-scheduler").read_text())
    assert config["clusters"][0]["cluster"]["server"] == state.server
    assert config["users"][0]["user"]["client-certificate"].endswith("scheduler.crt")
