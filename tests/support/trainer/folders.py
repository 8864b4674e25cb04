"""Checkpoints as programs write them into a folder, what is saved of them, and a pod with checkpoint.folder."""

import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

from tests.support.trainer.pod_settings import pod_variables
from tests.support.trainer.stores import LAUNCHER

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.environment import Identity
from holdfast_train.folder.commit import FolderCommits
from holdfast_train.folder.layouts import Unit, find
from holdfast_train.folder.look import look
from holdfast_train.storage.folder import FolderStorage

TRAINER = """
import json, os, pathlib, signal, sys, time
root, save_on_signal, last = pathlib.Path(sys.argv[1]), sys.argv[2] == "yes", int(sys.argv[3])
def save(step):
    path = root / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"%d" % step * 300_000)
    (path / "tokenizer.json").write_bytes(b"t" * 2_000_000)
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
def leave(*_):
    if save_on_signal:
        save(step + 1)
    os._exit(0 if save_on_signal else 143)
step = max((int(p.name.split("-")[1]) for p in root.glob("checkpoint-*[0-9]")), default=0)
print("resumed", step, flush=True)
signal.signal(signal.SIGTERM, leave)
while step < last:
    step += 10
    save(step)
    print("step", step, flush=True)
    go = root / f"go-{step}"
    while step < last and not go.exists():
        time.sleep(0.02)
"""


def identity(attempt: int = 1) -> Identity:
    return Identity("team", "job", "uid", attempt, f"pod-{attempt}")


def archive(path: Path, content: bytes = b"weights") -> Path:
    """A file as torch.save writes it: a ZIP archive without compression."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", content)
    return path


def hugging_face(root: Path, step: int, weights: bytes = b"w" * 1_500_000, name: str = "checkpoint") -> Path:
    """A folder as the Trainer of Hugging Face writes it."""
    path = root / f"{name}-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(weights)
    (path / "tokenizer.json").write_bytes(b"t" * 1_200_000)
    (path / "sub").mkdir()
    (path / "sub" / "small.txt").write_text(f"step {step}")
    state = {"global_step": step, "log_history": [{"loss": 2.5, "step": 1}, {"loss": 1.25, "step": step}]}
    (path / "trainer_state.json").write_text(json.dumps(state))
    return path


class SavedFolder:
    """The folder `outputs` of a program, and the `store` of its job, below `place`. Attempt 1 holds the fence."""

    def __init__(self, place: Path, keep: int = 2) -> None:
        self.storage = FolderStorage(place / "store")
        self.root = place / "outputs"
        self.checkpoints = Checkpoints(self.storage, identity(), Keep(last=keep))
        self.checkpoints.start("Auto")
        self.commits = FolderCommits(self.checkpoints, self.storage, self.root)

    def unit(self, step: int) -> Unit:
        """The checkpoint of this step in the folder."""
        return next(u for u in find(look(self.root)) if u.step == step)

    @property
    def stored(self) -> int:
        """Bytes of data in the storage."""
        return sum(entry.size for entry in self.storage.entries("data/"))


def content(root: Path) -> dict[str, bytes]:
    """All files below `root`."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def pod(root: Path, uri: str, attempt: int, log: Path, **more: Any) -> dict[str, str]:
    """The environment of a pod with checkpoint.folder."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    own = {
        "HOLDFAST_NAMESPACE": "team",
        "HOLDFAST_JOB": "job",
        "HOLDFAST_JOB_UID": "uid",
        "HOLDFAST_ATTEMPT": str(attempt),
        "HOLDFAST_POD_UID": f"pod-{attempt}",
        "checkpoint_uri": uri,
        "folder": str(root),
        "grace": 20,
        "HOLDFAST_TERMINATION_LOG": str(log),
    }
    return pod_variables(kept, **(own | more))


def command(root: Path, *, saves_on_signal: bool, last: int = 1000) -> list[str]:
    """The launcher with a program that saves every 10 steps, and after each waits for the file `go-STEP`."""
    yes = "yes" if saves_on_signal else "no"
    return [sys.executable, str(LAUNCHER), "--", sys.executable, "-c", TRAINER, str(root), yes, str(last)]
