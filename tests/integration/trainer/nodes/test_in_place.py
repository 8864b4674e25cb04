"""Programs stay in their processes when the training starts again on its nodes: `holdfast_train.restart_in_place`."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.nodes import Node

from holdfast_protocol.document import decode
from holdfast_protocol.hang import Hang, at_fault
from holdfast_protocol.settings import Stall
from holdfast_train.pod import evidence
from holdfast_train.storage.folder import FolderStorage

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]  # on a busy machine each start of torch takes a minute

PROGRAM = """
import os, pathlib, random, signal, sys, threading, time, torch, torch.distributed as dist
from torch import nn
from holdfast_train import Run, restart_in_place
from holdfast_train.run import in_place

in_place.CLEAN_SECONDS, in_place.JOIN_SECONDS, in_place.COLLECT_SECONDS = 90.0, 60.0, 20.0  # on a busy machine too
what, victim, goal = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kept = []

def train():
    rank, attempt = int(os.environ["RANK"]), os.environ["HOLDFAST_ATTEMPT"]
    dist.init_process_group("gloo")
    random.seed(rank)
    torch.manual_seed(7 + rank)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 8))
    ranks = dist.get_world_size()
    if ranks == 2:  # with more its sums depend on whether it has done its first step, also after any other restart
        model = nn.parallel.DistributedDataParallel(model)
    else:
        for parameter in model.parameters(): dist.broadcast(parameter.data, 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with Run(model=model, optimizer=optimizer) as run:
        for step in run.steps(goal):
            loss = (model(torch.randn(8, 256)) - random.random()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            for parameter in model.parameters() if ranks > 2 else ():
                dist.all_reduce(parameter.grad)
                parameter.grad /= ranks
            optimizer.step()
            run.report(loss=loss, samples=8)
            line = f"rank {rank} attempt {attempt} step {step} loss {loss.item().hex()} pid {os.getpid()}"
            os.write(1, f"{line} \\n".encode())
            if step == 3:
                run.save()
            if step == 7 and attempt == "1":
                if rank == victim and what == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if rank == victim and what == "fails":
                    raise RuntimeError("a test")
                if what == "hangs":
                    os.write(1, f"rank {rank} hangs \\n".encode())
                    while rank == victim: time.sleep(1)
                if what == "waits":
                    os.write(1, f"rank {rank} waits \\n".encode())
                if what == "keeps":
                    kept.append(run)
                    if rank == victim: os.kill(os.getpid(), signal.SIGKILL)
            if what == "waits" and attempt == "1":
                time.sleep(0.05)
    maps = pathlib.Path("/proc/self/maps").read_text()
    names = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast-"))
    os.write(1, f"rank {rank} has {maps.count('holdfast-arena')} arenas, threads {len(names)} {names} \\n".encode())
    dist.destroy_process_group()
    return "the value"

print("returned", restart_in_place(train), flush=True)
"""
STEP = r"rank {} attempt {} step (\d+) loss (\S+) pid (\d+) "


@pytest.fixture(autouse=True)
def nodes_end() -> Iterator[None]:
    yield
    Node.end_all()


class Training:
    """A training whose first attempt ends after 7 steps, because `what` befalls the rank `victim`."""

    def __init__(
        self, folder: Path, endpoint: Endpoint, what: str, *, ranks: int, victim: int, goal: int = 10, **more: str
    ) -> None:
        folder.mkdir(exist_ok=True)
        script = folder / "train.py"
        script.write_text(PROGRAM)
        self.endpoint = endpoint
        command = [sys.executable, str(script), what, str(victim), str(goal)]
        more = {"warm_start": False, "gates": ("RestartInPlace",), "uri": f"file://{folder}/prefix"} | more
        self.nodes = [Node(folder, endpoint, rank, command, nodes=ranks, **more) for rank in range(ranks)]

    def begin(self, attempt: int) -> None:
        """All programs start, or go on."""
        self.endpoint.members.begin(attempt, *(node.uid for node in self.nodes))

    def end(self) -> None:
        """Wait until all have completed the training."""
        for node in self.nodes:
            assert node.end(300)["outcome"] == "completed", node.output
            assert "returned the value" in node.output

    def losses(self, rank: int, attempt: int) -> dict[int, str]:
        """By step."""
        found = re.findall(STEP.format(rank, attempt), self.nodes[rank].output)
        return {int(step): loss for step, loss, _ in found}

    def process(self, rank: int, attempt: int) -> int:
        """The process of one rank in one attempt."""
        (found,) = {int(pid) for _, _, pid in re.findall(STEP.format(rank, attempt), self.nodes[rank].output)}
        return found


@pytest.mark.thorough
def test_survivors_keep_their_processes_and_the_losses_are_those_without_a_fault(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    """Breaks if a survivor starts again, if anything of the first attempt acts on, or if a generator goes on."""
    calm = Training(tmp_path / "calm", endpoint, "nothing", ranks=3, victim=1)
    calm.begin(1)
    calm.end()
    training = Training(tmp_path / "killed", endpoint, "killed", ranks=3, victim=1)
    training.begin(1)
    verdicts = [node.told("ready", 1, 300)["verdict"] for node in training.nodes]
    assert [verdict.get("peer") for verdict in verdicts] == [True, None, True]
    assert verdicts[1]["signal"] == 9
    training.begin(2)
    training.end()
    for rank, node in enumerate(training.nodes):
        assert training.losses(rank, 2) == {s: loss for s, loss in calm.losses(rank, 1).items() if s > 3}
        assert (training.process(rank, 1) == training.process(rank, 2)) is (rank != 1)
        assert ("the program goes on in its process" in node.output) is (rank != 1)
        (arenas,) = re.findall(rf"rank {rank} has (\d+) arenas", node.output)
        assert int(arenas) <= 2, "the arenas of the first attempt are still mapped"


@pytest.mark.thorough
def test_a_program_whose_own_rank_fails_starts_in_a_new_process(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if a process goes on after an error of its own, which may have left anything behind."""
    training = Training(tmp_path, endpoint, "fails", ranks=2, victim=1)
    training.begin(1)
    verdicts = [node.told("ready", 1, 300)["verdict"] for node in training.nodes]
    assert (verdicts[1]["message"], verdicts[1]["exitCode"]) == ("RuntimeError: a test", 1)
    training.begin(2)
    training.end()
    assert training.process(0, 1) == training.process(0, 2)
    assert training.process(1, 1) != training.process(1, 2)


@pytest.mark.thorough
def test_a_program_that_does_not_come_back_is_killed(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if a newer attempt waits for a function that hangs, or for a collective that gloo cannot end."""
    training = Training(tmp_path, endpoint, "hangs", ranks=2, victim=1)
    training.begin(1)
    for rank in (0, 1):
        training.nodes[rank].wait_for(f"rank {rank} hangs", 300)
    training.begin(2)
    for node in training.nodes:
        verdict = node.told("ready", 1, 300)["verdict"]
        assert (verdict["reason"], verdict["signal"]) == ("Regrouped", 9)
    training.end()
    assert all(training.process(rank, 1) != training.process(rank, 2) for rank in (0, 1))


@pytest.mark.thorough
def test_beside_a_process_that_waits(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if the process that waits, or the one that goes on, is ended because of the other one."""
    training = Training(tmp_path, endpoint, "waits", ranks=2, victim=1, goal=1000, warm_start=True)
    training.begin(1)
    for node in training.nodes:
        node.wait_for("1 processes wait for the next attempt", 240)
    os.kill(training.process(1, 1), signal.SIGKILL)
    for node in training.nodes:
        node.told("ready", 1, 300)
    training.begin(2)
    training.end()
    first, second = (node.output for node in training.nodes)
    assert "the program goes on in its process" in first
    assert "the program starts in a process that has imported torch" in second
    assert training.process(0, 1) == training.process(0, 2)
    assert first.count("wait for the next attempt") == 1
    assert "has ended" not in first + second


@pytest.mark.thorough
def test_a_training_that_hangs_is_ended_as_stalled(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if a process that hangs is kept for the next attempt, or if one node ends before the other is asked."""
    training = Training(tmp_path, endpoint, "hangs", ranks=2, victim=1, stall=Stall(3))
    training.begin(1)
    verdicts = [node.told("ready", 1, 300)["verdict"] for node in training.nodes]
    assert [verdict["reason"] for verdict in verdicts] == ["Stalled"] * 2
    hangs = {rank: decode(Hang, verdict["hang"]) for rank, verdict in enumerate(verdicts)}
    assert [fault.rank for fault in at_fault(hangs)] == [1], hangs
    kept = evidence.read(FolderStorage(tmp_path / "prefix"))
    assert [one["node"] for one in kept] == [0, 1]
    training.begin(2)
    training.end()
    assert training.process(1, 1) != training.process(1, 2)


@pytest.mark.thorough
def test_a_program_that_trains_comes_back_when_a_newer_attempt_begins(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if the order does not reach a loop that trains, or if an order of the first attempt ends the second."""
    training = Training(tmp_path, endpoint, "waits", ranks=2, victim=1, goal=1000)
    training.begin(1)
    for rank in (0, 1):
        training.nodes[rank].wait_for(f"rank {rank} waits", 300)
    training.begin(2)
    for node in training.nodes:
        verdict = node.told("ready", 1, 300)["verdict"]
        assert (verdict["outcome"], verdict["reason"]) == ("failed", "Regrouped")
    training.end()
    assert all(training.process(rank, 1) == training.process(rank, 2) for rank in (0, 1))


@pytest.mark.thorough
def test_a_program_that_keeps_its_run_starts_in_a_new_process(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if the state of two attempts is in memory at once."""
    training = Training(tmp_path, endpoint, "keeps", ranks=2, victim=1)
    training.begin(1)
    training.nodes[0].told("ready", 1, 300)
    training.begin(2)
    training.end()
    assert "its Run is still in memory" in training.nodes[0].output
    assert training.process(0, 1) != training.process(0, 2)


@pytest.mark.thorough
def test_a_node_that_has_to_go_and_the_others_go_on(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if a process that has saved and left ends before the next attempt, or stays after its pod has to go."""
    training = Training(tmp_path, endpoint, "waits", ranks=2, victim=1, goal=1000)
    training.begin(1)
    training.nodes[1].wait_for("rank 1 waits", 300)
    training.nodes[1].terminate()
    gone = training.nodes[1].end(60)
    assert (gone["reason"], training.nodes[1].process.returncode) == ("SavedAndLeft", 0)
    verdict = training.nodes[0].told("ready", 1, 300)["verdict"]
    assert (verdict["reason"], verdict["exitCode"], verdict["savedStep"]) == ("SavedAndLeft", 0, gone["savedStep"])
    old = training.nodes[0].output
    training.nodes[0].terminate()
    assert training.nodes[0].end()["reason"] == "SavedAndLeft", old
