"""Byte data for the language model: any folder of text, as one memory-mapped file of bytes."""

import glob
import hashlib
import os
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holdfast_train.data.permutation import in_epochs
from holdfast_train.errors import StateError
from holdfast_train.say import say

__all__ = ["ByteData", "build"]

SEPARATOR: Final = b"\0"  # between files; text does not contain it
VOCABULARY: Final = 256


def _cache_folder() -> Path:
    """The user's cache folder, or a temporary one where that cannot be written (a pod may have no home)."""
    base = os.environ.get("HOLDFAST_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    for folder in (Path(base) / "holdfast" / "data", Path(tempfile.gettempdir()) / f"holdfast-data-{os.getuid()}"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise StateError("no folder for the data cache can be written; set HOLDFAST_CACHE to one that can")


def _files(source: str, pattern: str) -> Iterator[Path]:
    root = Path(source)
    if root.is_file():
        yield root
        return
    skipped = ("site-packages", "dist-packages", "__pycache__", ".git")
    matches = root.glob(pattern) if root.is_dir() else map(Path, glob.glob(source, recursive=True))  # noqa: PTH207
    for path in sorted(matches):
        if path.is_file() and not any(part in skipped for part in path.parts):
            yield path


def build(source: str | None = None, pattern: str = "**/*.py") -> Path:
    """The file that holds all bytes of `source`: a file, a folder (its files that match `pattern`), or a glob.

    Built once and kept in the cache; by default the Python standard library's own source. StateError if there is none.
    """
    source = source or sysconfig.get_paths()["stdlib"]
    files = list(_files(source, pattern))
    if not files:
        raise StateError(f"--data {source!r} holds no file that matches {pattern!r}")
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    target = _cache_folder() / f"{hashlib.sha256(repr(stats).encode()).hexdigest()[:24]}.bin"
    if target.exists():
        return target
    # Under another name until it is whole: several ranks may build it at the same time.
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".building-", delete=False) as out:
        try:
            for path in files:
                out.write(path.read_bytes() + SEPARATOR)
        except OSError:
            Path(out.name).unlink(missing_ok=True)
            raise
    Path(out.name).replace(target)
    return target


class ByteData:
    """Windows of `length` + 1 bytes, shuffled anew in each epoch.

    Order and position follow from seed and step alone: the position is the step, and any number of ranks sees the same
    `batch` windows in one step.
    """

    def __init__(self, path: str | Path, *, length: int, batch: int, seed: int = 0) -> None:
        self._bytes: npt.NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        self._length, self._batch, self._seed = length, batch, seed
        self.windows = (len(self._bytes) - 1) // length
        if self.windows < batch:
            raise StateError(f"{path} has {self.windows} windows of {length} bytes, fewer than a batch of {batch}")
        self.step = 0

    def batch(self, step: int, rank: int = 0, ranks: int = 1) -> npt.NDArray[np.int64]:
        """The windows of `rank` for `step`: shape (batch / ranks, length + 1), values 0 to 255."""
        self.step = step + 1
        starts = self.numbers(step, rank, ranks) * self._length
        return np.stack([self._bytes[start : start + self._length + 1].astype(np.int64) for start in starts])

    def numbers(self, step: int, rank: int = 0, ranks: int = 1) -> npt.NDArray[np.int64]:
        """Which windows those are, each 0 to `windows` - 1: shape (batch / ranks)."""
        share = self._batch // ranks
        first = step * self._batch + rank * share
        return in_epochs(np.arange(first, first + share, dtype=np.int64), self.windows, self._seed)

    def state_dict(self) -> dict[str, Any]:
        """Position, and what it is a position in."""
        return {"step": self.step, "seed": self._seed, "batch": self._batch, **self._shape()}

    def fingerprint(self) -> dict[str, str]:
        """What a resume should find unchanged, in words."""
        words = {"seed": self._seed, "batch": self._batch, **self._shape()}
        return {word: str(value) for word, value in words.items()}

    def _shape(self) -> dict[str, int]:
        return {"length": self._length, "bytes": len(self._bytes)}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the position. StateError if the seed differs; other data is allowed, and said."""
        if (state["seed"], state["batch"]) != (self._seed, self._batch):
            raise StateError(
                f"the checkpoint was made with seed {state['seed']} and batch {state['batch']}, "
                f"not {self._seed} and {self._batch}: steps would not mean the same data"
            )
        if {key: state[key] for key in ("length", "bytes")} != self._shape():
            say("the data is not that of the checkpoint: training goes on with other windows")
        self.step = int(state["step"])
