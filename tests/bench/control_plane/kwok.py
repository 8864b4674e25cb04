"""Simulated nodes and pods: KWOK with stages of our own."""

import asyncio
from pathlib import Path
from typing import Any, Self

import yaml
from tests.bench.api import Api
from tests.bench.control_plane.controller_process import ControllerProcess
from tests.bench.waiting import until
from tests.support.tools.catalogue import KWOK

from holdfast_local import toolchain
from holdfast_local.cluster import Cluster

MANAGED = "kwok.x-k8s.io/node"
GROUP = "bench.holdfast.dev/group"
GPU = "nvidia.com/gpu"
LEASE_SECONDS = 40  # renewed every quarter of it
STOPS_AFTER = 5000  # milliseconds from the deletion of a pod to its end

_CONDITION = "{{ range NodeConditions }}\n- type: {{ .type | Quote }}\n  status: {{ .status | Quote }}\n"
_CONDITION += "  reason: {{ .reason | Quote }}\n  message: {{ .message | Quote }}\n"
_CONDITION += "  lastHeartbeatTime: {{ Now | Quote }}\n  lastTransitionTime: {{ Now | Quote }}\n{{ end }}\n"

_NODE_READY = f"conditions:\n{_CONDITION}phase: Running\n"

_POD_RUNNING = """
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ Now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ Now | Quote }}}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state:
    terminated: {exitCode: 0, reason: Completed, startedAt: {{ Now | Quote }}, finishedAt: {{ Now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state:
    running: {startedAt: {{ Now | Quote }}}
{{ end }}
phase: Running
podIP: 127.0.0.1
startTime: {{ Now | Quote }}
"""

_POD_ENDED = """
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  restartCount: 0
  state:
    terminated: {exitCode: 143, reason: Error, finishedAt: {{ Now | Quote }}}
{{ end }}
phase: Failed
"""


def _where(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _stage(name: str, kind: str, where: list[dict[str, Any]], then: dict[str, Any], delay: int = 0) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": where},
        "next": then,
    }
    if delay:
        spec["delay"] = {"durationMilliseconds": delay}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def stages() -> list[dict[str, Any]]:
    """A node is ready at once; a pod runs once it is on a node, ends 5 s after its deletion, and is then removed.

    The removal is a kubelet's: a DELETE with no grace, after which finalizers may still hold the object.
    """
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    deleted, phase = ".metadata.deletionTimestamp", ".status.phase"
    removed = ".metadata.deletionGracePeriodSeconds == 0"
    return [
        _stage("node-ready", "Node", [_where(ready, "NotIn", "True")], {"statusTemplate": _NODE_READY}),
        _stage(
            "pod-running",
            "Pod",
            [_where(deleted, "DoesNotExist"), _where(phase, "In", "Pending"), _where(ready, "NotIn", "True")],
            {"statusTemplate": _POD_RUNNING},
        ),
        _stage(
            "pod-ends",
            "Pod",
            [_where(deleted, "Exists"), _where(phase, "In", "Running")],
            {"statusTemplate": _POD_ENDED},
            STOPS_AFTER,
        ),
        _stage(
            "pod-removed",
            "Pod",
            [_where(deleted, "Exists"), _where(phase, "NotIn", "Running"), _where(removed, "NotIn", "true")],
            {"delete": True},
        ),
    ]


class Kwok(ControllerProcess):
    """The KWOK process; use it as a context manager."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._binary = toolchain.build(KWOK)

    def __enter__(self) -> Self:
        folder = self._cluster.root / "kwok"
        folder.mkdir(exist_ok=True)
        config = folder / "stages.yaml"
        config.write_text(yaml.safe_dump_all(stages(), sort_keys=False), encoding="utf-8")
        command = [
            str(self._binary),
            f"--kubeconfig={self._cluster.admin_kubeconfig}",
            f"--config={config}",
            f"--manage-nodes-with-annotation-selector={MANAGED}=fake",
            f"--node-lease-duration-seconds={LEASE_SECONDS}",
        ]
        self._start(command, folder, {"HOME": str(folder)})
        return self

    @property
    def log(self) -> Path:
        """What KWOK says."""
        return self._cluster.root / "kwok" / "kwok.log"


def node(name: str, group: str, *, managed: bool = True) -> dict[str, Any]:
    """A large node that pods of `group` can select. KWOK leaves it alone unless it is `managed`."""
    capacity = {"cpu": "1000", "memory": "4Ti", "pods": "2000", GPU: "2000"}
    annotations = {MANAGED: "fake"} if managed else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {GROUP: group, "kubernetes.io/hostname": name},
            "annotations": annotations,
        },
        "status": {"capacity": capacity, "allocatable": capacity},
    }


async def add_nodes(api: Api, names: list[str], group: str) -> None:
    """Create nodes and wait until all of them are Ready and free of taints. Raises TimeoutError."""
    await asyncio.gather(*(api.request("POST", "/api/v1/nodes", node(name, group)) for name in names))
    seconds = 30 + len(names) / 4
    for name in names:
        await until(lambda name=name: _usable(api, name), seconds, f"node {name} to be ready")  # type: ignore[misc]


async def _usable(api: Api, name: str) -> bool:
    found = await api.request("GET", f"/api/v1/nodes/{name}")
    conditions = {c["type"]: c["status"] for c in found.get("status", {}).get("conditions") or ()}
    return conditions.get("Ready") == "True" and not found["spec"].get("taints")


async def give_notice(api: Api, name: str) -> None:
    """Announce the node's end as a spot interruption does: with a taint."""
    taint = {"key": "aws-node-termination-handler/spot-itn", "value": "bench", "effect": "NoSchedule"}
    patch = {"spec": {"taints": [taint]}}
    await api.request("PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json")


async def evict(api: Api, namespace: str, pod: str) -> None:
    """Evict a pod through the API, which marks it as disrupted."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    await api.request("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", body)
