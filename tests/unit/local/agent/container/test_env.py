"""The environment of a container."""

import base64
from typing import Any

import pytest

from holdfast_local.agent.container import env
from holdfast_local.agent.container.downward import PodFacts
from holdfast_local.agent.errors import ApiError, EnvError

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a/b": "1"}, "annotations": {}},
    "spec": {
        "nodeName": "node",
        "serviceAccountName": "sa",
        "containers": [{"name": "main", "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1500m"}}}],
    },
}
FACTS = PodFacts(POD, "127.64.0.1", "127.0.0.1", {"cpu": "8", "memory": "32Gi"})


class Api:
    """One Secret and one ConfigMap, and a count of reads."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    async def get(self, path: str) -> dict[str, Any]:
        """GET one object."""
        self.reads.append(path)
        if path.endswith("/secrets/s"):
            return {"data": {"k": base64.b64encode(b"/data/secret").decode()}}
        if path.endswith("/configmaps/c"):
            return {"data": {"x": "1", "p": "/data/p"}, "binaryData": {"y": base64.b64encode(b"2").decode()}}
        raise ApiError(404, "NotFound", "not found")


async def _build(**container: Any) -> env.Environment:
    return await env.build({"name": "main"} | container, FACTS, env.Sources(Api(), "n"), {"IMAGE": "/data/of/image"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)$(B)y", "x12y"),
        ("$(NO)", "$(NO)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("$", "$"),
        ("a$$b", "a$b"),
    ],
)
def test_expansion_follows_the_rules_of_kubernetes(text: str, expected: str) -> None:
    """Would break: a command that Kubernetes reads differently."""
    assert env.expand(text, {"A": "1", "B": "2"}) == expected


async def test_order_and_sources() -> None:
    """Would break: a later variable that uses an earlier one."""
    found = await _build(
        envFrom=[{"configMapRef": {"name": "c"}}, {"prefix": "S_", "secretRef": {"name": "s"}}],
        env=[
            {"name": "x", "value": "$(x)$(y)"},
            {"name": "late", "value": "$(later)"},
            {"name": "later", "value": "z"},
        ],
    )
    assert found.resolve() == {
        "IMAGE": "/data/of/image",
        "x": "12",
        "y": "2",
        "p": "/data/p",
        "S_k": "/data/secret",
        "late": "$(later)",
        "later": "z",
    }


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"env": [{"name": "A", "value": "/data/x"}]}, {"A": "/real/x"}),
        ({"env": [{"name": "A", "value": "$(IMAGE):/data"}]}, {"A": "/data/of/image:/real"}),
        ({"env": [{"name": "A", "value": "/data"}, {"name": "B", "value": "$(A)/x"}]}, {"A": "/real", "B": "/real/x"}),
        ({"env": [{"name": "A", "value": "/data"}, {"name": "A", "value": "x"}]}, {"A": "x"}),
        ({"env": [{"name": "IMAGE", "value": "/data"}]}, {"IMAGE": "/real"}),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, {"A": "/data/secret"}),
        ({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "p"}}}]}, {"A": "/real/p"}),
        ({"envFrom": [{"prefix": "S_", "secretRef": {"name": "s"}}]}, {"S_k": "/data/secret"}),
    ],
)
async def test_only_what_the_pod_wrote_is_rewritten(container: dict[str, Any], expected: dict[str, str]) -> None:
    """Would break: an image's PYTHONPATH below a mount path of the pod, or a secret that looks like one."""
    found = await _build(**container)
    assert found.resolve(lambda text: text.replace("/data", "/real")) == {"IMAGE": "/data/of/image"} | expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"secretKeyRef": {"name": "no", "key": "k"}}, 'secret "no" not found'),
        ({"configMapKeyRef": {"name": "no", "key": "k"}}, 'configmap "no" not found'),
        ({"secretKeyRef": {"name": "s", "key": "no"}}, "couldn't find key no in Secret n/s"),
        ({"configMapKeyRef": {"name": "c", "key": "no"}}, "couldn't find key no in ConfigMap n/c"),
        ({"fieldRef": {"fieldPath": "spec.nope"}}, "unsupported fieldPath: spec.nope"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "no"}}, "container no not found"),
        ({"fileKeyRef": {}}, "env A: valueFrom fileKeyRef is not supported in the local cluster"),
    ],
)
async def test_what_is_missing_is_named_as_a_kubelet_names_it(source: dict[str, Any], message: str) -> None:
    """Would break: the operator's reading of CreateContainerConfigError."""
    with pytest.raises(EnvError, match=message.replace("(", "\\(")):
        await _build(env=[{"name": "A", "valueFrom": source}])


async def test_optional_sources_may_be_missing() -> None:
    """Would break: credentials that are allowed to be absent (AWS_SESSION_TOKEN)."""
    optional = [{"secretKeyRef": {"name": name, "key": "no", "optional": True}} for name in ("no", "s")]
    found = await _build(
        env=[{"name": f"A{index}", "valueFrom": source} for index, source in enumerate(optional)],
        envFrom=[{"configMapRef": {"name": "no", "optional": True}}],
    )
    assert found.resolve() == {"IMAGE": "/data/of/image"}


async def test_an_object_is_read_once() -> None:
    """Would break: one request for each of twenty variables."""
    api = Api()
    source = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    await env.build(
        {"name": "main", "env": [{"name": "A"} | source, {"name": "B"} | source]}, FACTS, env.Sources(api, "n"), {}
    )
    assert len(api.reads) == 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.labels['a/b']", "1"),
        ("metadata.annotations['none']", ""),
        ("metadata.labels", 'a/b="1"'),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields(path: str, expected: str) -> None:
    """Would break: what a pod knows of itself."""
    assert FACTS.field(path) == expected


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ({"resource": "requests.cpu"}, "2"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "limits.cpu"}, "8"),
        ({"resource": "requests.memory"}, "0"),
        ({"resource": "limits.cpu", "divisor": "0"}, "8"),
    ],
)
def test_resources_are_rounded_up_and_default_to_the_node(ref: dict[str, str], expected: str) -> None:
    """Would break: a thread count of 1 on 1.5 CPUs."""
    assert FACTS.resource(ref, {"name": "main"}) == expected
