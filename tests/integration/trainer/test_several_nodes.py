"""Launchers of several nodes, an operator that answers them over TLS, and real programs."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.nodes import Node
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def nodes_end() -> Iterator[None]:
    yield
    Node.end_all()


FAILS = """
import os, time, torch.distributed as dist
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

dist.init_process_group("gloo")
counter = Counter()
with Run(counter=counter) as run:
    for step in run.steps(6):
        counter.add(step)
        if step == 3:
            run.save()
        if step == 4 and os.environ["HOLDFAST_ATTEMPT"] == "1":
            if dist.get_rank() == 1:
                raise RuntimeError("a test")
            print("rank 0 hangs", flush=True)
            while True: time.sleep(1)
print(f"rank {dist.get_rank()} ended at {run.step}, total {counter.total}\\n", end="", flush=True)
dist.destroy_process_group()
"""


# Breaks if a program that hangs is not ended, if a verdict is not told, or if the second attempt starts from nothing.
@pytest.mark.training
@pytest.mark.thorough
def test_one_rank_fails_and_all_start_again_from_the_checkpoint(tmp_path: Path, endpoint: Endpoint) -> None:
    script = tmp_path / "train.py"
    script.write_text(FAILS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", str(script)]
    nodes = [Node(tmp_path, endpoint, rank, torchrun, uri=f"file://{tmp_path}/prefix") for rank in range(2)]
    endpoint.members.begin(1, *(node.uid for node in nodes))
    verdict = nodes[1].told("ready", 1, 120)["verdict"]
    assert (verdict["reason"], verdict["message"]) == ("UserException", "RuntimeError: a test")
    assert verdict["lastLines"]
    nodes[0].wait_for("rank 0 hangs")
    endpoint.members.begin(2, *(node.uid for node in nodes))
    again = nodes[0].told("ready", 1)
    assert (again["verdict"]["reason"], again["verdict"]["signal"]) == ("Regrouped", 9)
    assert again["port"] != nodes[0].told("ready", 0)["port"]
    for rank, node in enumerate(nodes):
        verdict = node.end(120)
        assert (verdict["outcome"], node.process.returncode) == ("completed", 0), node.output
        assert "resumed from step 4 " in node.output
        assert f"rank {rank} ended at 6, total 21" in node.output


LEAVES = """
import time, torch.distributed as dist
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

dist.init_process_group("gloo")
with Run(counter=Counter()) as run:
    for step in run.steps():
        dist.barrier()
        if step == 5: print("step 5", flush=True)
dist.destroy_process_group()
"""


# Breaks if the others do not save with the node that has to go, or if they wait for their torchrun: that waits for the
# torchrun of that node for 5 minutes.
@pytest.mark.thorough
@pytest.mark.training
def test_one_node_has_to_go_and_all_save(tmp_path: Path, endpoint: Endpoint) -> None:
    script = tmp_path / "train.py"
    script.write_text(LEAVES)
    torchrun = [sys.executable, "-m", "torch.distributed.run", str(script)]
    nodes = [Node(tmp_path, endpoint, rank, torchrun, uri=f"file://{tmp_path}/prefix") for rank in range(2)]
    endpoint.members.begin(1, *(node.uid for node in nodes))
    nodes[1].wait_for("step 5", 120)
    nodes[1].terminate()
    verdict = nodes[1].end(60)
    assert (verdict["reason"], nodes[1].process.returncode) == ("SavedAndLeft", 0), nodes[1].output
    of_first = nodes[0].told("ready", 1, 20)["verdict"]  # no order to regroup has come
    assert (of_first["reason"], of_first["savedStep"]) == ("SavedAndLeft", verdict["savedStep"])
    assert "notice to leave (SIGTERM)" in of_first["message"]
    nodes[0].terminate()
    assert nodes[0].end()["reason"] == "SavedAndLeft"


MEETS = """
import json, os, socket
names = ("HOLDFAST_ATTEMPT", "HOLDFAST_PREDECESSOR", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
         "GROUP_RANK", "PET_NNODES", "PET_NODE_RANK", "PET_RDZV_BACKEND")
print(json.dumps([os.environ.get(name) for name in names]), flush=True)
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
assert place == (os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"]))
if os.environ["RANK"] == "0":
    with socket.create_server(place) as server: server.accept()[0].sendall(b"met\\n")
else:
    while True:
        try: print(socket.create_connection(place).recv(9).decode(), flush=True)
        except ConnectionRefusedError: continue
        break
"""


# Breaks if a variable is missing, or if rank 0 cannot listen where the operator says.
def test_a_program_without_torchrun_meets_by_the_variables(tmp_path: Path, endpoint: Endpoint) -> None:
    nodes = [Node(tmp_path, endpoint, rank, [sys.executable, "-c", MEETS]) for rank in range(2)]
    endpoint.members.begin(7, *(node.uid for node in nodes), predecessor=6)
    for rank, node in enumerate(nodes):
        assert node.end()["outcome"] == "completed", node.output
        seen = json.loads(next(line for line in node.output.splitlines() if line.startswith("[")))
        assert seen == ["7", "6", str(rank), "2", "0", "1", str(rank), "2", str(rank), "static"]
    assert "met" in nodes[1].output


HANGS = """
import fcntl, os, pathlib, subprocess, sys, time
mine = pathlib.Path(os.environ["HOLDFAST_VERDICT_DIR"], "writer-1").open("wb")
fcntl.flock(mine, fcntl.LOCK_EX)
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(3600)"
subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)
pathlib.Path(sys.argv[2]).touch()
fcntl.flock(mine, fcntl.LOCK_UN)
time.sleep(3600)
"""


# Breaks if a checkpoint on its way does not get its seconds, or if a process of the program lives on.
def test_a_program_that_hangs_is_ended_when_its_checkpoint_is_committed(tmp_path: Path, endpoint: Endpoint) -> None:
    go, committed = tmp_path / "go", tmp_path / "committed"
    node = Node(tmp_path, endpoint, 0, [sys.executable, "-c", HANGS, str(go), str(committed)])
    endpoint.members.begin(1, node.uid)
    node.wait_for("deaf")
    below = psutil.Process(node.process.pid).children(recursive=True)
    assert len(below) == 2
    endpoint.members.begin(2, node.uid, "a pod that comes later")
    node.wait_for("attempt 2 begins")
    go.touch()
    verdict = node.told("ready", 1)["verdict"]
    assert (verdict["outcome"], verdict["reason"], verdict["signal"]) == ("failed", "Regrouped", 9)
    assert committed.exists()
    wait_for(lambda: not any(map(runs, below)), 5, "the processes to end that were killed")
    node.terminate()
    assert node.end()["reason"] == "LeftWithoutSaving"


def runs(process: psutil.Process) -> bool:
    """False too for one that was killed, and waits to be collected."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


FAILS_ONCE = """
import os, pathlib, sys
folder = pathlib.Path(os.environ["HOLDFAST_VERDICT_DIR"])
print("attempt", os.environ["HOLDFAST_ATTEMPT"], "runs", flush=True)
if os.environ["HOLDFAST_ATTEMPT"] == "1":
    told = '{"rank": 0, "result": "failed", "reason": "OutOfMemory", "message": "of 1", "step": 5}'
    (folder / "rank-0.json").write_text(told)
    sys.exit(1)
sys.exit("the second one fails too")
"""


# Breaks if what a rank wrote in one attempt counts in the next, or is told as the end of the next.
def test_the_verdict_of_an_older_attempt_is_not_told_for_a_newer_one(tmp_path: Path, endpoint: Endpoint) -> None:
    own = {"HOLDFAST_VERDICT_DIR": str(tmp_path / "verdicts")}
    node = Node(tmp_path, endpoint, 0, [sys.executable, "-c", FAILS_ONCE], **own)
    endpoint.members.begin(1, node.uid)
    first = node.told("ready", 1)["verdict"]
    assert (first["reason"], first["message"], first["step"]) == ("OutOfMemory", "of 1", 5)
    endpoint.members.begin(2, node.uid)
    assert "verdict" not in node.told("running", 2)
    second = node.told("ready", 2)["verdict"]
    assert (second["reason"], second.get("step")) == ("UserException", None)
    assert second["lastLines"] == ["the second one fails too"]
    endpoint.members.let_leave(node.uid)
    node.wait_for("no attempt follows: this pod ends")
    assert node.end() == second
    assert node.process.returncode == 1


# Breaks if a launcher that waits for the others does not end on SIGTERM, or says that a failure was its end.
@pytest.mark.parametrize("attempts", [0, 1])
def test_sigterm_while_no_program_runs(tmp_path: Path, endpoint: Endpoint, attempts: int) -> None:
    node = Node(tmp_path, endpoint, 1, [sys.executable, "-c", FAILS_ONCE])
    node.told("ready", 0)
    if attempts:
        endpoint.members.begin(1, node.uid)
        node.told("ready", 1)
    node.terminate()
    verdict = node.end()
    assert (verdict["outcome"], verdict["reason"]) == ("drained", "LeftWithoutSaving")
    assert (verdict.get("step"), node.process.returncode) == (5 if attempts else None, 143)


SAVES = """
import os, pathlib, signal, sys
verdict = pathlib.Path(os.environ["HOLDFAST_VERDICT_DIR"], "rank-0.json")
def leave(number, frame):
    verdict.write_text('{"rank": 0, "result": "saved", "message": "saved step 9", "step": 9, "savedStep": 9}')
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
if sys.argv[1:]: leave(0, None)
print("up", flush=True)
while True: signal.pause()
"""


# Breaks if a pod that has saved waits for another attempt after SIGTERM, or does not wait after an order alone.
@pytest.mark.parametrize("ordered", [True, False])
def test_a_program_that_saves_and_leaves(tmp_path: Path, endpoint: Endpoint, ordered: bool) -> None:
    options = ["ordered"] if ordered else []
    node = Node(tmp_path, endpoint, 0, [sys.executable, "-c", SAVES, *options])
    endpoint.members.begin(1, node.uid)
    if ordered:
        verdict = node.told("ready", 1)["verdict"]
        assert (verdict["outcome"], verdict["reason"], verdict["savedStep"]) == ("drained", "SavedAndLeft", 9)
    else:
        node.wait_for("up")
    node.terminate()
    verdict = node.end()
    assert (verdict["reason"], verdict["savedStep"], node.process.returncode) == ("SavedAndLeft", 9, 0)
    assert ordered or [one["state"] for one in endpoint.members.told] == ["ready", "running"]


WAITS = """
import os, pathlib, sys, time
print("attempt", os.environ["HOLDFAST_ATTEMPT"], "runs", flush=True)
while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)
sys.exit(os.environ["HOLDFAST_ATTEMPT"] == "1")
"""


# Breaks if a program ends because the operator is away, or if its end is not told when the operator is back.
def test_the_operator_is_away_while_the_program_runs_and_after_its_end(tmp_path: Path, endpoint: Endpoint) -> None:
    over = tmp_path / "over"
    node = Node(tmp_path, endpoint, 0, [sys.executable, "-c", WAITS, str(over)])
    endpoint.members.begin(1, node.uid)
    node.wait_for("attempt 1 runs")
    node.told("running", 1)
    endpoint.stop()
    node.wait_for("the program runs on")
    assert psutil.Process(node.process.pid).children()
    over.touch()
    node.wait_for("still asking")
    endpoint.start()
    assert node.told("ready", 1)["verdict"]["reason"] == "UserException"
    endpoint.members.begin(2, node.uid)
    assert node.end()["outcome"] == "completed"
    assert "attempt 2 runs" in node.output


# Breaks if a command that says itself where the nodes meet runs: each node would train alone.
def test_a_command_that_makes_a_world_of_its_own_is_refused(tmp_path: Path, endpoint: Endpoint) -> None:
    node = Node(tmp_path, endpoint, 0, ["torchrun", "--standalone", "train.py"])
    verdict = node.end()
    assert (verdict["outcome"], verdict["reason"], node.process.returncode) == ("misconfigured", "OptionRefused", 78)
    assert "--standalone" in verdict["message"]
    assert not endpoint.members.told


REPORTS = """
import os, time, urllib.request
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
headers = {"Authorization": f"Bearer {token}"}
url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
attempt = os.environ["HOLDFAST_ATTEMPT"].encode()
body = b'{"of": %s}' % attempt
print(urllib.request.urlopen(urllib.request.Request(url, body, headers)).read(), flush=True)
while attempt == b"1": time.sleep(1)
"""


# Breaks if a program of the second attempt reports for the first, or finds no relay.
def test_progress_without_the_library_belongs_to_its_attempt(tmp_path: Path, endpoint: Endpoint) -> None:
    nodes = [Node(tmp_path, endpoint, rank, [sys.executable, "-c", REPORTS]) for rank in range(2)]
    for attempt in (1, 2):
        endpoint.members.begin(attempt, *(node.uid for node in nodes))
        for node in nodes:
            node.wait_for(f'{{"of": {attempt}}}')
        relayed = ("Relay", attempt)
        endpoint.wait_for(lambda report, relayed=relayed: (report["sender"], report["attempt"]) == relayed)  # type: ignore[misc]
    assert [node.end()["outcome"] for node in nodes] == ["completed", "completed"]
