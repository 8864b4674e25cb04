"""What every part of a local cluster is doing."""

import json
import time
from typing import Any

import psutil
from pydantic import BaseModel, Field

from holdfast_local import access, processes
from holdfast_local.errors import LocalError
from holdfast_local.layout import Layout
from holdfast_local.processes import ProcessRecord, ProcessState
from holdfast_local.state import ClusterState, S3Access

_TAIL = 5
_PATIENCE = 5  # seconds that the API server has to answer


class PartStatus(BaseModel):
    """One process. `state` is running, paused or crashed; `log` has its last lines if it crashed.

    `uptime` is in seconds, `memory` in bytes (resident).
    """

    name: str
    state: str
    pid: int
    port: int | None = None
    uptime: float | None = None
    memory: int | None = None
    log_file: str
    log: list[str] = Field(default_factory=list)


class NodeStatus(BaseModel):
    """One Node object."""

    name: str
    ready: bool
    taints: list[str]
    capacity: dict[str, str]


class ClusterStatus(BaseModel):
    """The whole cluster. `healthy` means that every part runs and the API server answers.

    `network` is `shared` or `isolated`; `prometheus` is the URL of its API, empty without.
    """

    root: str
    phase: str
    server: str
    healthy: bool
    parts: list[PartStatus]
    nodes: list[NodeStatus] = Field(default_factory=list)
    api_error: str = ""
    s3: S3Access | None = None
    network: str = "shared"
    prometheus: str = ""


def read_status(state: ClusterState) -> ClusterStatus:
    """Look at every process, and ask the API server for its nodes (5 s at most)."""
    parts = [_part(record, state.ports) for record in state.processes.values()]
    nodes: list[NodeStatus] = []
    problem = ""
    try:
        # Not `get nodes`: before it, kubectl asks a server that does not answer five times for its API.
        request = ["get", "--raw", "/api/v1/nodes", f"--request-timeout={_PATIENCE}s"]
        answer = access.kubectl(Layout(state.config.root), request, None, _PATIENCE + 1)
        nodes = [_node(item) for item in json.loads(answer)["items"]]
    except LocalError as error:
        problem = str(error)
    healthy = state.phase == "ready" and not problem and all(part.state == ProcessState.RUNNING for part in parts)
    return ClusterStatus(
        root=str(state.config.root), phase=state.phase, server=state.server, healthy=healthy, parts=parts, nodes=nodes,
        api_error=problem, s3=state.s3, network=state.config.network, prometheus=state.prometheus,
    )  # fmt: skip


def _part(record: ProcessRecord, ports: dict[str, int]) -> PartStatus:
    port = ports.get("kubelet" if record.name == "agent" else record.name)
    part = PartStatus(name=record.name, state="crashed", pid=record.pid, port=port, log_file=str(record.log))
    state, process = processes.state(record), processes.find(record)
    if state is ProcessState.DEAD or process is None:
        return part.model_copy(update={"log": processes.log_tail(record, _TAIL)})
    try:
        memory = process.memory_info().rss
    except psutil.Error:
        memory = None
    uptime = max(0.0, time.time() - record.create_time)
    return part.model_copy(update={"state": state.value, "uptime": round(uptime, 1), "memory": memory})


def _node(item: dict[str, Any]) -> NodeStatus:
    taints = [f"{taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in item["spec"].get("taints", [])]
    status = item.get("status", {})
    return NodeStatus(
        name=item["metadata"]["name"],
        ready=any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", [])),
        taints=taints,
        capacity=status.get("capacity", {}),
    )
