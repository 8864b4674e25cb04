"""A training in plain PyTorch that knows nothing of Holdfast.

Usage: plain.py FOLDER STEPS SECONDS_A_STEP [lightning]. Every SAVE_STEPS steps it saves with torch.save, under a
name such as step-20.pt. With `lightning` the names are those of Lightning with save_last="link". It keeps the newest
file alone, and resumes from it. At the end it prints the losses of all steps and a digest of its weights.
"""

import hashlib
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import torch

SAVE_STEPS = 10


def note(text: str) -> None:
    """Append a line to the file that the test reads: output of a pod that is gone is gone."""
    if path := os.environ.get("NOTES"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")


def newest(folder: Path) -> tuple[int, Path] | None:
    """The newest file with a step in its name, and the step."""
    named = ((re.search(r"step[-=](\d+)\.(?:pt|ckpt)$", path.name), path) for path in folder.iterdir())
    found = [(int(name[1]), path) for name, path in named if name]
    return max(found, default=None)


def main(where: str, steps: str, seconds: str, mode: str = "") -> None:
    """Train."""
    folder = Path(where)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(0.3), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    step = 0
    losses: list[float] = []
    if (known := newest(folder)) is not None:
        state = torch.load(known[1], weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        step, losses = state["step"], state["losses"]
    note(f"start {step}")
    while step < int(steps):
        time.sleep(float(seconds))
        inputs = torch.randn(8, 4)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        losses = [*losses, loss.item()]
        note("step")
        if step % SAVE_STEPS == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
            save(folder, mode, {**state, "step": step, "losses": losses})
    digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
    print("RESULT", json.dumps([losses, digest.hexdigest()]), flush=True)


def save(folder: Path, mode: str, state: dict[str, Any]) -> None:
    """Save, and delete the file before this one."""
    before, step = newest(folder), state["step"]
    path = folder / (f"epoch=0-step={step}.ckpt" if mode == "lightning" else f"step-{step}.pt")
    torch.save(state, path)
    if mode == "lightning":
        last = folder / "last.ckpt"
        last.unlink(missing_ok=True)
        last.symlink_to(path.name)
    if before is not None and before[1] != path:
        before[1].unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
