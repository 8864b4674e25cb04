"""A loop with torch alone, as most people write it. Each node has a folder of its own, or all have the same.

`last`: rank 0 writes `last.pt`, and all ranks load it. `parts`: each rank writes `step-N/rankR.pt`, with the state of
its random numbers, and deletes what it has written two saves before.
"""

import os
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from tests.support.trainer.strangers.on_nodes.notes import Notes
from torch.nn.parallel import DistributedDataParallel

STEPS, EVERY, KEPT = 8, 2, 2


def newest(folder: Path, mode: str, rank: int) -> Path | None:
    """The file from which the rank resumes."""
    if mode == "last":
        return folder / "last.pt" if (folder / "last.pt").exists() else None
    found = folder.glob(f"step-*/rank{rank}.pt")
    return max(found, key=lambda path: int(path.parent.name.removeprefix("step-")), default=None)


def save(state: object, folder: Path, mode: str, step: int) -> None:
    """Write a save, and delete old ones."""
    rank = dist.get_rank()
    if mode == "last":
        if rank == 0:
            torch.save(state, folder / "last.pt.tmp")
            (folder / "last.pt.tmp").replace(folder / "last.pt")
        dist.barrier()
        return
    (folder / f"step-{step}").mkdir(exist_ok=True)
    torch.save(state, folder / f"step-{step}" / f"rank{rank}.pt")
    dist.barrier()
    if os.environ["LOCAL_RANK"] == "0":
        shutil.rmtree(folder / f"step-{step - KEPT * EVERY}", ignore_errors=True)


def main(mode: str, root: str, place: str, holds: str) -> None:
    """Train."""
    notes, folder = Notes(place, holds), Path(root)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    dropout = 0.3 if mode == "parts" else 0.0  # `last.pt` has no random numbers of the other ranks
    layers = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(dropout), torch.nn.Linear(16, 1))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first = 0
    if (path := newest(folder, mode, rank)) is not None:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        first = state["step"]
    notes.start(first)
    for step in range(first + 1, STEPS + 1):
        inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(1000 * step + rank))
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        notes.loss(step, loss.item())
        if step % EVERY == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            save({**state, "random": torch.get_rng_state()}, folder, mode, step)
            notes.saved(step)
    notes.result(model.state_dict().values())
    dist.destroy_process_group()
