"""The status of a pod as a kubelet writes it. Pure: the state of the containers in, the object out."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

MESSAGE_BYTES = 4096
FALLBACK_BYTES = 2048
FALLBACK_LINES = 80


@dataclass(frozen=True)
class Waiting:
    """A container that does not run yet, and why."""

    reason: str
    message: str = ""


@dataclass(frozen=True)
class Running:
    """A container that runs since then."""

    started_at: datetime


START_ERROR = "StartError"


@dataclass(frozen=True)
class Terminated:
    """A container that ended."""

    exit_code: int
    reason: str
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""

    @property
    def has_run(self) -> bool:
        """False for a container whose program could not be started."""
        return self.reason != START_ERROR


@dataclass
class ContainerState:
    """What is known of one container of a pod."""

    spec: Object
    state: Waiting | Running | Terminated
    container_id: str = ""
    ready: bool = False
    restarts: int = 0
    last: Terminated | None = None

    @property
    def name(self) -> str:
        """The container's name in the pod."""
        return str(self.spec["name"])


@dataclass
class PodState:
    """What is known of one pod."""

    pod: Object
    init: list[ContainerState]
    containers: list[ContainerState]
    pod_ip: str = ""
    host_ip: str = ""
    started_at: datetime | None = None
    sandbox: bool = False  # volumes and network are there
    stopped: bool = False  # its node ends it
    terminal: bool = False  # nothing of it will run again
    lost: bool = False  # its containers ended unseen
    reason: str = ""
    message: str = ""
    transitions: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether its end is reported: where its node ends it, with the end of its containers, otherwise later."""
        ended = [isinstance(one.state, Terminated) for one in self.containers]
        return self.terminal or (self.stopped and bool(ended) and all(ended))


def timestamp(when: datetime) -> str:
    """A Kubernetes Time: UTC, whole seconds."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(when: datetime) -> str:
    """A Kubernetes MicroTime."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def clip(data: bytes, limit: int) -> str:
    """The first bytes as text."""
    return data[:limit].decode("utf-8", errors="replace")


def image_id(name: str) -> str:
    """A stable image ID for an image that is only a name."""
    return "holdfast.local@sha256:" + hashlib.sha256(name.encode()).hexdigest()


def initialized(pod: PodState) -> bool:
    """Whether every init container has done its work."""
    return pod.sandbox and all(isinstance(one.state, Terminated) and one.state.exit_code == 0 for one in pod.init)


def phase(pod: PodState) -> str:
    """The phase. A kubelet gives the final one only when it has seen that nothing of the pod can run any more."""
    if pod.over:
        return _outcome(pod) or "Failed"  # it had to end before all of it had started
    if not initialized(pod):
        return "Pending"
    ended = [one.state for one in pod.containers if isinstance(one.state, Terminated)]
    if any(state.has_run for state in ended) or any(one.last for one in pod.containers):
        return "Running"
    return "Running" if all(isinstance(one.state, Running) for one in pod.containers) else "Pending"


def _outcome(pod: PodState) -> str | None:
    """The final phase that the pod has, or will have; None if a container of it is still to run."""
    if (pod.reason or pod.lost) and pod.over:
        return "Failed"
    policy = pod.pod["spec"].get("restartPolicy", "Always")
    if not initialized(pod):
        failed = any(isinstance(one.state, Terminated) and one.state.exit_code != 0 for one in pod.init)
        return "Failed" if pod.over or (failed and policy == "Never") else None
    ended = [one.state for one in pod.containers if isinstance(one.state, Terminated)]
    if len(ended) < len(pod.containers):
        return None
    good = all(state.exit_code == 0 for state in ended)
    if pod.over or policy == "Never":
        return "Succeeded" if good else "Failed"
    return "Succeeded" if good and policy == "OnFailure" else None


def build(pod: PodState, now: datetime) -> Object:
    """The status to write. `pod.transitions` remembers when each condition last changed."""
    status: Object = {"phase": phase(pod), "conditions": _conditions(pod, now)}
    if pod.started_at is not None:
        status["startTime"] = timestamp(pod.started_at)
    for key, value in (("reason", pod.reason), ("message", pod.message)):
        if value and pod.over:
            status[key] = value
    if pod.host_ip:
        status |= {"hostIP": pod.host_ip, "hostIPs": [{"ip": pod.host_ip}]}
    if pod.pod_ip and pod.sandbox:
        status |= {"podIP": pod.pod_ip, "podIPs": [{"ip": pod.pod_ip}]}
    if pod.init:
        status["initContainerStatuses"] = [_container(one, pod, init=True) for one in pod.init]
    status["containerStatuses"] = [_container(one, pod, init=False) for one in pod.containers]
    return status


def _conditions(pod: PodState, now: datetime) -> list[Object]:
    outcome = _outcome(pod)
    done, over = outcome == "Succeeded", phase(pod) in ("Succeeded", "Failed")
    # A pod that has to end is unready before its containers have ended.
    fails = outcome == "Failed" or bool(pod.reason)
    ready = all(one.ready for one in pod.containers) and not pod.over and not fails
    unready = ", ".join(one.name for one in pod.containers if not one.ready)
    why = "" if ready else "PodCompleted" if done else "ContainersNotReady"
    words = "" if ready or done else f"containers with unready status: [{unready}]"
    started = initialized(pod)
    undone = ", ".join(one.name for one in pod.init if not isinstance(one.state, Terminated) or one.state.exit_code)
    rows = [
        ("PodReadyToStartContainers", pod.sandbox and not over, "", ""),
        ("Initialized", started, "" if started else "ContainersNotInitialized",
         "" if started else f"containers with incomplete status: [{undone}]"),
        ("Ready", ready, "PodFailed" if fails else why, words),
        ("ContainersReady", ready, "PodFailed" if fails else why, words),
    ]  # fmt: skip
    result = []
    for kind, value, reason, message in rows:
        text = "True" if value else "False"
        before = pod.transitions.get(kind)
        if before is None or before[0] != text:
            pod.transitions[kind] = before = (text, timestamp(now))
        condition = {"type": kind, "status": text, "lastProbeTime": None, "lastTransitionTime": before[1]}
        # Both always given: a strategic merge keeps the old words of a condition that does not mention them.
        result.append(condition | {"reason": reason or None, "message": message or None})
    return result


def _container(one: ContainerState, pod: PodState, *, init: bool) -> Object:
    status: Object = {
        "name": one.name,
        "image": one.spec.get("image", ""),
        "imageID": image_id(one.spec.get("image", "")) if one.container_id else "",
        "ready": one.ready,
        "started": isinstance(one.state, Running),
        "restartCount": one.restarts,
        "state": _state(one.state),
    }
    if init:
        status["ready"] = isinstance(one.state, Terminated) and one.state.exit_code == 0
    if one.container_id:
        status["containerID"] = one.container_id
    if one.last is not None:
        status["lastState"] = _state(one.last)
    return status


def _state(state: Waiting | Running | Terminated) -> Object:
    if isinstance(state, Waiting):
        return {"waiting": {"reason": state.reason} | ({"message": state.message} if state.message else {})}
    if isinstance(state, Running):
        return {"running": {"startedAt": timestamp(state.started_at)}}
    body: Object = {"exitCode": state.exit_code, "reason": state.reason}
    if state.message:
        body["message"] = state.message
    for key, when in (("startedAt", state.started_at), ("finishedAt", state.finished_at)):
        body[key] = timestamp(when) if when is not None else None
    if state.container_id:
        body["containerID"] = state.container_id
    return {"terminated": body}


def lost_containers(pod: Object) -> Object:
    """Container statuses of a pod whose processes ended unseen, as containerd reports them after a restart."""
    old = pod.get("status") or {}
    return {
        field: [_lost(one) for one in old[field]]
        for field in ("initContainerStatuses", "containerStatuses")
        if old.get(field)
    }


def _lost(one: Object) -> Object:
    if "terminated" in (one.get("state") or {}):
        return one | {"ready": False}
    return one | {
        "ready": False,
        "started": False,
        "state": {
            "terminated": {
                "exitCode": 255,
                "reason": "Unknown",
                "startedAt": None,
                "finishedAt": None,
            }
        },
    }
