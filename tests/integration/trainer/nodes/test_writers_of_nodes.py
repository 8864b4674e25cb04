"""Several nodes with checkpoint.folder: each attempt has a writer of its own beside the program of each node.

The writer is a stub that speaks the protocol of the launcher, and does what files in a folder of the test say.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.nodes import Node
from tests.support.waiting import wait_for

from holdfast_protocol.verdict import WRITER_SECONDS
from holdfast_train.pod.launcher.program import NOW_SECONDS

WRITER = """
import json, os, pathlib, select, signal, sys, time

def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    of = f"{os.environ['HOLDFAST_ATTEMPT']}-{os.environ['HOLDFAST_RANK']}"
    place = pathlib.Path(os.environ["STUB"])
    def tell(state, **more):
        out.write(json.dumps({"state": state, **more}) + "\\n")
        out.flush()
    def there(name):
        return (place / f"{name}-{of}").exists()
    def write_verdict(name):
        told = {**json.loads((place / f"{name}-{of}").read_text() or "{}"), "pid": os.getpid()}
        if "result" in told:
            pathlib.Path(os.environ["HOLDFAST_VERDICT_DIR"], "rank-0.json").write_text(json.dumps(told))
    new = place / f".{os.getpid()}"
    new.write_text(json.dumps(dict(os.environ)))
    new.rename(place / f"pid-{of}-{os.getpid()}")
    while not (there("ready") or there("refused") or sys.argv[1:]):
        time.sleep(0.01)
    if there("refused"):
        write_verdict("refused")
        tell("refused", exitCode=1)
        return 1
    tell("ready", newest=f"/outputs/newest-{of}")
    left = False
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        if there("leave") and not left:
            left = True
            tell("leave")
        if there("fenced"):
            write_verdict("fenced")
            tell("fenced")
            return 1
    line = sys.stdin.readline()
    while '"leave"' in line:
        line = sys.stdin.readline()
    print("told", line, flush=True)
    while line and not there("done"):
        time.sleep(0.01)
    if line:
        write_verdict("done")
        tell("done")
    return 0
"""

PROGRAM = """
import os, pathlib, subprocess, sys, time
of = f"{os.environ['HOLDFAST_ATTEMPT']}-{os.environ['HOLDFAST_RANK']}"
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(3600)"
left = subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
print(f"program {of} left {left.pid} newest {os.environ.get('HOLDFAST_NEWEST_CHECKPOINT')}", flush=True)
over = pathlib.Path(os.environ["STUB"], f"over-{of}")
while not over.exists(): time.sleep(0.01)
left.kill()
left.wait()
sys.exit(int(over.read_text() or 0))
"""


@pytest.fixture(autouse=True)
def nodes_end() -> Iterator[None]:
    yield
    Node.end_all()


class Stub:
    """What the writers and the programs of a test do, and the nodes that have them."""

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        self._folder, self._endpoint = folder, endpoint
        library = folder / "stub" / "holdfast_train"
        (library / "folder").mkdir(parents=True)
        (library / "__init__.py").touch()
        (library / "folder" / "__init__.py").touch()
        (library / "folder" / "writer.py").write_text(WRITER)
        self._library, self._place = library.parent, folder / "place"
        self._place.mkdir()

    def node(self, rank: int = 0) -> Node:
        return Node(
            self._folder,
            self._endpoint,
            rank,
            [sys.executable, "-c", PROGRAM],
            folder=str(self._folder / f"outputs-{rank}"),
            STUB=str(self._place),
            PYTHONPATH=str(self._library),
        )

    def let(self, what: str, attempt: int, rank: int = 0, content: object = "") -> None:
        """Let the writer of this attempt and node, or its program, do this."""
        new = self._place / ".new"
        new.write_text(content if isinstance(content, str) else json.dumps(content))
        new.rename(self._place / f"{what}-{attempt}-{rank}")

    def writers(self, attempt: int, rank: int = 0) -> dict[int, dict[str, str]]:
        """By process: the environments of the writers that there were."""
        found = self._place.glob(f"pid-{attempt}-{rank}-*")
        return {int(path.name.rpartition("-")[2]): json.loads(path.read_text()) for path in found}

    def writer(self, attempt: int, rank: int = 0) -> int:
        """The process of the only writer, waiting for it."""
        wait_for(lambda: self.writers(attempt, rank), 60, "the writer to start")
        (found,) = self.writers(attempt, rank)
        return found


@pytest.fixture
def stub(tmp_path: Path, endpoint: Endpoint) -> Stub:
    return Stub(tmp_path, endpoint)


def runs(pid: int) -> bool:
    """False too for a process that has ended, and waits to be collected."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def told_to_writer(node: Node) -> dict[str, Any]:
    """The command that the writer of this node got, waiting for it."""
    node.wait_for('told {"do": "finish"')
    found: dict[str, Any] = json.loads(node.output.rpartition("told ")[2].splitlines()[0])
    return found


def left_by_program(node: Node) -> int:
    """The process that the program of this node started."""
    return int(node.output.rpartition(" left ")[2].split()[0])


# Breaks if a program starts before its folder is put back, if it does not get what was put back, if the operator is not
# told meanwhile that the node works for the attempt, or if the pod ends before all nodes have committed.
def test_the_program_runs_between_the_two_parts_of_its_writer(stub: Stub, endpoint: Endpoint) -> None:
    nodes = [stub.node(rank) for rank in range(2)]
    endpoint.members.begin(1, *(node.uid for node in nodes))
    for rank, node in enumerate(nodes):
        node.told("running", 1)
        writer = stub.writer(1, rank)
        environment = stub.writers(1, rank)[writer]
        names = ("ATTEMPT", "RANK", "NODES", "POD_IP", "POD_UID")
        expected = ["1", str(rank), "2", f"127.0.0.{rank + 1}", node.uid]
        assert [environment[f"HOLDFAST_{name}"] for name in names] == expected
        assert "program 1-" not in node.output
    for rank, node in enumerate(nodes):
        stub.let("ready", 1, rank)
        node.wait_for(f"program 1-{rank}")
        assert f"newest /outputs/newest-1-{rank}" in node.output
        stub.let("over", 1, rank)
        assert told_to_writer(node) == {"do": "finish", "signalledAt": None, "code": 0, "seconds": None}
    for rank, node in enumerate(nodes):
        assert node.process.poll() is None
        assert endpoint.members.newest(node.uid)["state"] == "running"
        stub.let("done", 1, rank, {"rank": 0, "result": "completed", "reason": "Completed", "message": "all saved"})
        verdict = node.end()
        assert (verdict["outcome"], verdict["message"], node.process.returncode) == ("completed", "all saved", 0)


# Breaks if a node that waits for the writers of lost nodes never takes part in the next attempt, if the program starts
# all the same, or if the writer is left.
def test_an_order_to_regroup_while_the_folder_is_put_back(stub: Stub, endpoint: Endpoint) -> None:
    node = stub.node()
    endpoint.members.begin(1, node.uid)
    old = stub.writer(1)
    endpoint.members.begin(2, node.uid)
    assert node.told("ready", 1)["verdict"]["reason"] == "Regrouped"
    assert not runs(old)
    stub.let("ready", 1)
    stub.let("ready", 2)
    node.wait_for("program 2-0")
    assert "program 1-0" not in node.output
    assert len(stub.writers(1)) == 1


def test_a_notice_to_leave_while_the_folder_is_put_back(stub: Stub, endpoint: Endpoint) -> None:
    node = stub.node()
    endpoint.members.begin(1, node.uid)
    stub.writer(1)
    node.terminate()
    verdict = node.end()
    assert (verdict["outcome"], verdict["reason"]) == ("drained", "LeftWithoutSaving")
    assert "program 1-0" not in node.output


# Breaks if the writer is killed with the program, if it gets no time to commit, or if anything of the two is left.
def test_an_order_to_regroup_while_the_program_runs(stub: Stub, endpoint: Endpoint) -> None:
    node = stub.node()
    endpoint.members.begin(1, node.uid)
    stub.let("ready", 1)
    node.wait_for("program 1-0")
    endpoint.members.begin(2, node.uid)
    command = told_to_writer(node)
    assert command["code"] is None
    assert 0 < command["seconds"] < NOW_SECONDS
    assert not runs(left_by_program(node))
    stub.let("done", 1)
    assert node.told("ready", 1)["verdict"]["reason"] == "Regrouped"
    assert not runs(stub.writer(1))


# Breaks if a program does not get SIGTERM when all nodes have to save, or if its pod leaves although its node stays.
def test_a_program_that_has_to_leave_because_of_another_node(stub: Stub, endpoint: Endpoint) -> None:
    node = stub.node()
    endpoint.members.begin(1, node.uid)
    stub.let("ready", 1)
    node.wait_for("program 1-0")
    stub.let("leave", 1)
    command = told_to_writer(node)
    assert command["signalledAt"] is not None
    assert command["seconds"] > 0
    stub.let("done", 1, content={"rank": 0, "result": "saved", "message": "all saved", "savedStep": 7})
    verdict = node.told("ready", 1)["verdict"]
    assert (verdict["outcome"], verdict["reason"], verdict["savedStep"]) == ("drained", "SavedAndLeft", 7)
    endpoint.members.begin(2, node.uid)
    stub.let("ready", 2)
    node.wait_for("program 2-0")


# Breaks if a node whose program has ended waits without an end for a node whose program has failed, or if it takes no
# part in the next attempt because its program ended with exit code 0.
def test_an_order_to_regroup_while_the_writer_waits_for_other_nodes(stub: Stub, endpoint: Endpoint) -> None:
    node = stub.node()
    endpoint.members.begin(1, node.uid)
    stub.let("ready", 1)
    stub.let("over", 1)
    assert told_to_writer(node)["seconds"] is None
    endpoint.members.begin(2, node.uid)
    verdict = node.told("ready", 1)["verdict"]
    assert (verdict["outcome"], verdict["reason"]) == ("failed", "Regrouped")
    assert not runs(stub.writer(1))
    stub.let("ready", 2)
    node.wait_for("program 2-0")


# Breaks if the other nodes, and the operator, wait without an end for the writer of a node whose program has failed.
def test_the_writer_of_a_failed_program_has_a_limited_time(stub: Stub, endpoint: Endpoint) -> None:
    node = stub.node()
    endpoint.members.begin(1, node.uid)
    stub.let("ready", 1)
    stub.let("over", 1, content="3")
    command = told_to_writer(node)
    assert command["code"] == 3
    assert 0 < command["seconds"] <= WRITER_SECONDS
    stub.let("done", 1, content={"rank": 0, "result": "running", "savedStep": 7})
    verdict = node.told("ready", 1)["verdict"]
    assert (verdict["outcome"], verdict["reason"], verdict["exitCode"], verdict["savedStep"]) == (
        "failed",
        "UserException",
        3,
        7,
    )


# Breaks if a pod leaves because its folder could not be put back in one attempt, or if the writer is left.
def test_a_writer_that_refuses(stub: Stub, endpoint: Endpoint) -> None:
    node = stub.node()
    endpoint.members.begin(1, node.uid)
    stub.let("refused", 1, content={"rank": 0, "result": "failed", "reason": "StorageFailed", "message": "no answer"})
    verdict = node.told("ready", 1)["verdict"]
    assert (verdict["reason"], verdict["message"]) == ("StorageFailed", "no answer")
    assert not runs(stub.writer(1))
    endpoint.members.begin(2, node.uid)
    stub.let("ready", 2)
    node.wait_for("program 2-0")
    assert "program 1-0" not in node.output


# Breaks if a training is not saved after its writer has died, or if a pod whose attempt is fenced goes on.
def test_a_writer_that_dies_beside_the_program_and_one_that_is_fenced(stub: Stub, endpoint: Endpoint) -> None:
    node = stub.node()
    endpoint.members.begin(1, node.uid)
    stub.let("ready", 1)
    node.wait_for("program 1-0")
    first = stub.writer(1)
    os.kill(first, 9)
    wait_for(lambda: len(stub.writers(1)) == 2, 60, "another writer to take its place")
    fenced = {"rank": 0, "result": "fenced", "reason": "Fenced", "message": "attempt 2 has the fence"}
    stub.let("fenced", 1, content=fenced)
    verdict = node.end()
    assert (verdict["outcome"], verdict["message"]) == ("fenced", "attempt 2 has the fence")
    assert not any(map(runs, (*stub.writers(1), left_by_program(node))))
