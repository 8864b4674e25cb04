"""The Node object of a simulated node: registration, Lease, conditions, taints."""

import asyncio
import logging
import os
import platform
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast_local.agent.api import MERGE, STRATEGIC, Backoff, insist
from holdfast_local.agent.config import NodeSpec
from holdfast_local.agent.container.container import Machine
from holdfast_local.agent.errors import AgentError, ApiError, ApiUnreachableError
from holdfast_local.agent.status import micro_timestamp, timestamp

Object = dict[str, Any]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NODES = "/api/v1/nodes"

_TAINT_TRIES = 8

_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NodeFacts:
    """What every node says of itself: the kubelet port, and the version of the control plane."""

    kubelet_port: int
    version: str


class Heartbeat:
    """Keeps one Node object and its Lease."""

    def __init__(self, spec: NodeSpec, machine: Machine, facts: NodeFacts) -> None:
        self._spec = spec
        self._machine = machine
        self._facts = facts
        self._api = machine.api
        self._node_uid = ""
        self._status_now = asyncio.Event()
        self._boot = uuid.uuid4().hex
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        self._architecture = architecture
        self.own_labels = {
            "kubernetes.io/hostname": spec.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture,
        }

    @property
    def _path(self) -> str:
        return f"{NODES}/{self._spec.name}"

    async def register(self, *, fresh: bool) -> None:
        """Create the Node, or take over the one that is there; wait for the API server as long as it takes."""
        self._boot = uuid.uuid4().hex
        if fresh:
            await self.delete_node()
        taints = [taint.model_dump(exclude_defaults=False) for taint in self._spec.taints]
        metadata = {"name": self._spec.name, "labels": {**self._spec.labels, **self.own_labels}}
        body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": self._status({})}
        if taints:
            body["spec"] = {"taints": taints}
        try:
            node = await insist(lambda: self._api.create(NODES, body))
        except ApiError as err:
            if err.status != 409:
                raise
            labels = {"metadata": {"labels": metadata["labels"]}}
            node = await insist(lambda: self._api.patch(self._path, labels, MERGE))
        self._node_uid = node["metadata"]["uid"]
        await insist(self._write_status)
        await insist(self._write_lease)

    async def delete_node(self) -> None:
        """Remove the Node object and its Lease, if they are there."""
        for path in (self._path, f"{LEASES}/{self._spec.name}"):
            try:
                await insist(lambda path=path: self._api.delete(path))  # type: ignore[misc]
            except ApiError as err:
                if err.status != 404:
                    raise

    async def add_taint(self, taint: Object, annotations: Mapping[str, str]) -> None:
        """Add a taint and annotations to the Node. Raises AgentError where the API server does not take them."""
        backoff = Backoff()
        problem: AgentError | None = None
        for _ in range(_TAINT_TRIES):
            try:
                node = await self._api.get(self._path)
                taints = node["spec"].get("taints") or []
                if taint in taints:  # an earlier try arrived after all
                    return
                version = node["metadata"]["resourceVersion"]
                meta = {"resourceVersion": version, "annotations": dict(annotations)}
                patch = {"metadata": meta, "spec": {"taints": [*taints, taint]}}
                await self._api.patch(self._path, patch, MERGE)
            except ApiUnreachableError as err:
                problem = err
                await asyncio.sleep(backoff.take())
            except ApiError as err:
                if err.status != 409:  # 409: another client wrote the node in between
                    raise
                problem = err
            else:
                return
        raise AgentError(f"node {self._spec.name}: the taint {taint['key']} could not be set: {problem}")

    async def renew_lease(self) -> None:
        """Renew the Lease for ever."""
        await self._repeat(self._write_lease, self._machine.config.timings.lease, recovered=self._status_now.set)

    async def keep_status(self) -> None:
        """Write the conditions for ever: at their period, and at once when the API server is back."""
        while True:
            try:
                async with asyncio.timeout(self._machine.config.timings.status):
                    await self._status_now.wait()
            except TimeoutError:
                pass
            self._status_now.clear()
            try:
                await self._write_status()
            except AgentError as err:
                log.warning("status of node %s not written: %s", self._spec.name, err)

    async def _repeat(
        self, work: Callable[[], Awaitable[Object]], period: float, *, recovered: Callable[[], None]
    ) -> None:
        backoff = Backoff(0.1, period)
        broken = False
        while True:
            try:
                await work()
                if broken:
                    recovered()
                broken = False
                backoff.reset()
                await asyncio.sleep(period)
            except AgentError as err:
                broken = True
                log.warning("lease of node %s not renewed: %s", self._spec.name, err)
                await asyncio.sleep(backoff.take())

    async def _write_lease(self) -> Object:
        now = micro_timestamp(datetime.now(UTC))
        path = f"{LEASES}/{self._spec.name}"
        try:
            return await self._api.patch(path, {"spec": {"renewTime": now}}, MERGE)
        except ApiError as err:
            if err.status != 404:
                raise
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._spec.name, "uid": self._node_uid}
        seconds = max(1, round(self._machine.config.timings.node_grace))
        return await self._api.create(
            LEASES,
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._spec.name, "ownerReferences": [owner]},
                "spec": {"holderIdentity": self._spec.name, "leaseDurationSeconds": seconds, "renewTime": now},
            },
        )

    async def _write_status(self) -> Object:
        try:
            node = await self._api.get(self._path)
        except ApiError as err:
            if err.status == 404:
                # Somebody deleted the Node. A kubelet does not register again while it runs, and neither do we.
                log.warning("node %s is not in the API any more", self._spec.name)
                return {}
            raise
        before = {one["type"]: one for one in (node.get("status") or {}).get("conditions") or []}
        return await self._api.patch(self._path + "/status", {"status": self._status(before)}, STRATEGIC)

    def _status(self, before: dict[str, Object]) -> Object:
        now = timestamp(datetime.now(UTC))
        conditions = []
        for kind, value, reason, message in _CONDITIONS:
            old = before.get(kind) or {}
            since = old.get("lastTransitionTime", now) if old.get("status") == value else now
            row = {"type": kind, "status": value, "reason": reason, "message": message}
            conditions.append(row | {"lastHeartbeatTime": now, "lastTransitionTime": since})
        resources = self._spec.capacity.resources()
        return {
            "capacity": resources,
            "allocatable": resources,
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": self._machine.network.address},
                {"type": "Hostname", "address": self._spec.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._facts.kubelet_port}},
            # For kubectl exec and holdfast exec: the API server passes their WebSockets on, and translates none.
            "declaredFeatures": ["ExtendWebSocketsToKubelet"],
            "nodeInfo": {
                "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, self._spec.name).hex,
                "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_DNS, self._spec.name)),
                "bootID": self._boot,
                "kernelVersion": platform.release(),
                "osImage": "Holdfast local cluster (no containers)",
                "containerRuntimeVersion": "holdfast-process://1",
                "kubeletVersion": self._facts.version,
                "kubeProxyVersion": "",
                "operatingSystem": os.uname().sysname.lower(),
                "architecture": self._architecture,
            },
        }
