"""A script of one file: a bar of tqdm, and `torch.save` over the same file, which is torn if it is killed meanwhile.

Usage: in_place.py FOLDER STEPS SECONDS_A_STEP. It notes a digest of its weights at the end.
"""

import hashlib
import os
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm


def note(text: str) -> None:
    """Append a line to the file that the test reads."""
    with Path(os.environ.get("NOTES", os.devnull)).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


folder, steps, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(0.3), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters())
first, path = 0, folder / "ckpt.pt"
if path.exists():
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    first = state["step"]
note(f"start {first}")
bar = tqdm(range(first, steps), initial=first, total=steps)
for step in bar:
    inputs = torch.randn(8, 4)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    bar.set_postfix(loss=loss.item())
    time.sleep(seconds)
    if (step + 1) % 10 == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
        torch.save({**state, "step": step + 1}, path)
        note(f"saved {step + 1}")
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
note(f"result {digest.hexdigest()}")
