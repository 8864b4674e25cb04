"""Commands in containers of simulated nodes: `kubectl exec` works as on a kubelet."""

import os
import subprocess

import pytest
from tests.support.cluster.agent_pods import alive, container, pod, run, until_logged
from tests.support.cluster.local_cluster import delete
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster


def _kubectl(cluster: Cluster, namespace: str, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    line = [str(cluster.bin / "kubectl"), "--kubeconfig", str(cluster.admin_kubeconfig), "exec", "-n", namespace]
    return subprocess.run([*line, *words], input=stdin, capture_output=True, check=False, timeout=60)


# Breaks if bytes are lost, if an input has no end, if the streams are mixed, or if an exit code is not that of the
# command.
def test_kubectl_has_streams_and_exit_codes(cluster: Cluster, namespace: str) -> None:
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/data"}], "env": [{"name": "COLOUR", "value": "blue"}]}
    main = container("echo up; sleep 1000", **mount)
    run(cluster, namespace, pod("a", main, volumes=[{"name": "d", "emptyDir": {}}]))
    until_logged(cluster, namespace, "a", "up")
    sent = os.urandom(5_000_000)
    echoed = _kubectl(cluster, namespace, "-i", "a", "--", "sh", "-c", "tee /data/sent; exit 3", stdin=sent)
    assert (echoed.returncode, echoed.stdout == sent) == (3, True), echoed.stderr
    script = "echo $COLOUR; wc -c < /data/sent; echo trouble >&2"
    both = _kubectl(cluster, namespace, "a", "--", "sh", "-c", script)
    assert (both.returncode, both.stdout, both.stderr) == (0, b"blue\n5000000\n", b"trouble\n")
    missing = _kubectl(cluster, namespace, "a", "--", "no-such-program")
    assert missing.returncode != 0
    assert b'exec: "no-such-program": executable file not found in $PATH' in missing.stderr


# Breaks if a command outlives its container, of which no process is left.
def test_a_command_ends_with_its_container(cluster: Cluster, namespace: str) -> None:
    run(cluster, namespace, pod("a", container("echo up; sleep 1000")))
    until_logged(cluster, namespace, "a", "up")
    line = [str(cluster.bin / "kubectl"), "--kubeconfig", str(cluster.admin_kubeconfig), "exec", "-n", namespace]
    line += ["a", "--", "sh", "-c", "echo $$; sleep 1000"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        try:
            assert running.stdout is not None
            pid = int(running.stdout.readline())
            assert alive(pid)
            delete(cluster, "pod/a", namespace)
            assert running.wait(60) != 0
        finally:
            running.kill()
    wait_for(lambda: not alive(pid), 10, "the end of the command")
