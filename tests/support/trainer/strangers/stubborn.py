"""A script that ignores SIGTERM, as do its children, and that floods its output.

Usage: stubborn.py FOLDER STEPS SECONDS_A_STEP. Children: a process that never ends, in a session of its own, and
workers of a data loader. Output: bytes of no text, long lines without an end, carriage returns. A checkpoint is a
folder with blanks and accents in its name, with a file of tensors and one of JSON, and a link names the newest one. It
notes a digest of its weights at the end.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def note(text: str) -> None:
    """Append a line to the file that the test reads."""
    with Path(os.environ.get("NOTES", os.devnull)).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


folder, steps, seconds = Path(sys.argv[1]) / "rün 1", int(sys.argv[2]), float(sys.argv[3])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "HOLDFAST_JOB" in os.environ:
    subprocess.Popen(["sleep", "infinity"], start_new_session=True)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
first, latest = 0, folder / "latest"
if latest.exists():
    model.load_state_dict(load_file(latest / "weights.safetensors"))
    first = json.loads((latest / "état.json").read_text(encoding="utf-8"))["step"]
note(f"start {first}")


class Data(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return steps

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(8, 4, generator=torch.Generator().manual_seed(index))


loader = torch.utils.data.DataLoader(Data(), batch_size=None, sampler=list(range(first, steps)), num_workers=2)
for step, inputs in enumerate(loader, first + 1):
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    sys.stdout.buffer.write(b"\xff\xfe\x1b[2J" + b"x" * 200_000 + b"\r")
    sys.stdout.buffer.write(f"\rloss={loss.item():.4f} at {step} of {steps}\n".encode())
    sys.stdout.flush()
    time.sleep(seconds)
    if step % 10 == 0:
        path = folder / f"step {step}"
        path.mkdir(parents=True, exist_ok=True)
        save_file(model.state_dict(), path / "weights.safetensors")
        (path / "état.json").write_text(json.dumps({"step": step}), encoding="utf-8")
        old = latest.resolve()
        latest.unlink(missing_ok=True)
        latest.symlink_to(path.name)
        note(f"saved {step}")
        if old != path and old.name.startswith("step ") and step > 60:
            shutil.rmtree(old.with_name(f"step {step - 60}"), ignore_errors=True)
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
note(f"result {digest.hexdigest()}")
