"""Which clusters `holdfast local up` goes on with, and which it leaves alone."""

import os
from importlib.metadata import entry_points
from pathlib import Path

import psutil
import pytest

from holdfast_local.cluster import Cluster
from holdfast_local.config import OPERATOR, ClusterConfig
from holdfast_local.errors import AlreadyUpError, StartError
from holdfast_local.installed import ensure as module
from holdfast_local.installed.ensure import bring_up, ensure
from holdfast_local.processes import ProcessRecord
from holdfast_local.progress_bar import Report
from holdfast_local.state import ClusterState


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_LOCAL_ROOT", str(tmp_path / "c"))
    return tmp_path / "c"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of clusters to which Holdfast would be added."""
    seen: list[Path] = []
    monkeypatch.setattr(module, "install", lambda cluster, _report: seen.append(cluster.root))
    return seen


def saved(root: Path, phase: str = "ready", **alive: bool) -> ClusterState:
    """A cluster with these parts: this very process stands for one that is alive."""
    us = psutil.Process()
    ours = {"argv": us.cmdline(), "pid": us.pid, "create_time": us.create_time()}
    parts = {
        name.replace("_", "-"): ProcessRecord.model_validate(
            {"name": name, "log": root / "log", **(ours if lives else {"argv": ["x"], "pid": os.getpid()})}
        )
        for name, lives in alive.items()
    }
    root.mkdir()
    state = ClusterState.model_validate(
        {"phase": phase, "config": ClusterConfig(root=root, audit=True), "server": "https://127.0.0.1:1", "ports": {},
         "tools": {}, "processes": parts}
    )  # fmt: skip
    state.save()
    return state


# Breaks if the cluster of a person who chose other nodes or settings is refused to those who only want one that is up.
def test_the_default_settings_accept_every_cluster_that_is_up(root: Path, installed: list[Path]) -> None:
    saved(root, etcd=True, operator=False)
    said: list[str] = []
    assert bring_up(said.append) == root / "admin.kubeconfig"
    assert installed == [root]
    assert not said


# Breaks if `holdfast local up --nodes ...` says that it is up while the cluster has other nodes.
def test_other_settings_than_those_of_the_cluster_are_named(root: Path, installed: list[Path]) -> None:
    state = saved(root, etcd=True)
    with pytest.raises(AlreadyUpError, match=r"with other settings \(s3, pod_security\)"):
        ensure(state.config.model_copy(update={"s3": False, "pod_security": "restricted"}))
    assert not installed
    assert ensure(state.config).root == root


# Breaks if Holdfast is added to a cluster that does not work.
@pytest.mark.parametrize(
    ("phase", "alive", "words"),
    [
        ("ready", {"etcd": True, "kube_scheduler": False}, "^kube-scheduler of the local cluster in .* crashed"),
        ("ready", {"etcd": False, OPERATOR: True}, "does not run any more.*holdfast local down"),
        ("starting", {"etcd": True}, "does not run any more.*holdfast local down"),
    ],
)
def test_a_cluster_that_is_broken_is_refused(
    root: Path, installed: list[Path], phase: str, alive: dict[str, bool], words: str
) -> None:
    saved(root, phase, **alive)
    with pytest.raises(AlreadyUpError, match=words):
        ensure(ClusterConfig(root=root))
    assert not installed


# Breaks if a start whose operator does not come up leaves a cluster behind, or takes one down that was up before.
@pytest.mark.parametrize("is_new", [True, False])
def test_only_a_new_cluster_is_removed_if_the_operator_does_not_start(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    def up(_config: ClusterConfig, _report: Report) -> Cluster:
        return Cluster(saved(root))

    def install(_cluster: Cluster, _report: Report) -> None:
        raise StartError("operator was not ready")

    monkeypatch.setattr(module, "up", up)
    monkeypatch.setattr(module, "install", install)
    if not is_new:
        saved(root, etcd=True)
    with pytest.raises(StartError, match="operator was not ready"):
        ensure(ClusterConfig(root=root))
    assert root.exists() is not is_new


# Breaks if `holdfast run --local` cannot find the local cluster.
def test_the_command_line_finds_it_without_importing_it() -> None:
    (found,) = entry_points(group="holdfast.local", name="cluster")
    assert found.load() is bring_up
