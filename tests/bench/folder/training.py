"""A folder as a training leaves it, in a few large files and some small ones, and changes of it."""

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
from tests.support import guard

from holdfast_train.folder.index import CHUNK

MEGABYTE: Final = 1_000_000
SAVE: Final = "checkpoint-1000"
LARGEST: Final = f"{SAVE}/optimizer.pt"  # half of all bytes
_SHARES: Final = {
    LARGEST: 500,
    f"{SAVE}/model-00001-of-00002.safetensors": 150,
    f"{SAVE}/model-00002-of-00002.safetensors": 150,
    "data/tokens.arrow": 200,
}
_SMALL: Final = {f"{SAVE}/scheduler.pt": 1_064, f"{SAVE}/rng_state.pth": 14_244, "run.log": 100_000}
_BLOCK: Final = 1 << 20
PAGE: Final = 4096


@contextmanager
def in_memory(room: int) -> Iterator[Path]:
    """A folder in memory, so that no disk is measured; on the disk if there is not enough memory for `room` bytes."""
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and psutil.disk_usage(str(memory)).free > room < psutil.virtual_memory().available
    with guard.temporary_folder("hf-folder-", memory if has_room else None) as folder:
        yield folder


def make_files(folder: Path, size: int) -> None:
    """Write `size` bytes, and a little more, below `folder`: one file has half of them, three share the others."""
    for path, share in _SHARES.items():
        write_noise(folder / path, size * share // 1000)
    for path, length in _SMALL.items():
        write_noise(folder / path, length)
    (folder / SAVE / "trainer_state.json").write_text('{"global_step": 1000, "log_history": []}', encoding="utf-8")


def write_noise(path: Path, size: int) -> None:
    """A file of `size` bytes, without two equal chunks in any file of a run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as opened:
        for block in _noise(size):
            opened.write(block)


def _noise(size: int) -> Iterator[memoryview]:
    """Each MiB begins with 16 bytes of its own; that makes every chunk another one, at the speed of a copy."""
    block = bytearray(os.urandom(_BLOCK))
    for at in range(0, size, _BLOCK):
        block[:16] = os.urandom(16)
        yield memoryview(block)[: size - at]


def size_of(folder: Path) -> int:
    """Bytes of all files below `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def overwrite(path: Path, start: int, size: int) -> None:
    """Other bytes in the place of `size` bytes from `start` on."""
    with path.open("r+b") as opened:
        opened.seek(start)
        for block in _noise(size):
            opened.write(block)


def change_middle(folder: Path) -> list[Path]:
    """Change 1 % of all bytes, one range in the middle of the largest file. The files that have changed."""
    path, size = folder / LARGEST, size_of(folder) // 100
    overwrite(path, (path.stat().st_size - size) // 2, size)
    return [path]


def append(folder: Path) -> list[Path]:
    """Append 1 % of all bytes to the largest file. The files that have changed."""
    path, size = folder / LARGEST, size_of(folder) // 100
    with path.open("ab") as opened:
        for block in _noise(size):
            opened.write(block)
    return [path]


def change_ranges(folder: Path) -> list[Path]:
    """Change 1 % of all bytes, in ranges of 1 MB all over the largest file. The files that have changed."""
    path, count = folder / LARGEST, size_of(folder) // 100 // MEGABYTE
    step = path.stat().st_size // count
    for number in range(count):
        overwrite(path, number * step + random.randrange(step - MEGABYTE), MEGABYTE)
    return [path]


def change_pages(folder: Path) -> list[Path]:
    """Change 1 % of all bytes, in pages of 4 KiB all over the large files. The files that have changed."""
    paths = [folder / path for path in _SHARES]
    for path in paths:
        count = path.stat().st_size // PAGE
        with path.open("r+b") as opened:
            for page in range(random.randrange(100), count, 100):
                opened.seek(page * PAGE)
                opened.write(os.urandom(PAGE))
    return paths


def copy_half_of_the_files(folder: Path, node: Path) -> None:
    """A `node` with half of the bytes of `folder`: all files but the largest one.

    They are second names of the same files, which costs no time: nothing writes into a file that is there.
    """
    shutil.copytree(folder, node, copy_function=os.link, ignore=shutil.ignore_patterns(Path(LARGEST).name))


def copy_half_of_each_file(folder: Path, node: Path) -> None:
    """A `node` with all files of `folder`, of the same sizes: in the second half of each large one are other bytes.

    The first half ends where a chunk ends.
    """
    shutil.copytree(folder, node, ignore=shutil.ignore_patterns(*(Path(path).name for path in _SHARES)))
    for path in _SHARES:
        size = (folder / path).stat().st_size
        (node / path).parent.mkdir(exist_ok=True)
        with (folder / path).open("rb") as source, (node / path).open("wb") as opened:
            half = -(-size // 2 // CHUNK) * CHUNK
            while (left := min(half, size) - opened.tell()) > 0:
                opened.write(source.read(min(left, _BLOCK)))
            opened.truncate(size)
