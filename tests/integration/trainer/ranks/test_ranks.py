"""Several ranks of torchrun save one checkpoint together: real processes, gloo, and a writer for each rank."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import REPOSITORY, identity, variables

from holdfast_protocol.settings import Every, Keep
from holdfast_train import load
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.storage.folder import FolderStorage

pytestmark = [pytest.mark.training, pytest.mark.thorough]  # torch is imported three times in each
PROGRAM: Final = """
import os, signal, sys
from datetime import timedelta
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from holdfast_train import Run

OLDER
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(300, 700))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

class Own:
    value = rank
    def state_dict(self):
        BEFORE
        return {"rank": self.value}
    def load_state_dict(self, state): self.value = state["rank"]

own = Own()
with Run(model=model, optimizer=optimizer, per_rank={"own": own}) as run:
    for step in run.steps(int(sys.argv[1])):
        model(torch.ones(4, 300) * (rank + 1)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        IN_STEP
print(f"rank={rank} sum={sum(p.detach().double().sum().item() for p in model.parameters()):.6f}", flush=True)
"""
BETWEEN: Final = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from holdfast_train import Run, Values

shape, kind = sys.argv[1:]
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(8, 8)
model = fully_shard(model) if kind == "fsdp" else DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
after = Values(loop=False)

def train():
    model(torch.ones(4, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

def save_on(asking, step):
    if rank == asking and run.step == step:
        assert not run.save()

with Run(model=model, optimizer=optimizer, after=after) as run:
    while shape == "advance" and run.step < 6:
        train()
        run.advance()
        save_on(0, 2)
    while shape == "break" and not run.should_stop:
        for step in run.steps(6):
            train()
            if step % 2:
                break
        save_on(0, 2)
    after.loop = True
    save_on(1, 6)
print("ended", flush=True)
"""

ALONE: Final = """
import sys
from datetime import timedelta
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from holdfast_train import Run

shape, kind = sys.argv[1:]
dist.init_process_group("gloo", timeout=timedelta(seconds=10))
model = torch.nn.Linear(8, 8)
model = DistributedDataParallel(model) if kind == "ddp" else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with Run(model=model, optimizer=optimizer) as run:
    for step in run.steps(12):
        model(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 5 and dist.get_rank() == 1:
            if shape == "finish":
                run.finish()
            elif shape == "break":
                break
            else:
                sys.exit(0)
"""


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path / "prefix")


def train(storage: FolderStorage, tmp_path: Path, before: str = "", older: str = "", in_step: str = "") -> str:
    """The output of two ranks that train for three steps. `before` runs where a rank gives its own state."""
    text = PROGRAM.replace("BEFORE", before).replace("OLDER", older).replace("IN_STEP", in_step)
    return run_ranks(storage, tmp_path, text, "3")


def run_ranks(storage: FolderStorage, tmp_path: Path, text: str, *arguments: str, **settings: object) -> str:
    """The output of two ranks that run the program `text`."""
    program = tmp_path / "program.py"
    program.write_text(text)
    env = {**os.environ, **variables(storage.uri, **settings), "PYTHONPATH": str(REPOSITORY / "images/trainer")}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program)]
    done = subprocess.run([*command, *arguments], env=env, capture_output=True, text=True, timeout=240, check=False)
    return done.stdout + done.stderr


# torch has had `clone` since 2.8.
@pytest.mark.parametrize("older", ["", "del dist.Store.clone"], ids=["torch", "older torch"])
def test_each_rank_writes_its_share(storage: FolderStorage, tmp_path: Path, older: str) -> None:
    said = train(storage, tmp_path, older=older)
    found = Checkpoints(storage, identity(2), Keep())
    found.log.refresh()
    restored = restore_whole(found)
    assert restored is not None, said
    weights = sum(value.double().sum().item() for value in restored.state["objects"]["model"].values())
    # Two processes write to one pipe: their lines may arrive joined.
    assert said.count("sum=") == said.count(f"sum={weights:.6f}") == 2
    assert [own["objects"]["own"]["rank"] for own in restored.ranks] == [0, 1]
    sizes = [storage.size(key) for key in storage.keys("data/") if key.endswith(".0")]
    assert len(sizes) == 2
    assert max(sizes) < 1.5 * min(sizes)


def test_a_rank_that_dies_while_it_saves_leaves_no_checkpoint_and_nobody_waiting(
    storage: FolderStorage, tmp_path: Path
) -> None:
    dies = "(rank == 1 and run.step == 3 and os.kill(os.getpid(), signal.SIGKILL))"
    said = train(storage, tmp_path, before=dies)
    found = Checkpoints(storage, identity(2), Keep())
    found.start("Auto")
    assert found.log.state.commits == (), said
    assert restore_whole(found) is None


# Breaks if a save that one rank alone asks for hangs: people write `if rank == 0: run.save()`.
def test_a_save_that_one_rank_asks_for_is_one_of_all_ranks(storage: FolderStorage, tmp_path: Path) -> None:
    said = train(storage, tmp_path, in_step="run.save() if rank == 0 and step == 0 else None")
    assert said.count("sum=") == 2, said
    steps = [int(Path(key).name[:12]) for key in storage.keys("manifests/")]
    assert len(steps) == 2
    assert steps[0] in (1, 2)
    assert steps[1] == 3


# Breaks if it waits for the other ranks, which go on to their next step, or to the end, and wait for this one there; or
# if the end takes a step that is saved for the state that the program has asked to save.
@pytest.mark.parametrize(("shape", "kind"), [("advance", "ddp"), ("break", "ddp"), ("break", "fsdp")])
def test_a_save_between_two_steps_that_one_rank_asks_for(
    storage: FolderStorage, tmp_path: Path, shape: str, kind: str
) -> None:
    said = run_ranks(storage, tmp_path, BETWEEN, shape, kind, every=Every(6))
    assert said.count("ended") == 2, said
    assert "run.save() was called between two steps of several ranks, after 2 steps" in said
    steps = [int(Path(key).name[:12]) for key in storage.keys("manifests/")]
    assert steps[0] in (2, 3)  # the step in which a loop was left ends where the next loop begins
    assert steps[-1] == 6
    assert load(storage.uri)["after"]["loop"] is True


# Breaks if ranks that end one by one wait for each other without end, or if nothing names the one that has ended.
@pytest.mark.parametrize("shape", ["finish", "break", "exit"])
@pytest.mark.parametrize("kind", ["plain", "ddp"])
def test_a_rank_that_ends_alone_is_named(storage: FolderStorage, tmp_path: Path, shape: str, kind: str) -> None:
    said = run_ranks(storage, tmp_path, ALONE, shape, kind, every=Every(4))
    assert "rank 1 has ended its training after step 6, and " in said
    assert "call run.finish() or leave the loop on every rank" in said
    found = Checkpoints(storage, identity(2), Keep())
    found.start("Auto")  # AlreadyCompleteError if the training were complete
