"""A script for several nodes without a shared folder: each rank saves its own part, and rank 0 the model.

Usage: parts_on_nodes.py FOLDER STEPS SECONDS_A_STEP. On SIGTERM to any rank all ranks save, and leave. Each rank notes
where it begins, what it saves, and at the end a digest of its weights.
"""

import hashlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

EVERY = 10

folder, steps, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(0.3), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters())
torch.manual_seed(rank + 1)  # other dropout and other data on each rank
told = torch.zeros(1)
signal.signal(signal.SIGTERM, lambda *_: told.fill_(1))


def note(text: str) -> None:
    """Append a line to the file that the test reads."""
    with Path(f"{os.environ['NOTES']}-{rank}").open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


def save(step: int) -> None:
    """Each rank its part; older saves go."""
    place = folder / f"step-{step}"
    place.mkdir(exist_ok=True)
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, place / "model.pt")
    torch.save({"step": step, "rng": torch.get_rng_state()}, place / f"rank-{rank}.pt")
    for old in saves()[:-2]:
        shutil.rmtree(folder / f"step-{old}", ignore_errors=True)  # the other rank may share the folder
    note(f"saved {step}")


def saves() -> list[int]:
    """The steps of the saves in the folder."""
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


first = max(saves(), default=0)
if first:
    place = folder / f"step-{first}"
    state = torch.load(place / "model.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(torch.load(place / f"rank-{rank}.pt")["rng"])
note(f"start {first}")
for step in range(first, steps):
    inputs = torch.randn(8, 4)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    print(f"step {step + 1} loss {loss.item():.5f}", flush=True)
    time.sleep(seconds)
    leaves = told.clone()
    dist.all_reduce(leaves)
    if leaves.item() or (step + 1) % EVERY == 0:
        save(step + 1)
    if leaves.item():
        dist.barrier()
        sys.exit(0)
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
note(f"result {digest.hexdigest()}")
dist.destroy_process_group()
