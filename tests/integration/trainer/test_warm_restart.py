"""Programs start again in their pods: they read from memory what their saves have copied, and from storage the rest."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.nodes import Node

from holdfast_protocol.settings import Every

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]  # each of two attempts starts torch four times

PROGRAM = """
import os, signal, sys, torch, torch.distributed as dist
import time
from torch import nn
from holdfast_train import Run
from holdfast_train.format.copy_note import CopyNote
from holdfast_train.keeper_memory import KeeperMemory
from holdfast_train.restore import shared_by_node
from holdfast_train.save import arena, capture

shared_by_node._node = lambda rank: rank  # the two nodes are one machine, on which ranks would read together
how, end, arenas = sys.argv[1], sys.argv[2], int(sys.argv[3])
arena.ARENAS = arenas
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), os.environ["HOLDFAST_ATTEMPT"]
torch.manual_seed(7 + rank)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
if how == "sharded":
    from torch.distributed.fsdp import fully_shard
    fully_shard(model)
else:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

def wait_for_copies(of):  # until the launcher keeps what the newest save of these ranks has copied
    while True:
        kept = KeeperMemory(os.environ["HOLDFAST_KEEPER"]).list().notes
        found = [CopyNote.decode(note).name.step for of_rank in map(kept.get, of) for note in of_rank or ()]
        if sum(step > 4 for step in found) == len(of):
            return max(found)
        time.sleep(0.05)

def die_in_the_middle(self, copy):  # of the next copy of the state
    before(self, copy)
    if copy.stop - copy.start >= 1 << 19:
        os.kill(os.getpid(), signal.SIGKILL)

with Run(model=model, optimizer=optimizer) as run:
    for step in run.steps(9):
        if end == "twice" and attempt == "2" and rank == 1:
            raise RuntimeError("again, before the first save")
        loss = (model(torch.randn(8, 512)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} attempt {attempt} step {step} loss {loss.item().hex()} \\n", end="", flush=True)
        if step == 3:
            run.save()
        if step == 7 and attempt == "1":
            dist.barrier()
            if end in ("uncommitted", "sent", "twice"):
                copied = wait_for_copies([0, 1] if end == "sent" else [rank])
                print(f"copied step {copied}", flush=True)
            if end == "killed" and rank == 1:
                before, capture.Capture._copy = capture.Capture._copy, die_in_the_middle
            if end == "killed":
                run.save()
            elif rank == 1:
                raise RuntimeError("a test")
dist.destroy_process_group()
"""
READ = re.compile(r"read ([\d.]+) MiB from the memory of this node, ([\d.]+) MiB from other nodes, ([\d.]+) MiB")


@pytest.fixture(autouse=True)
def nodes_end() -> Iterator[None]:
    yield
    Node.end_all()


class Training:
    """Two nodes, whose program ends in its first attempt after step 7; step 3 is saved."""

    def __init__(self, folder: Path, endpoint: Endpoint, how: str, end: str, arenas: int = 2, **variables: str) -> None:
        self.variables = variables
        self.prefix = folder / "prefix"
        script = folder / "train.py"
        script.write_text(PROGRAM)
        self.command = [sys.executable, "-m", "torch.distributed.run", str(script), how, end, str(arenas)]
        self.folder, self.endpoint = folder, endpoint
        self.lost: Node | None = None
        self.nodes = [self.node(rank) for rank in range(2)]
        endpoint.members.begin(1, *(node.uid for node in self.nodes))
        self.nodes[1].told("ready", 1, 300)

    def node(self, rank: int) -> Node:
        return Node(self.folder, self.endpoint, rank, self.command, uri=f"file://{self.prefix}", **self.variables)

    def destroy_data(self) -> None:
        """Nothing can be restored from the storage any more."""
        parts = [path for path in self.prefix.glob("data/*/r*") if path.stat().st_size > 4096]
        assert parts
        for path in parts:
            path.chmod(0o600)
            path.write_bytes(bytes(path.stat().st_size))

    def lose(self, rank: int) -> None:
        """The pod of a rank, whose program has ended, is replaced: its memory is gone."""
        self.nodes[rank].terminate()
        self.nodes[rank].end()
        self.lost = self.nodes[rank]
        self.nodes[rank] = self.node(rank)

    def go_on(self, step: int = 4, attempt: int = 2) -> None:
        """Start an attempt, and wait for its end: it begins after `step`, with the losses of the first one."""
        self.endpoint.members.begin(attempt, *(node.uid for node in self.nodes))
        for rank, node in enumerate(self.nodes):
            assert node.end(300)["outcome"] == "completed", node.output
            assert f"resumed from step {step} " in node.output
            of_both = [self.losses(rank, number) for number in (1, attempt)]
            assert sorted(of_both[1]) == list(range(step, 9))
            assert all(of_both[0].get(step, loss) == loss for step, loss in of_both[1].items())

    @property
    def copied(self) -> int:
        """The step of the newest copy in memory, which the storage does not have."""
        (found,) = {int(step) for step in re.findall(r"copied step (\d+)", "".join(n.output for n in self.nodes))}
        assert found > 4
        return found

    def losses(self, rank: int, attempt: int) -> dict[int, str]:
        form = re.compile(rf"rank {rank} attempt {attempt} step (\d+) loss (\S+) ")
        return {
            int(step): loss
            for node in (*self.nodes, *filter(None, [self.lost]))
            for step, loss in form.findall(node.output)
        }

    def read(self, rank: int) -> list[float]:
        """MiB that a rank has read from its node, from others and from the storage."""
        found = READ.search(self.nodes[rank].output)
        return [] if found is None else [float(number) for number in found.groups()]


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["sharded", "replicated"])
def test_a_warm_restart_reads_nothing_from_the_storage(tmp_path: Path, endpoint: Endpoint, how: str) -> None:
    """Breaks if the copies are lost with their processes, or if a rank does not find those of other nodes."""
    training = Training(tmp_path, endpoint, how, "fails")
    training.destroy_data()
    training.go_on()
    here, there, storage = map(sum, zip(*(training.read(rank) for rank in range(2)), strict=True))
    assert here > 5
    assert storage == 0
    assert (there > 5) is (how == "replicated"), "each node has copied half of what is alike"


@pytest.mark.thorough
def test_a_copy_that_was_cut_short_is_not_used(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if a state is made of bytes of two steps: the only arena of each rank has a part of a newer one."""
    training = Training(tmp_path, endpoint, "sharded", "killed", arenas=1)
    training.go_on()
    for rank in range(2):
        assert (training.read(rank) or [0, 0, 6])[2] > 5, "what is read from memory is what the kill has left"


@pytest.mark.thorough
def test_a_new_node_reads_from_the_others(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if losing one node makes all of them read the storage, or if its own part is read from nowhere."""
    training = Training(tmp_path, endpoint, "replicated", "fails")
    training.lose(1)
    training.go_on()
    here, there, storage = map(sum, zip(*(training.read(rank) for rank in range(2)), strict=True))
    assert here > 5, "the half that the survivor has copied"
    assert there > 5, "the same half, on the new node"
    assert 10 < storage < 14, "the half of the node that is lost, on both"


SLOW = {"every": Every(6), "upload_rate": 1}  # no later save is committed


@pytest.mark.thorough
def test_no_step_that_was_copied_is_trained_again(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if the next attempt takes the newest commit although the memory of the nodes has a later step."""
    training = Training(tmp_path, endpoint, "replicated", "uncommitted", **SLOW)
    training.destroy_data()
    training.go_on(training.copied)
    assert "no checkpoint of this step was committed" in training.nodes[0].output
    assert sum(training.read(rank)[2] for rank in range(2)) == 0


@pytest.mark.thorough
def test_a_second_failure_before_the_first_save_costs_nothing_either(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if an attempt frees the copies that it has gone on from before it has made newer ones."""
    training = Training(tmp_path, endpoint, "sharded", "twice", **SLOW)
    training.endpoint.members.begin(2, *(node.uid for node in training.nodes))
    training.nodes[1].told("ready", 2, 300)
    training.go_on(training.copied, attempt=3)


@pytest.mark.thorough
def test_without_peers_a_lost_node_costs_the_steps_since_the_commit(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if a state is put together of which one node's part is missing."""
    training = Training(tmp_path, endpoint, "sharded", "uncommitted", **SLOW)
    training.lose(1)
    training.go_on(4)


@pytest.mark.thorough
def test_with_peers_a_lost_node_costs_no_step_that_was_copied(tmp_path: Path, endpoint: Endpoint) -> None:
    """Breaks if no other node has what the lost node had copied, or if nobody reads it there."""
    training = Training(tmp_path, endpoint, "sharded", "sent", **SLOW, peers=True)
    copied = training.copied
    training.destroy_data()
    training.lose(1)
    training.go_on(copied)
    assert sum(training.read(rank)[2] for rank in range(2)) == 0, "nothing is read from the storage"
