"""Programs on two nodes that start again in processes that have imported torch, with real torchrun."""

import re
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


# The second rank of the second node fails in attempts 1 and 2, once the test says so.
FAILS_TWICE = """
import dataclasses, multiprocessing, os, pathlib, pickle, sys, time, torch, zlib, torch.distributed as dist
from holdfast_train import Run
import beside

@dataclasses.dataclass
class Config: value: int

def work(config, answers): answers.put(Config(config.value + 1))

def main():
    dist.init_process_group("gloo")
    attempt, rank = int(os.environ["HOLDFAST_ATTEMPT"]), dist.get_rank()
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    child = context.Process(target=work, args=(Config(1), answers))
    child.start()
    found = answers.get()
    child.join()
    waited = b"HOLDFAST_SPARE=" in pathlib.Path("/proc/self/environ").read_bytes()
    seen = [sys.argv, sys.path[0], __file__, os.environ["OMP_NUM_THREADS"], os.environ["LOCAL_RANK"], sys.orig_argv,
            found, pickle.loads(pickle.dumps(found)), torch.ones(2).sum().item(), len(sys.modules) > 1000]
    print(f"attempt {attempt} rank {rank} waited {waited} sees {seen}\\n", end="", flush=True)
    go = pathlib.Path(sys.argv[1] + str(attempt))
    torch.manual_seed(7 + rank)
    model = torch.nn.Linear(64, 64)
    for value in model.parameters(): dist.broadcast(value.detach(), 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with Run(model=model, optimizer=optimizer) as run:
        for step in run.steps(10**6):
            loss = (torch.dropout(model(torch.randn(8, 64)), 0.5, True) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            for value in model.parameters(): dist.all_reduce(value.grad)  # DDP changes its order
            optimizer.step()
            weights = b"".join(value.detach().numpy().tobytes() for value in model.parameters())
            if step < 20: print(f"rank {rank} attempt {attempt} step {step} has {zlib.crc32(weights)}\\n", end="")
            if step == 3 and attempt == 1: run.save()
            goes = torch.tensor(go.exists() and step > 20)
            dist.broadcast(goes, 0)
            if goes and attempt < 3 and rank == 3: raise RuntimeError("a test")
            if goes and attempt == 3: break
            if step > 20: time.sleep(0.05)  # the imports of the processes that wait need the processor
    print(f"rank {rank} ended\\n", end="", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__": main()
"""
WAIT = "processes wait for the next attempt"


# Breaks if a rank starts as a new process, sees anything else than before, or if torchrun takes it for another rank; if
# its training differs in one bit, if the last lines of a failure are others; or if the third attempt cannot start as
# the second one did.
@pytest.mark.training
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_torchrun_and_its_ranks_start_in_processes_that_wait(tmp_path: Path, endpoint: Endpoint) -> None:
    (tmp_path / "train.py").write_text(FAILS_TWICE)
    (tmp_path / "beside.py").touch()
    command = [str(Path(sys.executable).with_name("torchrun")), str(tmp_path / "train.py"), str(tmp_path / "go")]
    more = {"uri": f"file://{tmp_path}/prefix", "PET_NPROC_PER_NODE": "2"}
    nodes = [Node(tmp_path, endpoint, rank, command, **more) for rank in range(2)]
    ends = []
    for attempt in (1, 2, 3):
        endpoint.members.begin(attempt, *(node.uid for node in nodes))
        for node in nodes:
            wait_for_line(node, f"3 {WAIT}", attempt)
        (tmp_path / f"go{attempt}").touch()
        if attempt < 3:
            ends.append(nodes[1].told("ready", attempt, 120)["verdict"])
    for rank, node in enumerate(nodes):
        assert node.end(120)["outcome"] == "completed", node.output
        assert node.output.count("the program starts in a process that has imported torch") == 2
        for local in range(2):
            lines = re.findall(rf"attempt (\d) rank {2 * rank + local} waited (\w+) sees (.*)", node.output)
            assert [line[:2] for line in lines] == [("1", "False"), ("2", "True"), ("3", "True")]
            assert len({line[2] for line in lines}) == 1
    for rank in range(4):
        lines = re.findall(rf"rank {rank} attempt (\d) step (\d+) has (\d+)", nodes[rank // 2].output)
        weights = {attempt: {step: sum_ for number, step, sum_ in lines if number == attempt} for attempt in "123"}
        assert set(weights["2"]) == set(weights["3"]) == {str(step) for step in range(4, 20)}
        assert weights["2"] == weights["3"] == {step: weights["1"][step] for step in weights["2"]}
    first, second = ([line for line in end["lastLines"] if "train.py" in line] for end in ends)
    assert first == second
    assert any(re.search("train.py.*line .* in main", line) for line in first)
    assert ends[0]["message"] == ends[1]["message"] == "RuntimeError: a test"
    assert not [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(one.info["cmdline"])]


def wait_for_line(node: Node, text: str, times: int) -> None:
    """Wait until a text has come that often."""
    try:
        wait_for(lambda: node.output.count(text) >= times or node.process.poll() is not None, 240, text)
    finally:
        assert node.output.count(text) >= times, node.output
