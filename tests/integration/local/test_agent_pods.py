"""Pods on simulated nodes live and end as on a kubelet."""

from typing import Any

import pytest
from tests.support.cluster.agent_pods import (
    TRAINER,
    alive,
    container,
    logs,
    pod,
    run,
    state,
    status,
    until_dead,
    until_gone,
    until_logged,
    until_phase,
    until_waiting,
)
from tests.support.cluster.local_cluster import audit_events, delete, get
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster

# A process in a session of its own, whose parent is gone: `kill -- -GROUP` does not reach it.
_DAEMON = "setsid sh -c 'sleep 1000 & echo daemon=$!' &\nwait $!\n"


def _pids(log: str, key: str) -> list[int]:
    return [int(line.partition("=")[2]) for line in log.splitlines() if line.startswith(key + "=")]


def test_init_containers_run_one_after_the_other_before_the_containers(cluster: Cluster, namespace: str) -> None:
    """Would break: the launcher is not there yet when the trainer starts."""
    mount: dict[str, Any] = {"volumeMounts": [{"name": "d", "mountPath": "/data"}]}
    first, second = (
        container("echo 1 >> /data/order", "first", **mount),
        container("echo 2 >> /data/order", "second", **mount),
    )
    main = container("cat /data/order; printf done > /dev/termination-log", **mount)
    run(cluster, namespace, pod("a", main, initContainers=[first, second], volumes=[{"name": "d", "emptyDir": {}}]))
    seen = until_phase(cluster, namespace, "a", "Succeeded")
    assert logs(cluster, namespace, "a", "-c", "main") == "1\n2\n"
    ended = seen["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (0, "Completed", "done")
    assert [one["state"]["terminated"]["exitCode"] for one in seen["initContainerStatuses"]] == [0, 0]
    conditions = {one["type"]: (one["status"], one.get("reason")) for one in seen["conditions"]}
    assert conditions["Initialized"] == ("True", None)
    assert conditions["Ready"] == ("False", "PodCompleted")
    assert conditions["PodScheduled"][0] == "True"


def _reports(cluster: Cluster, namespace: str, name: str) -> list[tuple[str, bool]]:
    """The phase, and if its container had ended, in each status that was written of a pod."""
    found = []
    for event in audit_events(cluster):
        ref = event.get("objectRef") or {}
        if event["verb"] == "patch" and (ref.get("namespace"), ref.get("name")) == (namespace, name):
            written = (event.get("requestObject") or {}).get("status") or {}
            ends = [one for one in written.get("containerStatuses") or () if "terminated" in one["state"]]
            found.append((written.get("phase", ""), bool(ends)))
    return found


def test_an_end_is_reported_twice_and_a_deletion_once(cluster: Cluster, namespace: str) -> None:
    """Breaks if the operator meets phase Running of an ended pod only on real nodes."""
    run(cluster, namespace, pod("a", container("exit 0")))
    until_phase(cluster, namespace, "a", "Succeeded")
    assert [one for one in _reports(cluster, namespace, "a") if one[1]] == [("Running", True), ("Succeeded", True)]
    body = pod("b", container("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"))
    body["metadata"]["finalizers"] = ["holdfast.dev/test"]
    run(cluster, namespace, body)
    until_logged(cluster, namespace, "b", "up")
    delete(cluster, "pod/b", namespace)
    until_phase(cluster, namespace, "b", "Succeeded")
    cluster.kubectl("patch", "pod", "b", "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert [one for one in _reports(cluster, namespace, "b") if one[1]] == [("Succeeded", True)]


def test_a_failed_init_container_fails_the_pod_and_starts_nothing_else(cluster: Cluster, namespace: str) -> None:
    """Would break: a trainer starts although the storage probe failed."""
    run(cluster, namespace, pod("a", container("echo ran"), initContainers=[container("exit 3", "probe")]))
    seen = until_phase(cluster, namespace, "a", "Failed")
    assert seen["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert seen["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"


def test_a_failure_says_exit_code_signal_and_the_last_lines(cluster: Cluster, namespace: str) -> None:
    """Would break: an operator cannot tell a user's exception from a kill."""
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    run(cluster, namespace, pod("code", container("echo the reason >&2; exit 7", **fallback)))
    run(cluster, namespace, pod("signal", container("kill -KILL $$")))
    code = until_phase(cluster, namespace, "code", "Failed")["containerStatuses"][0]["state"]["terminated"]
    assert (code["exitCode"], code["reason"], code["message"]) == (7, "Error", "the reason\n")
    signal = until_phase(cluster, namespace, "signal", "Failed")["containerStatuses"][0]["state"]["terminated"]
    assert (signal["exitCode"], signal["reason"]) == (137, "Error")


def test_exit_0_after_sigterm_is_phase_succeeded_and_a_finalizer_keeps_the_pod(
    cluster: Cluster, namespace: str
) -> None:
    """Would break: the operator never sees how a drained pod ended."""
    body = pod(
        "a", container("trap 'printf saved > /dev/termination-log; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    )
    body["metadata"]["finalizers"] = ["holdfast.dev/test"]
    run(cluster, namespace, body)
    until_logged(cluster, namespace, "a", "up")
    delete(cluster, "pod/a", namespace)
    seen = until_phase(cluster, namespace, "a", "Succeeded")
    assert seen["containerStatuses"][0]["state"]["terminated"]["message"] == "saved"
    wait_for(lambda: get(cluster, "pod/a", namespace)["metadata"]["deletionGracePeriodSeconds"] == 0, 10, "the release")
    cluster.kubectl("patch", "pod", "a", "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    until_gone(cluster, namespace, "a")


def test_sigterm_goes_to_pid_1_alone_and_sigkill_to_everything(cluster: Cluster, namespace: str) -> None:
    """Would break: data-loader workers die before the trainer has saved, or a daemon outlives its pod."""
    child = "sh -c 'trap \"echo child-was-told\" TERM; echo child=$$; while :; do sleep 0.05; done' &\n"
    run(
        cluster,
        namespace,
        pod("a", container(f"trap 'echo told' TERM\n{child}{_DAEMON}echo pid=$$; while :; do wait; done")),
    )
    log = until_logged(cluster, namespace, "a", "pid=")
    pids = [*_pids(log, "child"), *_pids(log, "daemon"), *_pids(log, "pid")]
    assert len(pids) == 3
    assert all(alive(pid) for pid in pids)
    delete(cluster, "pod/a", namespace)
    log = until_logged(cluster, namespace, "a", "told")
    assert "child-was-told" not in log
    until_gone(cluster, namespace, "a")
    until_dead(*pids)


def test_what_pid_1_leaves_behind_ends_with_it(cluster: Cluster, namespace: str) -> None:
    """Would break: a data loader of a dead trainer keeps its memory and its files."""
    run(cluster, namespace, pod("a", container(f"{_DAEMON}sleep 1000 & echo child=$!; exit 0")))
    until_phase(cluster, namespace, "a", "Succeeded")
    log = logs(cluster, namespace, "a")
    pids = [*_pids(log, "child"), *_pids(log, "daemon")]
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


def test_a_pod_has_a_deadline_of_its_own(cluster: Cluster, namespace: str) -> None:
    """Would break: activeDeadlineSeconds, which the kubelet alone enforces."""
    main = container("trap 'exit 0' TERM; while :; do sleep 0.05; done")
    run(cluster, namespace, pod("a", main, activeDeadlineSeconds=1))
    assert until_phase(cluster, namespace, "a", "Failed")["reason"] == "DeadlineExceeded"


def test_a_forced_delete_kills_at_once(cluster: Cluster, namespace: str) -> None:
    """Would break: a zombie trainer after `kubectl delete --force`."""
    run(
        cluster,
        namespace,
        pod(
            "a", container("trap '' TERM; echo pid=$$; while :; do sleep 0.05; done"), terminationGracePeriodSeconds=600
        ),
    )
    pids = _pids(until_logged(cluster, namespace, "a", "pid="), "pid")
    cluster.kubectl("delete", "pod", "a", "-n", namespace, "--force", "--grace-period=0")
    until_dead(*pids)


def test_memory_above_the_limit_is_oom_killed(cluster: Cluster, namespace: str) -> None:
    """Would break: an out-of-memory failure looks like a crash."""
    hog = {
        "name": "main",
        "image": TRAINER,
        "command": ["python3", "-c", "import time; b = bytearray(300 << 20); time.sleep(1000)"],
    }
    below = {"name": "main", "image": TRAINER, "command": ["python3", "-c", "b = bytearray(60 << 20); print('fine')"]}
    limit = {"resources": {"limits": {"memory": "200Mi"}}}
    run(cluster, namespace, pod("above", hog | limit), pod("below", below | limit))
    ended = until_phase(cluster, namespace, "above", "Failed")["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    until_phase(cluster, namespace, "below", "Succeeded")


def test_images_that_cannot_be_pulled(cluster: Cluster, namespace: str) -> None:
    """Would break: a typing error in an image waits for ever without a reason."""
    run(
        cluster,
        namespace,
        pod("unknown", container(image="nobody/has:this")),
        pod("malformed", container(image="No/Such:::Image")),
    )
    assert "not found" in until_waiting(cluster, namespace, "unknown", "ErrImagePull")["message"]
    assert "Back-off pulling image" in until_waiting(cluster, namespace, "unknown", "ImagePullBackOff")["message"]
    assert "couldn't parse image name" in until_waiting(cluster, namespace, "malformed", "InvalidImageName")["message"]
    delete(cluster, "pod/unknown", namespace)
    until_gone(cluster, namespace, "unknown")


def test_a_command_that_does_not_exist(cluster: Cluster, namespace: str) -> None:
    """Would break: a typing error in a command looks like a lost pod."""
    run(cluster, namespace, pod("a", {"name": "main", "image": TRAINER, "command": ["no-such-program"]}))
    ended = until_phase(cluster, namespace, "a", "Failed")["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert 'exec: "no-such-program": executable file not found in $PATH' in ended["message"]


def test_restart_on_failure_counts_and_keeps_the_log_before(cluster: Cluster, namespace: str) -> None:
    """Would break: helpers of other tests that rely on restarts."""
    mount: dict[str, Any] = {"volumeMounts": [{"name": "d", "mountPath": "/data"}]}
    main = container(
        "if test -e /data/again; then echo second; else touch /data/again; echo first; exit 1; fi", **mount
    )
    run(cluster, namespace, pod("a", main, restartPolicy="OnFailure", volumes=[{"name": "d", "emptyDir": {}}]))
    seen = until_phase(cluster, namespace, "a", "Succeeded")
    assert seen["containerStatuses"][0]["restartCount"] == 1
    assert seen["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    assert logs(cluster, namespace, "a") == "second\n"
    assert logs(cluster, namespace, "a", "--previous") == "first\n"


def test_readiness_follows_its_probe(cluster: Cluster, namespace: str) -> None:
    """Would break: readiness that is never told."""
    probe = {"exec": {"command": ["sh", "-c", 'test -e "$HOME/ready"']}, "periodSeconds": 1}
    main = container(
        "echo up; while :; do if test -e $HOME/go; then touch $HOME/ready; fi; sleep 0.05; done", readinessProbe=probe
    )
    run(cluster, namespace, pod("a", main))
    until_logged(cluster, namespace, "a", "up")
    seen = status(cluster, namespace, "a")
    assert seen["containerStatuses"][0]["ready"] is False
    uid = get(cluster, "pod/a", namespace)["metadata"]["uid"]
    (home,) = cluster.root.glob(f"nodes/*/pods/{uid}/home")
    (home / "go").touch()
    wait_for(lambda: status(cluster, namespace, "a")["containerStatuses"][0]["ready"], 10, "the pod to be ready")


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        (
            {"resources": {"requests": {"cpu": "9"}}},
            "OutOfcpu",
            "resource: cpu, requested: 9000, used: 0, capacity: 8000",
        ),
        ({"resources": {"requests": {"memory": "33Gi"}}}, "OutOfmemory", "resource: memory, requested: 35433480192"),
        (
            {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
            "OutOfnvidia.com/gpu",
            "requested: 1, used: 0, capacity: 0",
        ),
    ],
)
def test_a_pod_that_asks_for_too_much_is_rejected(
    cluster: Cluster, namespace: str, fields: dict[str, Any], reason: str, words: str
) -> None:
    """Would break: an operator that never meets the kubelet's refusal."""
    run(cluster, namespace, pod("a", container("echo ran", **fields), nodeName="cpu-1"))
    seen = until_phase(cluster, namespace, "a", "Failed")
    assert seen["reason"] == reason
    assert "Node didn't have enough resource: " in seen["message"]
    assert words in seen["message"]


def test_one_accelerator_is_not_given_twice(cluster: Cluster, namespace: str) -> None:
    """Would break: two trainers on one GPU."""
    gpu: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    run(cluster, namespace, pod("a", container("sleep 1000", **gpu), nodeName="spot-1"))
    until_phase(cluster, namespace, "a", "Running")
    run(cluster, namespace, pod("b", container("sleep 1000", **gpu), nodeName="spot-1"))
    assert until_phase(cluster, namespace, "b", "Failed")["reason"] == "OutOfnvidia.com/gpu"
    cluster.kubectl("delete", "pod", "a", "-n", namespace)
    run(cluster, namespace, pod("c", container("true", **gpu), nodeName="spot-1"))
    until_phase(cluster, namespace, "c", "Succeeded")


def test_wrong_node_and_host_path_are_refused(cluster: Cluster, namespace: str) -> None:
    """Would break: a pod that reaches into the machine below."""
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged", "--overwrite")
    run(cluster, namespace, pod("affinity", container(), nodeName="cpu-1", nodeSelector={"holdfast.dev/tier": "spot"}))
    run(cluster, namespace, pod("host", container(), volumes=[{"name": "v", "hostPath": {"path": "/etc"}}]))
    assert until_phase(cluster, namespace, "affinity", "Failed")["reason"] == "NodeAffinity"
    seen = until_phase(cluster, namespace, "host", "Failed")
    assert seen["reason"] == "HostPathNotAllowed"
    assert "/etc" in seen["message"]


def test_logs_by_kubectl(cluster: Cluster, namespace: str) -> None:
    """Would break: `kubectl logs` and everything that shows the last lines of a program."""
    run(cluster, namespace, pod("a", container("for i in 1 2 3 4; do echo line $i; sleep 0.1; done; printf tail")))
    until_phase(cluster, namespace, "a", "Running", "Succeeded")
    assert logs(cluster, namespace, "a", "-f") == "line 1\nline 2\nline 3\nline 4\ntail"
    until_phase(cluster, namespace, "a", "Succeeded")
    assert logs(cluster, namespace, "a", "--tail=2") == "line 4\ntail"
    assert logs(cluster, namespace, "a", "--limit-bytes=4") == "line"
    assert logs(cluster, namespace, "a", "--since=1h") == "line 1\nline 2\nline 3\nline 4\ntail"
    first = logs(cluster, namespace, "a", "--timestamps").splitlines()[0]
    assert first.endswith("Z line 1")
    assert first.startswith(state(cluster, namespace, "a")["terminated"]["startedAt"][:4])
