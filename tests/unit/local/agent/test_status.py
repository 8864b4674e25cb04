"""The status a kubelet would write."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast_local.agent.status import (
    ContainerState,
    PodState,
    Running,
    Terminated,
    Waiting,
    build,
    clip,
    lost_containers,
    phase,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WAIT, RUN = Waiting("ContainerCreating"), Running(NOW)
GOOD, BAD = Terminated(0, "Completed"), Terminated(1, "Error")
State = Waiting | Running | Terminated


def _pod(*states: State, init: tuple[State, ...] = (), policy: str = "Never", **fields: Any) -> PodState:
    def make(name: str, state: State) -> ContainerState:
        return ContainerState({"name": name, "image": "i"}, state, ready=isinstance(state, Running))

    return PodState(
        {"spec": {"restartPolicy": policy}},
        [make(f"i{index}", state) for index, state in enumerate(init)],
        [make(f"c{index}", state) for index, state in enumerate(states)],
        **({"sandbox": True} | fields),
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (_pod(WAIT), "Pending"),
        (_pod(WAIT, sandbox=False), "Pending"),
        (_pod(RUN), "Running"),
        (_pod(RUN, GOOD), "Running"),
        (_pod(RUN, BAD), "Running"),
        (_pod(RUN, WAIT), "Pending"),
        (_pod(lost=True, terminal=True), "Failed"),
        (_pod(GOOD), "Running"),
        (_pod(GOOD, terminal=True), "Succeeded"),
        (_pod(GOOD, BAD), "Running"),
        (_pod(GOOD, BAD, terminal=True), "Failed"),
        (_pod(WAIT, init=(RUN,)), "Pending"),
        (_pod(WAIT, init=(GOOD, WAIT)), "Pending"),
        (_pod(WAIT, init=(BAD,)), "Pending"),
        (_pod(WAIT, init=(BAD,), terminal=True), "Failed"),
        (_pod(WAIT, init=(BAD,), policy="OnFailure"), "Pending"),
        (_pod(GOOD, policy="Always"), "Running"),
        (_pod(GOOD, policy="Always", terminal=True), "Succeeded"),
        (_pod(BAD, policy="OnFailure"), "Running"),
        (_pod(WAIT, terminal=True), "Failed"),
        (_pod(terminal=True, reason="OutOfcpu"), "Failed"),
    ],
)
def test_phase(pod: PodState, expected: str) -> None:
    """Would break: the operator reads a wrong end, or one that real kubelets give in two patches comes in one."""
    assert phase(pod) == expected


def test_the_first_report_of_an_end_has_everything_but_the_final_phase_and_its_reason() -> None:
    """Breaks if the operator is tested with less, or more, than a real kubelet says first."""
    first = build(_pod(BAD, reason="DeadlineExceeded", message="too long"), NOW)
    assert (first["phase"], "reason" in first, "message" in first) == ("Running", False, False)
    assert first["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert _conditions(first)["Ready"] == ("False", "PodFailed")
    assert _conditions(first)["PodReadyToStartContainers"] == ("True", None)


def _conditions(status: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def test_conditions_of_a_running_and_an_ended_pod() -> None:
    """Would break: readiness, and the kubelet's reasons for a lack of it."""
    assert set(_conditions(build(_pod(RUN), NOW)).values()) == {("True", None)}
    ended = _conditions(build(_pod(GOOD, terminal=True), NOW))
    assert ended["Ready"] == ("False", "PodCompleted")
    assert ended["PodReadyToStartContainers"] == ("False", None)
    assert _conditions(build(_pod(BAD), NOW))["ContainersReady"] == ("False", "PodFailed")
    assert _conditions(build(_pod(WAIT, init=(RUN,)), NOW))["Initialized"] == ("False", "ContainersNotInitialized")


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    """Would break: every status write looks like a change."""
    pod = _pod(RUN)
    first = build(pod, NOW)
    assert build(pod, NOW + timedelta(hours=1)) == first
    pod.containers[0].ready = False
    later = {one["type"]: one["lastTransitionTime"] for one in build(pod, NOW + timedelta(hours=1))["conditions"]}
    assert later["Ready"] == "2026-01-02T04:04:05Z"
    assert later["Initialized"] == "2026-01-02T03:04:05Z"


def test_container_states() -> None:
    """Would break: what the operator reads of a container."""
    pod = _pod(Terminated(143, "Error", "told", NOW, NOW, "holdfast://1"), WAIT)
    pod.containers[0].restarts, pod.containers[0].last = 2, BAD
    first, second = build(pod, NOW)["containerStatuses"]
    assert first["state"]["terminated"] == {
        "exitCode": 143, "reason": "Error", "message": "told", "containerID": "holdfast://1",
        "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    assert (first["restartCount"], first["lastState"]["terminated"]["exitCode"]) == (2, 1)
    assert second["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_lost_containers_ended_unseen() -> None:
    """Would break: a container that ended well before the crash is called lost."""
    good = {"name": "a", "ready": False, "state": {"terminated": {"exitCode": 0}}}
    running = {"name": "b", "ready": True, "state": {"running": {}}}
    lost = lost_containers({"status": {"containerStatuses": [good, running]}})
    assert lost["containerStatuses"][0] == good
    ended = lost["containerStatuses"][1]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (255, "Unknown"), "what containerd reports after a reboot"
    assert "initContainerStatuses" not in lost


def test_clip_counts_bytes() -> None:
    """Would break: a termination message above the API's bound."""
    assert clip(b"abc", 2) == "ab"
    assert clip("é".encode(), 1) == "\ufffd"
