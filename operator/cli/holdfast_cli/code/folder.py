"""What of a folder is sent, with the hashes of the files."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from holdfast_cli.code import secret_files
from holdfast_cli.code.walk import HINT, OWN_FILE, File, Found, LeftOut, Walk
from holdfast_cli.errors import CliError, ExitCode, unreadable
from holdfast_train.code.archive import BLOCK, READ, kind_of
from holdfast_train.code.tree import OF_CODE, Entry, shown, tree_hash

THREADS: Final = min(8, os.cpu_count() or 1)
LARGEST: Final = 10
_BATCH: Final = 128  # files of one task: a task for each file costs more than its hash
_GONE: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Selection:
    """The files of the folder `root` that are sent, in the order of their paths, and what is not.

    `total`: bytes. `largest`: the largest files, at most ten, the largest one first.
    """

    root: Path
    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...]
    total: int
    largest: tuple[Entry, ...]

    @cached_property
    def sha256(self) -> str:
        """The hash of the folder."""
        return tree_hash(self.entries)


def select(root: Path, more_exclude: Sequence[str] = (), progress: Progress = lambda _done, _total: None) -> Selection:
    """Choose what of `root` is sent, and compute the hashes. CliError names what is in the way, and what to do.

    `more_exclude`: patterns as in .gitignore. `progress`, called in this thread, gets the files that are read, and the
    number of all. No file is read if there are too many, or if they are too large.
    """
    root = root.absolute()
    if not root.is_dir():
        code = ExitCode.USAGE if root.exists() else ExitCode.NOT_FOUND
        what = "is not a folder" if root.exists() else "does not exist"
        raise CliError(f"{root} {what}", code=code, hint="start the command in the folder of your program")
    root = root.resolve()
    if root in (Path.home().resolve(), Path("/")) and not (root / OWN_FILE).exists():
        raise CliError(
            f"all of {root} would be sent, and not the folder of one program",
            code=ExitCode.USAGE,
            hint=f"change to the folder of your program, name it with --dir, or write {OWN_FILE} here",
        )
    found = Walk(root, more_exclude).run()
    _check_limits(found)
    entries, secrets = list(found.links), []
    batches = [found.files[at : at + _BATCH] for at in range(0, len(found.files), _BATCH)]
    with ThreadPoolExecutor(THREADS, "holdfast-hash") as pool:
        done = 0
        for batch in pool.map(lambda files: [_read(root, file) for file in files], batches):
            entries += [one for one in batch if isinstance(one, Entry)]
            secrets += [one for one in batch if isinstance(one, LeftOut)]
            done += len(batch)
            progress(done, len(found.files))
    if not entries:
        raise CliError(
            f"there is no file to send in {root}",
            hint=f"start the command in the folder of your program; `!NAME` in {OWN_FILE} takes in what is left out",
        )
    entries.sort(key=lambda entry: entry.path)
    largest = sorted(entries, key=lambda entry: -entry.size)[:LARGEST]
    total = sum(entry.size for entry in entries)
    return Selection(root, tuple(entries), (*found.left_out, *secrets), total, tuple(largest))


def _check_limits(found: Found) -> None:
    """CliError if a pod would not take the folder."""
    if len(found.files) + len(found.links) > OF_CODE.files:
        most = ", ".join(f"{shown(name)[1:-1]} ({count:,})" for name, count in found.files_in.most_common(LARGEST))
        raise CliError(
            f"the folder has more than {OF_CODE.files:,} files. Most of those that were counted are in: {most}",
            hint=f"name what the program does not need in {OWN_FILE}; data belongs into trainer.data or a volume",
        )
    total = sum(file.size for file in found.files)
    if total > OF_CODE.size:
        largest = sorted(found.files, key=lambda file: -file.size)[:LARGEST]
        most = ", ".join(f"{shown(file.path)[1:-1]} ({_mebibytes(file.size)})" for file in largest)
        raise CliError(
            f"the folder has {_mebibytes(total)}; at most {_mebibytes(OF_CODE.size)} are allowed. "
            f"The largest files: {most}",
            hint=f"name what the program does not need in {OWN_FILE}; data belongs into trainer.data or a volume",
        )


def _read(root: Path, file: File) -> Entry | LeftOut:
    """The file with its hash; left out if it looks like a secret. It is read once."""
    try:
        descriptor = os.open(f"{root}/{file.path}", READ)
    except OSError as error:
        if error.errno in _GONE:
            raise _changed(file) from error
        raise unreadable(root / file.path, error, hint=HINT) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _changed(file)
        data = os.read(descriptor, min(BLOCK, file.size + 1))
        if not file.is_named and (secret := secret_files.of_content(data[: secret_files.HEAD_BYTES])):
            return LeftOut(file.path, f"has {secret}")
        digest, size = hashlib.sha256(), 0
        while data and size <= file.size:  # a log that grows has no end
            digest.update(data)
            size += len(data)
            data = os.read(descriptor, BLOCK) if size < file.size or len(data) == BLOCK else b""
    except OSError as error:
        raise unreadable(root / file.path, error, hint=HINT) from error
    finally:
        os.close(descriptor)
    if size != file.size:
        raise _changed(file)
    return Entry(file.path, kind_of(status), size, digest.hexdigest())


def _changed(file: File) -> CliError:
    return CliError(
        f"{shown(file.path)} changed while it was read",
        hint=f"run the command again; if the program writes this file, name it in {OWN_FILE}",
    )


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
