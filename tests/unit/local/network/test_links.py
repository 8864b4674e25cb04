"""An isolated network is made and removed; where that is not possible, the message says what is missing."""

import os
import shutil
import subprocess
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from tests.support.cluster.isolated import needs_isolation

from holdfast_local.errors import ConfigError, StartError
from holdfast_local.network import links
from holdfast_local.network.plan import make_plan


def test_a_user_without_root_or_ip_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(ConfigError, match=r"needs root \(this is user 1000\) and the program `ip`.*--network shared"):
        links.check_possible()


# Breaks if root in a container without rights learns only after minutes of building tools that there is no network.
def test_root_without_rights_is_told_the_words_of_ip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = tmp_path / "ip"
    refusing.write_text("#!/bin/sh\necho 'mount failed: Operation not permitted' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"cannot be made here: .*Operation not permitted.*use --network shared"):
        links.check_possible()


# Breaks if the attempt leaves its namespace behind.
@needs_isolation
def test_trying_out_leaves_nothing() -> None:
    links.check_possible()
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"hf-try-{os.getpid()}" not in left


def test_the_networks_in_use_are_the_targets_of_routes() -> None:
    routes = [{"dst": "default"}, {"dst": "192.0.2.0/24"}, {"type": "local", "dst": "198.18.0.1"}, {}]
    assert links.used_networks(routes) == [IPv4Network("192.0.2.0/24"), IPv4Network("198.18.0.1/32")]


# Breaks if anything of a network is left, if a part of it cannot be removed, or if two clusters choose one range.
@needs_isolation
def test_a_network_is_made_and_removed(tmp_path: Path) -> None:
    with links.choosing() as used:
        plan = make_plan(tmp_path, ["a", "b"], used)
        links.make(plan)
    try:
        with links.choosing() as used:
            assert plan.subnet in used
        with pytest.raises(StartError, match=r"`ip netns add .*` failed: .*File exists"):
            links.make(plan)
    finally:
        links.remove(plan)
    links.remove(plan)
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert plan.bridge not in left
    with links.choosing() as used:
        assert plan.subnet not in used


# Breaks if `down` cannot remove a network that was made only in part.
@needs_isolation
def test_a_part_of_a_network_is_removed(tmp_path: Path) -> None:
    with links.choosing() as used:
        plan = make_plan(tmp_path, ["a", "b"], used)
        subprocess.run(["ip", "netns", "add", plan.nodes["a"].namespace], check=True)
    links.remove(plan)
    assert not (links.NAMESPACES / plan.nodes["a"].namespace).exists()
