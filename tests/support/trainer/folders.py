"""Checkpoints as programs write them into a folder, what is saved of them, and a pod with checkpoint.folder."""

import json
import os
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.trainer.pod_settings import pod_variables
from tests.support.trainer.stores import LAUNCHER

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.environment import Identity
from holdfast_train.folder.capture import Capture
from holdfast_train.folder.commit import FolderCommits
from holdfast_train.folder.index import Index, read_index
from holdfast_train.folder.look import OWN, File, Look, look
from holdfast_train.folder.newest import NewestSave
from holdfast_train.folder.put_back import PutBack, put_back
from holdfast_train.storage.folder import FolderStorage

QUIET = 0.5  # seconds without a change after which a save of these programs is over: they write each one at once
TRAINER = """
import json, os, pathlib, signal, sys, time
root, save_on_signal, last = pathlib.Path(sys.argv[1]), sys.argv[2] == "yes", int(sys.argv[3])
def save(step):
    path = root / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"%d" % step * 300_000)
    (path / "tokenizer.json").write_text(json.dumps({"t": "t" * 2_000_000}))
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": []}))
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
    """The folder `outputs` of a program, and the `store` of its job, below `place`. `attempt` holds the fence."""

    def __init__(
        self,
        place: Path,
        keep: int = 2,
        attempt: int = 1,
        pattern: str | None = None,
        code: Mapping[str, str] | None = None,
    ) -> None:
        self.storage = FolderStorage(place / "store")
        self.root = place / "outputs"
        self.checkpoints = Checkpoints(self.storage, identity(attempt), Keep(last=keep))
        self.checkpoints.start("Auto")
        self.newest = NewestSave(self.root, pattern)
        self.capture = Capture(self.storage, self.root, self.newest, attempt)
        self.commits = FolderCommits(self.checkpoints, self.storage, code=code)

    def commit(
        self,
        moving: frozenset[str] = frozenset(),
        *,
        before: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
    ) -> Saved | None:
        """Commit the folder as it is. None if nothing in it is new.

        `before`, `after`: what the program does before and after the second look. All is read after that.
        """

        def again() -> Look:
            before()
            seen = look(self.root)
            after()
            return seen

        return self.commit_files(look(self.root).files, again, moving)

    def commit_files(
        self, files: Mapping[str, File], again: Callable[[], Look], moving: frozenset[str], *, is_storm: bool = False
    ) -> Saved | None:
        """Commit `files`: see `Capture.freeze`."""
        self.commits.prepare()
        try:
            self.capture.freeze(files, again, moving, is_storm=is_storm)
            made = self.commits.commit([self.capture.take()])
        except BaseException:
            self.commits.give_up(self.capture.give_up())
            raise
        if made is None:
            return None
        self.capture.note_committed(made.known)
        return made.saved

    @property
    def index(self) -> Index:
        """Of the newest commit, as the storage has it."""
        found = self.checkpoints.newest()
        assert found is not None
        return read_index(self.storage, found)

    def put_back(self, root: Path, **how: Any) -> PutBack:
        """Put the newest commit back into `root`."""
        root.mkdir(parents=True, exist_ok=True)
        return put_back(self.storage, self.index, root, **how)

    @property
    def names(self) -> set[str]:
        """The names below which the storage has data, those of indexes too."""
        return {key.split("/")[1] for key in self.storage.keys("data/")}

    @property
    def stored(self) -> int:
        """Bytes of data in the storage."""
        return sum(entry.size for entry in self.storage.entries("data/"))


def is_committed(store: Path, root: Path) -> bool:
    """Whether the newest commit of the job at `store` has the files of `root`, as their sizes and times say."""
    checkpoints = Checkpoints(FolderStorage(store), identity(99), Keep())
    checkpoints.log.refresh()
    if (found := checkpoints.newest()) is None:
        return False
    known = read_index(FolderStorage(store), found).files
    there = look(root).files
    return {path: saved.file.signature for path, saved in known.items()} == {p: f.signature for p, f in there.items()}


def content(root: Path) -> dict[str, bytes]:
    """All files below `root`, without Holdfast's own."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {name: path.read_bytes() for path in files if not (name := str(path.relative_to(root))).startswith(OWN)}


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
