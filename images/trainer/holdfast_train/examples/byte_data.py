"""Data for the language model: any folder of text as one memory-mapped file of bytes."""

import fnmatch
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

from holdfast_train import ElasticSampler

SEPARATOR: Final = b"\0"  # between files; text does not contain it
VOCABULARY: Final = 256
SKIPPED: Final = ("site-packages", "dist-packages", "__pycache__", ".git")


def _cache_folder() -> Path:
    """The user's cache folder, or a temporary folder if that cannot be written (a pod may have no home)."""
    base = os.environ.get("HOLDFAST_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    for folder in (Path(base) / "holdfast" / "data", Path(tempfile.gettempdir()) / f"holdfast-data-{os.getuid()}"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise ValueError("no folder for the data cache can be written; set HOLDFAST_CACHE to a folder that can")


def _files(source: str, pattern: str) -> Iterator[Path]:
    root = Path(source)
    if root.is_file():
        yield root
        return
    matches = _below(root, pattern) if root.is_dir() else map(Path, glob.glob(source, recursive=True))  # noqa: PTH207
    for path in sorted(matches):
        if path.is_file() and not any(part in SKIPPED for part in path.parts):
            yield path


def _below(root: Path, pattern: str) -> Iterator[Path]:
    """The files below `root` whose names match. Skipped folders are not entered: site-packages may have 100,000."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED]
        yield from (Path(folder, name) for name in fnmatch.filter(names, pattern))


def build(source: str | None = None, pattern: str = "*.py") -> Path:
    """A file with all bytes of `source`: of a file, of files below a folder whose names match `pattern`, or of a glob.

    It is built once and kept in the cache. Without `source`: the source code of Python's standard library. ValueError
    if no file matches.
    """
    source = source or sysconfig.get_paths()["stdlib"]
    files = list(_files(source, pattern))
    if not files:
        raise ValueError(f"--data {source!r} has no file that matches {pattern!r}")
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    target = _cache_folder() / f"{hashlib.sha256(repr(stats).encode()).hexdigest()[:24]}.bin"
    if target.exists():
        return target
    # Under a temporary name until it is complete: several ranks may build it at the same time.
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
    """Windows of `length` + 1 bytes, in a new random order in each epoch.

    The order depends on the seed alone, and the position is the step: any number of ranks sees the same `batch` windows
    in one step.
    """

    def __init__(self, path: str | Path, *, length: int, batch: int, seed: int = 0) -> None:
        self._bytes: npt.NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        self._length, self._batch, self._seed = length, batch, seed
        self.windows = (len(self._bytes) - 1) // length
        if self.windows < batch:
            raise ValueError(f"{path} has {self.windows} windows of {length} bytes, fewer than a batch of {batch}")
        self.step = 0

    def batch(self, step: int, rank: int = 0, ranks: int = 1) -> npt.NDArray[np.int64]:
        """The windows of `rank` for `step`: shape (batch / ranks, length + 1), values 0 to 255."""
        self.step = step + 1
        starts = self.numbers(step, rank, ranks) * self._length
        return np.stack([self._bytes[start : start + self._length + 1].astype(np.int64) for start in starts])

    def numbers(self, step: int, rank: int = 0, ranks: int = 1) -> npt.NDArray[np.int64]:
        """The numbers of those windows, each 0 to `windows` - 1: shape (batch / ranks)."""
        sampler = ElasticSampler(self.windows, batch=self._batch, seed=self._seed, rank=rank, ranks=ranks)
        return np.array(sampler.indices(step), dtype=np.int64)

    def state_dict(self) -> dict[str, Any]:
        """The position, and the order and data that it belongs to."""
        return {"step": self.step, "seed": self._seed, "batch": self._batch, **self._shape()}

    def fingerprint(self) -> dict[str, str]:
        """What a resume compares with the checkpoint."""
        words = {"seed": self._seed, "batch": self._batch, **self._shape()}
        return {word: str(value) for word, value in words.items()}

    def _shape(self) -> dict[str, int]:
        return {"length": self._length, "bytes": len(self._bytes)}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the position. ValueError if seed or batch differ. Other data is allowed; `Run` warns of it."""
        if (state["seed"], state["batch"]) != (self._seed, self._batch):
            raise ValueError(
                f"the checkpoint was made with seed {state['seed']} and batch {state['batch']}, "
                f"not {self._seed} and {self._batch}: steps would take other data; use the values of the checkpoint"
            )
        self.step = int(state["step"])
