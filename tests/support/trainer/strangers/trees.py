"""A script whose ranks save on SIGTERM. Usage: trees.py FOLDER fail|loader|ranks|spawn [HOW].

`fail`: it says why, and ends with 42. `loader`: each rank has workers of a data loader. `ranks`, `spawn`: two ranks of
gloo, started by torchrun, or by torch.multiprocessing in this process. A rank that saves waits for the file `go`.
HOW: how rank 1 ends.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from torch.utils.data import DataLoader

folder, kind = Path(sys.argv[1]), sys.argv[2]
how = sys.argv[3] if len(sys.argv) > 3 else ""


def save(*_: object) -> None:
    rank = os.environ.get("RANK", "0")
    (folder / f"saving-{rank}").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    torch.save({"step": 3}, folder / f"rank-{rank}.pt")
    sys.exit(0)


def end(rank: int) -> None:
    if rank == 1 and how == "exit":
        sys.exit(42)
    if rank == 1 and how == "segfault":
        ctypes.string_at(0)


def train(rank: int) -> None:
    signal.signal(signal.SIGTERM, save)
    if kind == "fail":
        sys.stderr.write("no data\n")
        sys.exit(42)
    if kind == "loader":
        batches = iter(DataLoader(range(10**9), num_workers=2))  # type: ignore[arg-type]
        next(batches)
        (folder / f"up-{rank}").touch()
        while True:
            next(batches)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    method = f"file://{folder}/group" if kind == "spawn" else "env://"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=2)
    dist.all_reduce(torch.zeros(1))
    end(rank)
    (folder / f"up-{rank}").touch()
    while True:  # without a collective, in which a rank would wait for one that saves already
        time.sleep(0.01)


if __name__ == "__main__":
    if kind == "spawn":
        spawn(train, nprocs=2)
    else:
        train(int(os.environ.get("RANK", "0")))
