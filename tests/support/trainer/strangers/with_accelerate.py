"""A loop with Accelerate, as its examples show it: `save_state` into folders `step_N`, and the newest one is loaded.

Usage: accelerate launch with_accelerate.py FOLDER STEPS SECONDS_A_STEP. The first rank notes a digest of its weights.
"""

import hashlib
import os
import sys
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from tqdm import tqdm


def note(text: str) -> None:
    """Append a line to the file that the test reads."""
    with Path(os.environ.get("NOTES", os.devnull)).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


folder, steps, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(16 * steps, 4))
model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=steps)
loader = torch.utils.data.DataLoader(data, batch_size=8)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
first = 0
saved = [entry for entry in os.scandir(folder) if entry.is_dir() and entry.name.startswith("step_")]
if saved:
    newest = max(saved, key=os.path.getctime)
    accelerator.print(f"Resumed from checkpoint: {newest.path}")
    accelerator.load_state(newest.path)
    first = int(newest.name.replace("step_", ""))
if accelerator.is_main_process:
    note(f"start {first}")
bar = tqdm(range(steps), disable=not accelerator.is_local_main_process)
bar.update(first)
for step, (inputs,) in enumerate(accelerator.skip_first_batches(loader, first), first + 1):
    if step > steps:
        break
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    bar.update(1)
    bar.set_postfix(loss=loss.item())
    time.sleep(seconds)
    if step % 10 == 0:
        accelerator.save_state(str(folder / f"step_{step}"))
        if accelerator.is_main_process:
            note(f"saved {step}")
accelerator.wait_for_everyone()
values = accelerator.unwrap_model(model).state_dict().values()
if accelerator.is_main_process:
    digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in values))
    note(f"result {digest.hexdigest()}")
accelerator.end_training()
