"""Whether a node takes a pod."""

from typing import Any

import pytest

from holdfast_local.agent.admission import admit, requests

ALLOCATABLE = {"cpu": "8", "memory": "32Gi", "pods": "2", "nvidia.com/gpu": "1"}
LABELS = {"tier": "spot", "size": "7"}


def _pod(*containers: dict[str, str], init: list[dict[str, str]] | None = None, **spec: Any) -> dict[str, Any]:
    def make(wanted: dict[str, str]) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": wanted}}

    body = {"containers": [make(one) for one in containers], "initContainers": [make(one) for one in init or []]}
    return {"metadata": {"name": "p"}, "spec": body | spec}


def _reason(pod: dict[str, Any], active: list[dict[str, Any]] | None = None) -> str | None:
    refused = admit(pod, active or [], ALLOCATABLE, LABELS, "node-1")
    return refused.reason if refused else None


def test_requests_are_the_sum_or_the_largest_init_container() -> None:
    """Would break: a pod that fits is refused, or the other way round."""
    found = requests(_pod({"cpu": "1"}, {"cpu": "500m"}, init=[{"cpu": "3"}, {"memory": "1Ki"}]))
    assert {name: str(value) for name, value in found.items()} == {"cpu": "3", "memory": "1024", "pods": "1"}


def test_a_limit_without_a_request_is_a_request() -> None:
    """Would break: accelerators, which are given as limits."""
    pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}}
    assert _reason(pod) == "OutOfnvidia.com/gpu"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"cpu": "8"}, None),
        ({"cpu": "8001m"}, "OutOfcpu"),
        ({"memory": "33Gi"}, "OutOfmemory"),
        ({"nvidia.com/gpu": "2"}, "OutOfnvidia.com/gpu"),
        ({"amd.com/gpu": "1"}, "OutOfamd.com/gpu"),
        ({"amd.com/gpu": "0"}, None),
    ],
)
def test_one_pod_on_an_empty_node(wanted: dict[str, str], reason: str | None) -> None:
    """Would break: OutOf... reasons."""
    assert _reason(_pod(wanted)) == reason


def test_what_others_use_counts() -> None:
    """Would break: one accelerator given twice; the numbers people read."""
    other = _pod({"nvidia.com/gpu": "1", "cpu": "7500m"})
    assert _reason(_pod({"nvidia.com/gpu": "1"}), [other]) == "OutOfnvidia.com/gpu"
    assert _reason(_pod({}), [other, other]) == "OutOfpods"
    refused = admit(_pod({"cpu": "1"}), [other], ALLOCATABLE, LABELS, "node-1")
    assert refused is not None
    assert refused.message == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 7500, capacity: 8000"
    )


def _term(key: str, operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": key, "operator": operator, "values": list(values)}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"tier": "spot"}}, True),
        ({"nodeSelector": {"tier": "cpu"}}, False),
        ({"affinity": _term("tier", "In", "spot", "cpu")}, True),
        ({"affinity": _term("tier", "In", "cpu")}, False),
        ({"affinity": _term("none", "NotIn", "x")}, True),
        ({"affinity": _term("tier", "NotIn", "spot")}, False),
        ({"affinity": _term("tier", "Exists")}, True),
        ({"affinity": _term("tier", "DoesNotExist")}, False),
        ({"affinity": _term("size", "Gt", "6")}, True),
        ({"affinity": _term("size", "Lt", "7")}, False),
        ({"affinity": _term("tier", "Gt", "6")}, False),
        (
            {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
                }
            },
            False,
        ),
    ],
)
def test_selector_and_affinity(spec: dict[str, Any], fits: bool) -> None:
    """Would break: a pod bound by hand to the wrong tier runs there."""
    assert _reason(_pod({}, **spec)) == (None if fits else "NodeAffinity")


def test_what_the_local_cluster_cannot_run_is_said() -> None:
    """Would break: a hostPath volume that is silently empty; a sidecar that blocks its pod for ever."""
    assert _reason(_pod({}, volumes=[{"name": "v", "hostPath": {"path": "/"}}])) == "HostPathNotAllowed"
    sidecar = _pod({})
    sidecar["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always"}]
    assert _reason(sidecar) == "SidecarNotSupported"
