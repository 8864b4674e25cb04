"""What a kubelet says of a pod, from its creation to its end: the same pods for simulated and for real ones.

tests/data/kubelet_answers.json has what the real kubelet said; both kinds are held against it.
"""

import json
from pathlib import Path
from typing import Any, Final

from tests.support.cluster.agent_pods import pod
from tests.support.cluster.local_cluster import apply, delete, pod_log, watch
from tests.support.waiting import on_a_busy_machine, wait_for

from holdfast_local.cluster import Cluster

RECORDED: Final = Path(__file__).resolve().parents[2] / "data" / "kubelet_answers.json"
Raw = dict[str, Any]


def _container(script: str, name: str = "main", **fields: Any) -> Raw:
    return {"name": name, "command": ["sh", "-c", script]} | fields


_SMALL = {"resources": {"limits": {"memory": "30Mi"}}}
_WAITS = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done"

# Each container runs for some time: a kubelet does not see everything that is over within a second.
PODS: Final[dict[str, Raw]] = {
    "ends with 0": pod("p", _container("sleep 2; exit 0")),
    "ends with 3": pod("p", _container("sleep 2; exit 3")),
    "takes more memory than its limit": pod("p", _container("", command=["tail", "/dev/zero"], **_SMALL)),
    "leaves a message": pod("p", _container("echo because > /dev/termination-log; sleep 2; exit 1")),
    "has a command that is not there": pod("p", _container("", command=["/no/such/program"])),
    "has an image that is not there": pod("p", _container("sleep 2; exit 0", image="holdfast.test/none:1")),
    "has an init container that fails": pod(
        "p", _container("sleep 2; exit 0"), initContainers=[_container("sleep 2; exit 7", "first")]
    ),
    "has an init container that ends well": pod(
        "p", _container("sleep 2; exit 0"), initContainers=[_container("sleep 2; exit 0", "first")]
    ),
    "has two containers of which one fails": pod("p", _container("sleep 2; exit 1"), _container("sleep 6", "other")),
    "has a sidecar": pod(
        "p", _container("sleep 2; exit 0"), initContainers=[_container(_WAITS, "beside", restartPolicy="Always")]
    ),
    "is deleted and ends with 0": pod("p", _container(_WAITS)),
    "is deleted and has to be killed": pod("p", _container("trap '' TERM; echo ready; while :; do sleep 0.1; done")),
    "takes longer than it may": pod("p", _container(_WAITS), activeDeadlineSeconds=2),
}


def answers(cluster: Cluster, namespace: str, name: str, image: str) -> list[str]:
    """What is said of a pod of PODS until its end, each change once; `image` is one with a shell.

    Deletes the pods whose name says so once they run. A pod whose image is not there has no end: its wait is the last.
    """
    manifest = json.loads(json.dumps(PODS[name]))
    spec = manifest["spec"]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container.setdefault("image", image)
        container["imagePullPolicy"] = "IfNotPresent"
    told, deleted = "is deleted" in name, False
    found: list[str] = []
    events = watch(cluster, "pod", namespace, on_a_busy_machine(30))
    apply(cluster, manifest, namespace=namespace)
    for event in events:
        line = _line(event["object"]) if event["type"] != "DELETED" else "gone"
        if line and line not in found[-1:]:
            found.append(line)
        if told and not deleted and "main running" in line:
            deleted = True
            wait_for(lambda: "ready" in pod_log(cluster, "p", namespace, "main"), 20, "the program's own handler")
            delete(cluster, "pod/p", namespace)
        final = event["object"]["status"].get("phase") in ("Succeeded", "Failed")
        if line == "gone" or "ImagePullBackOff" in line or (final and not told):
            break
    return found


def _line(pod: Raw) -> str:
    """`Running: main terminated Completed 0; Ready False PodCompleted`; empty before a kubelet has looked at it."""
    status = pod["status"]
    states = [
        f"{one['name']} {_state(one['state'])}"
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in status.get(kind) or ()
    ]
    if not states:
        return ""
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    reason = f" {status['reason']}" if status.get("reason") else ""
    told = " (being deleted)" if pod["metadata"].get("deletionTimestamp") else ""
    parts = [*states, f"Ready {ready['status']} {ready.get('reason') or ''}".rstrip()]
    return f"{status['phase']}{reason}{told}: {'; '.join(parts)}"


def _state(state: Raw) -> str:
    ((kind, more),) = state.items()
    words = [kind, more.get("reason"), more.get("exitCode"), repr(more["message"]) if _is_own(more) else None]
    return " ".join(str(word) for word in words if word is not None)


def _is_own(terminated: Raw) -> bool:
    """If the message is the container's own: the words of a runtime differ from version to version."""
    return "message" in terminated and terminated.get("reason") in ("Completed", "Error")
