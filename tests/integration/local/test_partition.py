"""Nodes with networks of their own: their pods reach each other, until a node is cut off."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.agent_pods import (
    TRAINER,
    alive,
    container,
    logs,
    pod,
    run,
    server,
    until_dead,
    until_gone,
    until_logged,
    until_phase,
    until_ready,
)
from tests.support.cluster.isolated import needs_isolation
from tests.support.cluster.local_cluster import delete, fresh_namespace, get, running_cluster
from tests.support.waiting import wait_for

from holdfast_local.agent.config import NodeSpec
from holdfast_local.cluster import Cluster
from holdfast_local.errors import ControlError

pytestmark = [pytest.mark.cluster, needs_isolation]

PORT = 29500
NODES = (NodeSpec(name="a"), NodeSpec(name="b"))

# Tries each target again and again, and writes what it found: `peer ok`, or `peer lost`.
_TRIES = """python - <<'EOF'
import json, os, socket, time
targets = json.loads(os.environ["TARGETS"])
while True:
    for name, (host, port) in targets.items():
        try:
            socket.create_connection((host, port), timeout=0.5).close()
            print(name, "ok", flush=True)
        except OSError:
            print(name, "lost", flush=True)
    time.sleep(0.1)
EOF"""


# Its end breaks if `down` leaves an interface on the machine.
@pytest.fixture(scope="module")
def isolated() -> Iterator[Cluster]:
    with running_cluster(network="isolated", nodes=NODES) as cluster:
        assert cluster.status().network == "isolated"
        assert cluster.status().healthy
        address = cluster.address
        assert address in cluster.server
        yield cluster
    assert address not in subprocess.run(["ip", "address"], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def namespace(isolated: Cluster) -> Iterator[str]:
    with fresh_namespace(isolated) as name:
        yield name


@pytest.fixture
def node(isolated: Cluster) -> Iterator[str]:
    """A node that is up again after the test."""
    yield "b"
    isolated.restore("b")
    wait_for(lambda: _ready(isolated, "b") == "True", 20, "node b to be ready again")


def _ready(cluster: Cluster, node: str) -> str:
    conditions = get(cluster, f"node/{node}")["status"]["conditions"]
    return next(str(one["status"]) for one in conditions if one["type"] == "Ready")


def _tries(name: str, node: str, **targets: tuple[str, int]) -> dict[str, Any]:
    env = [{"name": "TARGETS", "value": json.dumps(targets)}]
    return pod(name, container(_TRIES, image=TRAINER, env=env), nodeName=node)


def _folder(cluster: Cluster, namespace: str, name: str) -> Path:
    (folder,) = cluster.root.glob(f"nodes/*/pods/{get(cluster, f'pod/{name}', namespace)['metadata']['uid']}")
    return folder


class Log:
    """What a pod writes, read from the file: kubectl cannot read the log of a node that is cut off."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "main.log"

    def _lines(self) -> list[str]:
        return [line.split(" ", 3)[3] for line in self._file.read_text().splitlines()]

    def until(self, *words: str) -> None:
        """Wait until each line has been written from now on."""
        start = len(self._lines())
        wait_for(lambda: set(words) <= set(self._lines()[start:]), 20, f"{words} in {self._file}")


def _address(url: str) -> tuple[str, int]:
    host, _, port = url.partition("://")[2].rpartition(":")
    return host, int(port)


def _answer(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}:{PORT}/name", timeout=2) as answer:
        text: str = answer.read().decode()
        return text.strip()


# Breaks if a pod cannot be reached from another node or from the machine, or if kubectl does not reach a kubelet.
def test_pods_reach_each_other_and_the_machine(isolated: Cluster, namespace: str) -> None:
    run(isolated, namespace, server("a", PORT, nodeName="a"), server("b", PORT, nodeName="b"))
    seen = {name: until_ready(isolated, namespace, name) for name in "ab"}
    assert seen["a"]["hostIP"] != seen["b"]["hostIP"]
    assert get(isolated, "node/b")["status"]["addresses"][0] == {
        "type": "InternalIP", "address": seen["b"]["hostIP"],
    }  # fmt: skip
    assert [_answer(one["podIP"]) for one in seen.values()] == ["a", "b"]
    targets = {
        "peer": (seen["b"]["podIP"], PORT),
        "api": _address(isolated.server),
        "s3": _address(isolated.s3.endpoint),
    }
    run(isolated, namespace, _tries("tries", "a", **targets))
    until_logged(isolated, namespace, "tries", "s3 ok")
    text = logs(isolated, namespace, "tries")
    assert "peer ok" in text
    assert "api ok" in text
    assert "lost" not in text


# Breaks if a node that is cut off still reaches something or is reached, if its processes die, or if it does not heal.
def test_a_partition_cuts_a_node_off_and_its_processes_live(isolated: Cluster, namespace: str, node: str) -> None:
    run(isolated, namespace, server("far", PORT, nodeName=node), server("near", PORT, nodeName="a"))
    far, near = (until_ready(isolated, namespace, name) for name in ("far", "near"))
    targets = {"peer": (near["podIP"], PORT), "api": _address(isolated.server), "s3": _address(isolated.s3.endpoint)}
    run(isolated, namespace, _tries("inside", node, **targets, own=(far["podIP"], PORT)))
    run(isolated, namespace, _tries("outside", "a", peer=(far["podIP"], PORT)))
    for name in ("inside", "outside"):
        until_phase(isolated, namespace, name, "Running")
    inside, outside = (Log(_folder(isolated, namespace, name)) for name in ("inside", "outside"))
    inside.until("peer ok", "api ok", "s3 ok", "own ok")
    outside.until("peer ok")

    isolated.partition(node)
    inside.until("peer lost", "api lost", "s3 lost", "own ok")
    outside.until("peer lost")
    with pytest.raises(OSError):
        _answer(far["podIP"])
    wait_for(lambda: _ready(isolated, node) == "Unknown", 20, "the node to be NotReady")

    isolated.heal(node)
    inside.until("peer ok", "api ok", "s3 ok", "own ok")
    outside.until("peer ok")
    wait_for(lambda: _ready(isolated, node) == "True", 20, "the node to be ready again")
    assert until_ready(isolated, namespace, "far")["podIP"] == far["podIP"]
    assert "ok" in logs(isolated, namespace, "inside")


# Breaks if a kubelet that is back keeps pods that were deleted meanwhile, or says nothing of pods that ended.
def test_a_node_that_heals_reports_what_happened(isolated: Cluster, namespace: str, node: str) -> None:
    waits = "echo pid=$$; until test -e $HOME/end; do sleep 0.05; done; exit 3"
    run(isolated, namespace, pod("ended", container(waits), nodeName=node))
    run(isolated, namespace, *(pod(name, container(waits), nodeName=node) for name in ("deleted", "forced")))
    pids = {
        name: int(until_logged(isolated, namespace, name, "pid=").partition("pid=")[2].split()[0])
        for name in ("ended", "deleted", "forced")
    }
    home = _folder(isolated, namespace, "ended") / "home"
    isolated.partition(node)
    (home / "end").touch()
    until_dead(pids["ended"])
    delete(isolated, "pod/deleted", namespace)
    isolated.kubectl("delete", "pod", "forced", "-n", namespace, "--grace-period=0", "--force")
    until_gone(isolated, namespace, "forced")
    assert get(isolated, "pod/ended", namespace)["status"]["phase"] == "Running"
    assert alive(pids["deleted"])
    assert alive(pids["forced"])

    isolated.heal(node)
    seen = until_phase(isolated, namespace, "ended", "Failed")
    assert seen["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    until_gone(isolated, namespace, "deleted")
    until_dead(pids["deleted"], pids["forced"])


# Breaks if a machine that has crashed still refuses connections: a dead one answers nothing.
def test_a_crashed_node_answers_nothing(isolated: Cluster, namespace: str, node: str) -> None:
    run(isolated, namespace, server("far", PORT, nodeName=node))
    address = until_ready(isolated, namespace, "far")["podIP"]
    isolated.crash(node)
    with pytest.raises(OSError, match=r"timed out|No route"):
        _answer(address)
    with pytest.raises(ControlError, match="node b is crashed: restore it"):
        isolated.heal(node)
