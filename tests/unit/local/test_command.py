"""`holdfast local` without a cluster: words, exit codes and machine-readable output."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast_cli.main import app
from holdfast_local import command as local
from holdfast_local.cluster import Cluster
from holdfast_local.config import ClusterConfig
from holdfast_local.processes import ProcessRecord
from holdfast_local.state import ClusterState, S3Access

runner = CliRunner()


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_LOCAL_ROOT", str(tmp_path / "c"))
    return tmp_path / "c"


@pytest.fixture
def crashed(root: Path) -> Path:
    """The state of a cluster whose etcd has crashed."""
    root.mkdir()
    (root / "pki").mkdir()
    log = root / "etcd.log"
    log.write_text("one\npanic: disk [full]\n")
    access = S3Access(endpoint="http://127.0.0.1:2", access_key="key", secret_key="se'cret")
    record = ProcessRecord(name="etcd", argv=["etcd"], log=log, pid=0)
    ClusterState(
        phase="ready", config=ClusterConfig(root=root), server="https://127.0.0.1:1", ports={"etcd": 7}, tools={},
        s3=access, processes={"etcd": record},
    ).save()  # fmt: skip
    return root


def test_down_with_nothing_up_says_so_and_succeeds(root: Path) -> None:
    done = runner.invoke(app, ["local", "down"])
    assert done.exit_code == 0
    assert f"No local cluster is up in {root}" in done.output
    assert not root.exists()


@pytest.mark.parametrize("command", [["status"], ["env"], ["crash", "spot-1"], ["reclaim", "spot-1"], ["restore", "a"]])
def test_commands_without_a_cluster_say_how_to_start_one(command: list[str]) -> None:
    done = runner.invoke(app, ["local", *command])
    assert done.exit_code == 1
    assert "holdfast local up" in done.output


def test_status_shows_what_crashed_with_its_log_and_fails(crashed: Path) -> None:
    done = runner.invoke(app, ["local", "status", "--root", str(crashed)])
    assert done.exit_code == 1
    assert "etcd crashed" in done.output
    assert "panic: disk [full]" in done.output


def test_status_as_json_holds_no_secret(crashed: Path) -> None:
    done = runner.invoke(app, ["local", "status", "-o", "json", "--root", str(crashed)])
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert found["healthy"] is False
    assert found["parts"][0] | {"log_file": ""} == {
        "name": "etcd", "state": "crashed", "pid": 0, "port": 7, "uptime": None, "memory": None, "log_file": "",
        "log": ["one", "panic: disk [full]"],
    }  # fmt: skip
    assert "secret_key" not in found["s3"]


def test_env_prints_quoted_shell_lines(crashed: Path) -> None:
    lines = runner.invoke(app, ["local", "env"]).stdout.splitlines()
    assert f"export KUBECONFIG={shlex.quote(str(crashed / 'admin.kubeconfig'))}" in lines
    assert """export AWS_SECRET_ACCESS_KEY='se'"'"'cret'""" in lines
    assert f'export PATH={shlex.quote(str(crashed / "bin"))}:"$PATH"' in lines


def test_a_wrong_node_file_is_refused_before_anything_starts(tmp_path: Path, root: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("- {name: a, labels: [x]}")
    done = runner.invoke(app, ["local", "up", "--nodes", str(file)])
    assert done.exit_code == 1
    assert "[0].labels" in done.output
    assert not root.exists()


def test_wrong_durations_are_refused() -> None:
    for option in ("--lease", "--node-grace"):
        done = runner.invoke(app, ["local", "up", option, "3x"])
        assert done.exit_code == 2
        assert f'{option}: "3x": must be a duration' in done.output
    done = runner.invoke(app, ["local", "reclaim", "spot-1", "--notice", "soon"])
    assert done.exit_code == 2
    assert '--notice: "soon": must be a duration' in done.output
    done = runner.invoke(app, ["local", "up", "--lease", "9s"])
    assert done.exit_code == 1
    assert "must be shorter than node_grace" in done.output


def test_options_reach_the_cluster(monkeypatch: pytest.MonkeyPatch, crashed: Path, tmp_path: Path) -> None:
    seen: list[ClusterConfig] = []

    def fake_up(config: ClusterConfig, _report: object) -> Cluster:
        seen.append(config)
        return Cluster.load(crashed)

    monkeypatch.setattr(local, "ensure", fake_up)
    file = tmp_path / "nodes.yaml"
    file.write_text("- name: big-1")
    args = ["up", "--audit", "--node-grace", "1m30s", "--lease", "500ms", "--nodes", str(file), "--api-port", "6443"]
    args += ["--with", "prometheus", "--scrape", "127.0.0.1:7001"]
    monkeypatch.setattr(Cluster, "prometheus", "http://127.0.0.1:7000")
    done = runner.invoke(app, ["local", *args])
    assert done.exit_code == 0
    (config,) = seen
    assert (config.audit, config.timings.node_grace, config.timings.lease) == (True, 90.0, 0.5)
    assert [node.name for node in config.nodes] == ["big-1"]
    assert config.ports == {"kube-apiserver": 6443}
    assert (config.prometheus, config.scrape) == (True, ("127.0.0.1:7001",))


# Breaks if `--without-holdfast` adds Holdfast all the same, or Prometheus misses an operator that a person starts.
def test_without_holdfast_only_the_cluster_is_started(monkeypatch: pytest.MonkeyPatch, crashed: Path) -> None:
    seen: list[ClusterConfig] = []

    def fake_up(config: ClusterConfig, _report: object) -> Cluster:
        seen.append(config)
        return Cluster.load(crashed)

    monkeypatch.setattr(local, "up", fake_up)
    done = runner.invoke(app, ["local", "up", "--without-holdfast", "--with", "prometheus"])
    assert done.exit_code == 0
    assert "with Holdfast" not in done.output
    assert seen[0].scrape == ("127.0.0.1:9443",)


def test_addresses_to_scrape_need_a_prometheus() -> None:
    done = runner.invoke(app, ["local", "up", "--scrape", "127.0.0.1:7001"])
    assert done.exit_code == 1
    assert "--scrape: only Prometheus scrapes: add --with prometheus" in done.output
