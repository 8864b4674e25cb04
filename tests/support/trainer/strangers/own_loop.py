"""A loop of one file that saves in one of several ways, and goes on from its newest save.

Usage: own_loop.py FOLDER STEPS SECONDS_A_STEP WAY. It notes a digest of its weights at the end.
"""

import hashlib
import os
import pickle
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file

State = dict[str, Any]
folder, steps, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def note(text: str) -> None:
    """Append a line to the file that the test reads."""
    with Path(os.environ.get("NOTES", os.devnull)).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


def numbered(name: str, last_file: str) -> list[Path]:
    """The whole folders of this name, the newest last."""
    found = (path for path in folder.glob(f"{name}*") if (path / last_file).exists())
    return sorted(found, key=lambda path: int(path.name.removeprefix(name)))


def rotate(found: list[Path]) -> None:
    """Keep the two newest ones."""
    for old in found[:-2]:
        shutil.rmtree(old)


class InPlace:
    path = folder / "ckpt.pt"

    def save(self, state: State) -> None:
        torch.save(state, self.path)

    def load(self, state: State) -> State | None:
        return torch.load(self.path) if self.path.exists() else None


class Replaced(InPlace):
    def save(self, state: State) -> None:
        torch.save(state, self.path.with_suffix(".tmp"))
        self.path.with_suffix(".tmp").replace(self.path)


class InRunFolder(InPlace):
    """The folder has a number of its own, and a log in it grows at each step."""

    path = folder / "resnet18_lr0.1_epochs_20" / "last.pth"


class Pickled(InPlace):
    """As joblib.dump writes it."""

    path = folder / "model.joblib"

    def save(self, state: State) -> None:
        with self.path.open("wb") as file:
            pickle.dump({name: value.numpy() for name, value in state.items()}, file, protocol=4)

    def load(self, state: State) -> State | None:
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            return {name: torch.from_numpy(value) for name, value in pickle.load(file).items()}


class Numbered:
    """Folders named as those of the Trainer of Hugging Face, without its state file."""

    def save(self, state: State) -> None:
        path = folder / f"checkpoint-{int(state['step'])}"
        path.mkdir(exist_ok=True)
        save_file(
            {name: value for name, value in state.items() if name not in ("step", "rng")}, path / "model.safetensors"
        )
        torch.save({"step": state["step"], "rng": state["rng"]}, path / "optimizer.pt")
        rotate(numbered("checkpoint-", "optimizer.pt"))

    def load(self, state: State) -> State | None:
        found = numbered("checkpoint-", "optimizer.pt")
        if not found:
            return None
        return {**load_file(found[-1] / "model.safetensors"), **torch.load(found[-1] / "optimizer.pt")}


class Distributed:
    """torch.distributed.checkpoint, without other ranks."""

    def save(self, state: State) -> None:
        dcp.save(state, checkpoint_id=folder / f"step-{int(state['step'])}", no_dist=True)
        rotate(numbered("step-", ".metadata"))

    def load(self, state: State) -> State | None:
        found = numbered("step-", ".metadata")
        if not found:
            return None
        dcp.load(state, checkpoint_id=found[-1], no_dist=True)
        return state


WAYS: dict[str, Callable[[], Any]] = {
    "in-place": InPlace, "replaced": Replaced, "in-run-folder": InRunFolder, "pickled": Pickled, "numbered": Numbered,
    "distributed": Distributed,
}  # fmt: skip


def main(way: Any) -> None:
    """Train."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(0.3), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    template = {**model.state_dict(), "rng": torch.get_rng_state(), "step": torch.tensor(0)}
    if (state := way.load(template)) is not None:
        step = int(state.pop("step"))
        torch.set_rng_state(state.pop("rng"))
        model.load_state_dict(state)
    note(f"start {step}")
    log = way.path.with_name("history.csv") if isinstance(way, InPlace) else folder / "history.csv"
    log.parent.mkdir(exist_ok=True)
    while step < steps:
        inputs = torch.randn(8, 4)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{step},{loss.item()}\n")
        time.sleep(seconds)
        if step % 10 == 0:
            way.save({**model.state_dict(), "rng": torch.get_rng_state(), "step": torch.tensor(step)})
            note(f"saved {step}")
    digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
    note(f"result {digest.hexdigest()}")


main(WAYS[sys.argv[4]]())
