"""Pods for tests of the node agent, and looks at what became of them."""

import json
import os
import socket
from pathlib import Path
from typing import Any

from tests.support.cluster.local_cluster import apply, exists, get, pod_log
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

PLAIN = "holdfast.dev/plain:local"
TRAINER = "holdfast.dev/trainer:local"


def container(script: str = "", name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container that runs a shell script. Kubernetes makes one dollar of two in a command, so two become four."""
    return {"name": name, "image": PLAIN, "command": ["sh", "-c", script.replace("$$", "$$$$")]} | fields


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod that is not restarted, with two seconds of grace."""
    body = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": list(containers)} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def server(name: str, port: int, **spec: Any) -> dict[str, Any]:
    """A pod that answers `GET /name` with its name, on its own address; it is ready when it does."""
    script = 'echo "$NAME" > name; exec python -m http.server --bind "$IP" "$PORT"'
    fields = {"NAME": "metadata.name", "IP": "status.podIP"}
    env: list[dict[str, Any]] = [
        {"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()
    ]
    env.append({"name": "PORT", "value": str(port)})
    probe = {"httpGet": {"path": "/name", "port": port}, "periodSeconds": 1}
    return pod(name, container(script, image=TRAINER, env=env, readinessProbe=probe), **spec)


def until_ready(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    """Wait until the first container is ready, and return the status."""

    def look() -> dict[str, Any]:
        seen = status(cluster, namespace, name)
        assert [one["ready"] for one in seen.get("containerStatuses") or ()] == [True], json.dumps(seen)
        return seen

    return wait_for(look, 20, f"pod {name} to be ready")


def run(cluster: Cluster, namespace: str, *pods: dict[str, Any]) -> None:
    """Create pods."""
    apply(cluster, *pods, namespace=namespace)


def status(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    """The status of a pod."""
    found: dict[str, Any] = get(cluster, f"pod/{name}", namespace).get("status", {})
    return found


def state(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    """The state of a pod's first container; empty before there is one."""
    containers = status(cluster, namespace, name).get("containerStatuses") or [{}]
    found: dict[str, Any] = containers[0].get("state", {})
    return found


def until_phase(cluster: Cluster, namespace: str, name: str, *phases: str) -> dict[str, Any]:
    """Wait for a phase, and return the status."""

    def look() -> dict[str, Any]:
        seen = status(cluster, namespace, name)
        assert seen.get("phase") in phases, json.dumps(seen)
        return seen

    return wait_for(look, 20, f"pod {name} to be {' or '.join(phases)}")


def until_waiting(cluster: Cluster, namespace: str, name: str, reason: str) -> dict[str, Any]:
    """Wait until the first container waits for that reason, and return its waiting state."""

    def look() -> dict[str, Any]:
        waiting: dict[str, Any] = state(cluster, namespace, name).get("waiting", {})
        assert waiting.get("reason") == reason, waiting
        return waiting

    return wait_for(look, 20, f"pod {name} to wait for {reason}")


def logs(cluster: Cluster, namespace: str, name: str, *options: str) -> str:
    """`kubectl logs`."""
    return cluster.kubectl("logs", name, "-n", namespace, *options)


def until_logged(cluster: Cluster, namespace: str, name: str, text: str) -> str:
    """Wait until the log of a running pod holds the text, and return the log."""
    until_phase(cluster, namespace, name, "Running", "Succeeded", "Failed")

    def look() -> str:
        seen = pod_log(cluster, name, namespace, "main")
        assert text in seen, seen
        return seen

    return wait_for(look, 20, f"{text!r} in the log of {name}")


def until_gone(cluster: Cluster, namespace: str, name: str) -> None:
    """Wait until the pod is not in the API."""
    wait_for(lambda: not exists(cluster, f"pod/{name}", namespace), 20, f"pod {name} to be gone")


def alive(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text[text.rindex(")") + 2] not in "ZX"


def until_dead(*pids: int) -> None:
    """Wait until none of the processes lives."""
    wait_for(lambda: not any(alive(pid) for pid in pids), 10, f"processes {pids} to end")


def order(cluster: Cluster, **fields: Any) -> dict[str, Any]:
    """One order on the agent's control socket, and its answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(os.fspath(cluster.root / "agent.sock"))
        connection.sendall(json.dumps(fields).encode() + b"\n")
        with connection.makefile() as lines:
            answer: dict[str, Any] = json.loads(lines.readline())
            return answer
