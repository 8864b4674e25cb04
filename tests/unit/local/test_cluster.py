"""A cluster that does not come up leaves no process and no file; a second one leaves the first as it is."""

import os
import shlex
import socket
from pathlib import Path

import psutil
import pytest
from tests.support.cluster.isolated import needs_isolation
from tests.support.waiting import wait_for

from holdfast_local import bringup, toolchain
from holdfast_local.cluster import Cluster, up
from holdfast_local.config import ClusterConfig
from holdfast_local.errors import (
    AlreadyUpError,
    ConfigError,
    LocalError,
    NotUpError,
    PortTakenError,
    StartError,
    ToolError,
)
from holdfast_local.layout import Layout
from holdfast_local.locking import exclusive
from holdfast_local.network import links
from holdfast_local.network.plan import NetworkPlan
from holdfast_local.processes import ProcessRecord
from holdfast_local.state import ClusterState


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "c"


@pytest.fixture
def config(root: Path) -> ClusterConfig:
    return ClusterConfig(root=root, agent=False, s3=False, ready_timeout=0.5)


@pytest.fixture
def binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A multi-call binary whose `etcd` is a script; write it, then call `up`."""
    folder = tmp_path / "tool"
    folder.mkdir()
    monkeypatch.setattr(toolchain, "build_all", lambda tools, _report: [folder / tool.name for tool in tools])
    return folder / "etcd"


def script(binary: Path, text: str) -> None:
    binary.write_text("#!/bin/sh\n" + text)
    binary.chmod(0o755)


def processes_of(binary: Path) -> list[int]:
    return [p.pid for p in psutil.process_iter(["cmdline"]) if str(binary) in " ".join(p.info["cmdline"] or ())]


def test_a_part_that_ends_shows_its_log_and_leaves_nothing(binary: Path, config: ClusterConfig) -> None:
    script(binary, "echo first; echo cannot open database; exit 3")
    with pytest.raises(StartError, match=r"etcd ended while it started; the end of its log:\n  first\n  cannot open"):
        up(config)
    assert not config.root.exists()


def test_a_part_that_hangs_is_ended_when_its_time_is_up(binary: Path, config: ClusterConfig) -> None:
    script(binary, "echo waiting for godot\nwhile true; do sleep 1; done")
    with pytest.raises(StartError, match=r"etcd was not ready after 0.5 s; the end of its log:\n  waiting for godot"):
        up(config)
    assert not config.root.exists()
    # A shell that was ended while it forked leaves a child for a moment, until that has become `sleep`.
    wait_for(lambda: not processes_of(binary), 10, "its processes to end")


# Breaks if a cluster that does not come up leaves its namespaces, or the machine's interface to them.
@needs_isolation
def test_a_start_that_fails_removes_the_network(
    binary: Path, config: ClusterConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(binary, "echo no; exit 3")
    plans: list[NetworkPlan] = []
    make = links.make
    monkeypatch.setattr(links, "make", lambda plan: (plans.append(plan), make(plan)))
    with pytest.raises(StartError, match="etcd ended"):
        up(config.model_copy(update={"network": "isolated"}))
    (plan,) = plans
    assert not any((links.NAMESPACES / name).exists() for name in plan.namespaces)
    assert plan.link not in {name for _, name in socket.if_nameindex()}


def test_a_network_that_cannot_be_made_starts_nothing(
    binary: Path, config: ClusterConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(binary, "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match="--network isolated needs root"):
        up(config.model_copy(update={"network": "isolated"}))
    assert not config.root.exists()


def test_ctrl_c_leaves_nothing(binary: Path, config: ClusterConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    script(binary, "while true; do sleep 1; done")

    def interrupted(_state: ClusterState, _name: str) -> None:
        assert processes_of(binary)
        raise KeyboardInterrupt

    monkeypatch.setattr(bringup, "wait_ready", interrupted)
    with pytest.raises(KeyboardInterrupt):
        up(config)
    assert not config.root.exists()
    # A shell that was ended while it forked leaves a child for a moment, until that has become `sleep`.
    wait_for(lambda: not processes_of(binary), 10, "its processes to end")


def test_a_port_that_is_taken_in_between_is_tried_again(binary: Path, config: ClusterConfig, tmp_path: Path) -> None:
    count = tmp_path / "count"
    script(
        binary,
        f"echo x >> {shlex.quote(str(count))}; echo listen tcp 127.0.0.1:2379: bind: address already in use; exit 1",
    )
    with pytest.raises(PortTakenError, match="another process took the port of etcd"):
        up(config)
    assert len(count.read_text().split()) == 3
    assert not config.root.exists()


def test_a_chosen_port_in_use_is_named_and_not_tried_again(binary: Path, config: ClusterConfig) -> None:
    script(binary, "exit 1")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        chosen = config.model_copy(update={"ports": {"kube-apiserver": port}})
        with pytest.raises(PortTakenError, match=rf"port {port} for kube-apiserver cannot be used"):
            up(chosen)
    assert not config.root.exists()


def test_a_missing_tool_makes_nothing(config: ClusterConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_go(_name: str, _report: object) -> Path:
        raise ToolError("no Go")

    monkeypatch.setattr(toolchain, "build_all", no_go)
    with pytest.raises(ToolError, match="no Go"):
        up(config)
    assert not config.root.exists()


def test_a_folder_with_files_of_others_is_refused_and_kept(config: ClusterConfig) -> None:
    config.root.mkdir()
    (config.root / "thesis.tex").write_text("x")
    with pytest.raises(LocalError, match=r"not empty and has no local cluster.*thesis.tex"):
        up(config)
    assert [path.name for path in config.root.iterdir()] == ["thesis.tex"]


def test_a_root_that_cannot_be_made_is_named(binary: Path, tmp_path: Path) -> None:
    script(binary, "exit 1")
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match="file/c cannot be used: Not a directory"):
        up(ClusterConfig(root=tmp_path / "file" / "c"))


def saved(config: ClusterConfig, record: ProcessRecord) -> ClusterState:
    config.root.mkdir()
    state = ClusterState(config=config, server="https://127.0.0.1:1", ports={}, tools={}, processes={"etcd": record})
    state.save()
    return state


def test_a_second_up_is_refused_and_changes_nothing(config: ClusterConfig) -> None:
    us = psutil.Process()
    record = ProcessRecord(
        name="etcd", argv=us.cmdline(), log=config.root / "log", pid=us.pid, create_time=us.create_time()
    )
    state = saved(config, record)
    with pytest.raises(AlreadyUpError, match=r"already up in .*holdfast local status"):
        up(config)
    assert ClusterState.load(config.root) == state


def test_the_rest_of_a_cluster_is_not_overwritten_but_explained(config: ClusterConfig) -> None:
    saved(config, ProcessRecord(name="etcd", argv=["etcd"], log=config.root / "log", pid=os.getpid(), create_time=1))
    with pytest.raises(AlreadyUpError, match=r"does not run any more.*holdfast local down"):
        up(config)


def test_two_commands_at_once_are_refused(binary: Path, config: ClusterConfig) -> None:
    script(binary, "exit 1")
    config.root.mkdir()
    with exclusive(Layout(config.root).lock), pytest.raises(AlreadyUpError, match="another `holdfast local` command"):
        up(config)


def test_down_removes_the_rest_of_a_cluster_and_can_be_repeated(config: ClusterConfig) -> None:
    """The recorded number belongs to this very process now: `down` must not end it."""
    saved(config, ProcessRecord(name="etcd", argv=["etcd"], log=config.root / "log", pid=os.getpid(), create_time=1))
    (config.root / "logs").mkdir()
    cluster = Cluster.load(config.root)
    cluster.down()
    assert not config.root.exists()
    cluster.down()
    assert not config.root.exists()
    with pytest.raises(NotUpError):
        Cluster.load(config.root)


def test_a_part_that_the_cluster_does_not_have_is_named(config: ClusterConfig) -> None:
    saved(config, ProcessRecord(name="etcd", argv=["etcd"], log=config.root / "log", pid=0))
    cluster = Cluster.load(config.root)
    with pytest.raises(LocalError, match="no part 'kubelet': it has etcd"):
        cluster.kill_component("kubelet")
    with pytest.raises(LocalError, match="etcd is not running"):
        cluster.pause_component("etcd")
    with pytest.raises(LocalError, match="without an S3 server"):
        _ = cluster.s3
