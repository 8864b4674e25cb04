"""The harness as a kubelet, where the moment has to be ours: a pod ends now, a node falls silent now."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import time
from typing import Any

from tests.bench.api import STRATEGIC, Api
from tests.bench.control_plane.kwok import node

VERDICT = {
    "v": 1,
    "outcome": "drained",
    "reason": "SavedAndLeft",
    "message": "notice to leave; saved",
    "exitCode": 0,
    "signal": None,
    "step": 100,
    "savedStep": 100,
    "lastLines": [],
}


def stamp() -> str:
    """Now, as the API writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


async def end_pod(api: Api, pod: dict[str, Any]) -> None:
    """A trainer has saved and left: its container ended with 0 and the launcher's verdict."""
    meta = pod["metadata"]
    status: dict[str, Any] = {
        "phase": "Succeeded",
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "reason": "Completed",
                        "message": json.dumps(VERDICT),
                        "startedAt": meta["creationTimestamp"],
                        "finishedAt": stamp(),
                    }
                },
            }
            for container in pod["spec"]["containers"]
        ],
    }
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
    await api.request("PATCH", path, {"status": status}, STRATEGIC)


async def lose_pod(api: Api, pod: dict[str, Any]) -> None:
    """The pod's node went down without notice: the pod has failed, and says that its node was the reason."""
    meta, now = pod["metadata"], stamp()
    ended = {"exitCode": 137, "reason": "Error", "startedAt": meta["creationTimestamp"], "finishedAt": now}
    lost = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "lastTransitionTime": now}
    status: dict[str, Any] = {
        "phase": "Failed",
        "conditions": [lost],
        "containerStatuses": [
            {
                "name": container["name"], "image": container["image"], "imageID": "", "ready": False,
                "restartCount": 0, "state": {"terminated": ended},
            }
            for container in pod["spec"]["containers"]
        ],
    }  # fmt: skip
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
    await api.request("PATCH", path, {"status": status}, STRATEGIC)


async def run_pod(api: Api, pod: dict[str, Any]) -> None:
    """All containers of a pod run."""
    meta, now = pod["metadata"], stamp()
    ready = [{"type": t, "status": "True", "lastTransitionTime": now} for t in ("Initialized", "Ready")]

    def state(container: dict[str, Any], what: dict[str, Any]) -> dict[str, Any]:
        name, image = container["name"], container["image"]
        return {"name": name, "image": image, "imageID": "", "ready": True, "restartCount": 0, "state": what}

    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    status = {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "startTime": now,
        "conditions": ready,
        "initContainerStatuses": [state(c, done) for c in pod["spec"].get("initContainers") or ()],
        "containerStatuses": [state(c, {"running": {"startedAt": now}}) for c in pod["spec"]["containers"]],
    }
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
    await api.request("PATCH", path, {"status": status}, STRATEGIC)


class Heartbeat:
    """What a node last said. `last` is in seconds since 1970."""

    def __init__(self) -> None:
        self.last = 0.0


@asynccontextmanager
async def beating(api: Api, name: str, group: str, every: float = 5.0) -> AsyncIterator[Heartbeat]:
    """A Ready node that renews its Lease until the block ends; then it says nothing any more."""
    created = await api.request("POST", "/api/v1/nodes", node(name, group, managed=False))
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": stamp(),
        "lastTransitionTime": stamp(),
    }
    await api.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}}, STRATEGIC)
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": created["metadata"]["uid"]}
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40}
    meta = {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]}
    await api.request("POST", leases, {"metadata": meta, "spec": spec})
    heartbeat = Heartbeat()

    async def beat() -> None:
        while True:
            now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            patch = {"spec": {"renewTime": now}}
            await api.request("PATCH", f"{leases}/{name}", patch, "application/merge-patch+json")
            heartbeat.last = time()
            await asyncio.sleep(every)

    task = asyncio.create_task(beat())
    try:
        yield heartbeat
    finally:
        task.cancel()
        await asyncio.wait({task})
