"""A training in plain PyTorch that does not save safely, and knows nothing of Holdfast but how to wait for it.

Usage: saves_by_name.py FOLDER STEPS SECONDS_A_STEP SAVE_STEPS SECONDS_A_SAVE. It writes a save slowly, straight under
its name, keeps the newest two, and resumes from the newest. With several nodes each of them writes its own saves. After
a save it waits until the note of the folder changes, so that each save is a commit however slow the machine is. Of
several nodes only the first notes each commit, and the others wait for it.
"""

import io
import os
import sys
import time
from pathlib import Path

import torch

NOTE = ".holdfast-folder.json"


def by_step(folder: Path, rank: int) -> list[Path]:
    """The saves of this rank, the oldest first."""
    return sorted(folder.glob(f"rank-{rank}-step-*.pt"))


def save(path: Path, state: dict[str, object], seconds: float) -> None:
    """Write half of it, wait, and write the rest."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        time.sleep(seconds)
        file.write(data[len(data) // 2 :])


def wait_for_commit(note: Path, before: float) -> None:
    """Wait until the note is newer, for half a minute at most: nobody may be there who commits."""
    end = time.monotonic() + 30
    while changed(note) == before and time.monotonic() < end:
        time.sleep(0.05)


def changed(note: Path) -> float:
    """When the note was written; 0 without one."""
    return note.stat().st_mtime if note.exists() else 0.0


def main(where: str, steps: str, pace: str, every: str, slow: str) -> None:
    """Train."""
    folder, rank, size = Path(where), int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        torch.distributed.init_process_group("gloo")
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Dropout(0.3), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    step = 0
    if found := by_step(folder, rank):
        state = torch.load(found[-1], weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        step = state["step"]
    while step < int(steps):
        time.sleep(float(pace))
        inputs = torch.randn(8, 4)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if size > 1:
            for parameter in model.parameters():
                torch.distributed.all_reduce(parameter.grad)
        optimizer.step()
        step += 1
        if rank == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        if step % int(every) == 0:
            before = changed(folder / NOTE)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
            save(folder / f"rank-{rank}-step-{step:05}.pt", {**state, "step": step}, float(slow))
            for old in by_step(folder, rank)[:-2]:
                old.unlink()
            if rank == 0:
                wait_for_commit(folder / NOTE, before)
            if size > 1:
                torch.distributed.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
