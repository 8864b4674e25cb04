"""A wrong configuration is refused before anything is started, in words that name the field."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast_local.agent.config import NodeSpec, Timings
from holdfast_local.config import DEFAULT_NODES, ClusterConfig, load_nodes
from holdfast_local.errors import ConfigError
from holdfast_local.state import ClusterState


def test_the_default_layout_is_two_spot_one_dedicated_one_cpu() -> None:
    tiers = {node.name: node.labels["holdfast.dev/tier"] for node in DEFAULT_NODES}
    gpus = {node.name: node.capacity.accelerators.get("nvidia.com/gpu", 0) for node in DEFAULT_NODES}
    assert tiers == {"spot-1": "spot", "spot-2": "spot", "dedicated-1": "dedicated", "cpu-1": "cpu"}
    assert gpus == {"spot-1": 1, "spot-2": 1, "dedicated-1": 1, "cpu-1": 0}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ports": {"kube-api": 1}}, "kube-api is not known: use etcd"),
        ({"ports": {"s3": 70000}}, "s3: 70000 is not a port"),
        ({"extra_args": {"kubelet": ["--v=5"]}}, "kubelet is not known"),
        ({"timings": Timings(lease=6, node_grace=6)}, "must be shorter than node_grace"),
        ({"nodes": (NodeSpec(name="a"), NodeSpec(name="a"))}, "a appears more than once"),
        ({"root": Path("/" + "x" * 120)}, "choose a shorter path"),
        ({"pod_security": "strict"}, "'privileged', 'baseline' or 'restricted'"),
        ({"network": "bridged"}, "'shared' or 'isolated'"),
        ({"network": "isolated", "nodes": [{"name": f"n-{i}"} for i in range(32)]}, "32 are too many: .* 31 at most"),
        ({"network": "isolated", "nodes": [{"name": "n", "capacity": {"pods": 251}}]}, "n: capacity.pods is 251"),
        ({"nods": ()}, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_field_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ClusterConfig.model_validate(fields)


def test_the_root_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert ClusterConfig(root=Path("c/../d")).root == tmp_path / "d"


# Breaks if the example in the repository is refused, or its nodes are not what its comments say.
def test_the_example_has_eight_nodes_in_two_zones() -> None:
    nodes = load_nodes(Path(__file__).parents[3] / "examples/nodes/eight-nodes.yaml")
    assert len(nodes) == 8
    assert {node.labels["topology.kubernetes.io/zone"] for node in nodes} == {"zone-a", "zone-b"}
    assert [node.name for node in nodes if node.standby] == ["cpu-2"]
    assert [node.name for node in nodes if node.taints] == ["dedicated-1", "dedicated-2"]
    assert nodes[0].capacity.resources() | {"pods": "110"} == {
        "cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi", "nvidia.com/gpu": "8",
    }  # fmt: skip


def test_nodes_are_read_from_yaml(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(
        "- name: a100-1\n"
        "  labels: {zone: x}\n"
        "  taints: [{key: gpu, effect: NoSchedule}]\n"
        "  capacity: {cpu: '96', accelerators: {nvidia.com/gpu: 8}}\n"
    )
    (node,) = load_nodes(file)
    assert node.name == "a100-1"
    assert node.capacity.resources()["nvidia.com/gpu"] == "8"
    assert node.taints[0].key == "gpu"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a list of nodes"),
        ("name: a", "must be a list of nodes"),
        ("- [", "is not YAML"),
        ("- {labels: {}}", r"\[0\].name: Field required"),
        ("- {name: A_b}", r"\[0\].name: .*must be the name of a node: lower-case letters.* \(given: 'A_b'\)"),
        (f"- {{name: {'a' * 64}}}", r"\[0\].name: .*of 1 to 63 characters"),
        ("- {name: a, labels: {gpu: 8}}", r"\[0\].labels.gpu: 8: must be the value of a label"),
        ("- {name: a, labels: {zone: west 1}}", r"\[0\].labels.zone: .*must be the value of a label.*'west 1'"),
        ("- {name: a, labels: {-x: b}}", r"\[0\].labels.-x.*must be the key of a label"),
        ("- {name: a, capacity: {cpu: many}}", r"\[0\].capacity.cpu: .*must be a quantity.* \(given: 'many'\)"),
        ("- {name: a, capacity: {memory: 0}}", r"\[0\].capacity.memory: must be more than 0 \(given: 0\)"),
        ("- {name: a, capacity: {accelerators: {gpu: 8}}}", r"\[0\].capacity.accelerators.gpu.*with its domain"),
        ("- {name: a, capacity: {accelerators: {x.y/z: -1}}}", r"accelerators.x.y/z: .*greater than or equal to 0"),
        ("- {name: a, capacity: {cpus: 3}}", r"\[0\].capacity.cpus: is not a known field"),
        ("- {name: a, capacity: {pods: 0}}", r"\[0\].capacity.pods: .*greater than or equal to 1"),
        ("- {name: a, taints: [{key: k, effect: Never}]}", r"\[0\].taints\[0\].effect"),
        ("- {name: a}\n- {name: a}", "a appears more than once"),
    ],
)
def test_a_wrong_node_file_names_the_field(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        load_nodes(file)
    assert str(file) in str(caught.value)


def test_a_missing_node_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_nodes(tmp_path / "none.yaml")


def test_a_configuration_survives_its_state_file(tmp_path: Path) -> None:
    config = ClusterConfig(root=tmp_path / "c", timings=Timings(node_grace=9), extra_args={"s3": ["--debug"]})
    config.root.mkdir()
    ClusterState(config=config, server="https://127.0.0.1:1", ports={}, tools={}).save()
    assert ClusterState.load(config.root).config == config
