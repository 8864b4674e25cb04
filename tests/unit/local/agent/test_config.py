"""agent.json."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast_local.agent.config import AgentConfig, Capacity, ImageSpec, NodeSpec, TaintSpec, socket_path_fits


def _config(root: Path, *nodes: NodeSpec) -> AgentConfig:
    pki = root / "pki"
    return AgentConfig(
        root=root, server="https://127.0.0.1:1", ca_cert=pki, client_cert=pki, client_key=pki, kubelet_cert=pki,
        kubelet_key=pki, nodes=nodes, images={"a:b": ImageSpec(path=("/x",), env={"A": "1"})},
    )  # fmt: skip


def test_it_is_read_as_it_was_written_and_is_private(tmp_path: Path) -> None:
    """Would break: a setting that gets lost on the way to the agent."""
    node = NodeSpec(
        name="n-1", labels={"a": "b"}, taints=(TaintSpec(key="k"),), capacity=Capacity(accelerators={"x.y/z": 2})
    )
    config = _config(tmp_path, node)
    path = config.save()
    assert AgentConfig.load(tmp_path) == config
    assert path.stat().st_mode & 0o777 == 0o600
    assert node.capacity.resources()["x.y/z"] == "2"


def test_mistakes_are_named(tmp_path: Path) -> None:
    """Would break: a node file with a typing error is taken."""
    with pytest.raises(ValidationError, match="n-1 appears more than once"):
        _config(tmp_path, NodeSpec(name="n-1"), NodeSpec(name="n-1"))
    with pytest.raises(ValidationError, match="must be the name of a node"):
        NodeSpec(name="Upper")
    with pytest.raises(ValidationError, match="extra"):
        NodeSpec.model_validate({"name": "n", "label": {}})


def test_a_socket_has_a_longest_path() -> None:
    """Breaks if a cluster in a deep folder fails with the error of a socket instead of words."""
    assert socket_path_fits(Path("/tmp/x"))
    assert not socket_path_fits(Path("/tmp") / ("x" * 100))
