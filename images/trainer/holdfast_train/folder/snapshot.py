"""The bytes of one moment of files that a program may change, rename or delete meanwhile, without an open file.

Each file that is read gets a second name, a hard link, in a folder of our own. What the program deletes or replaces
stays readable under it, also on NFS, where a file that is open cannot be deleted without a trace. Where the file system
has no hard links, the file is read under its own name.
"""

import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from holdfast_train.folder.look import LARGE, OWN, File

KEPT: Final = f"{OWN}reading-"
READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class ChangedError(Exception):
    """A file changed or vanished while it was read: a later look finds it whole."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} {what}")
        self.path = path


class Snapshot:
    """The `files` below `root`, from the beginning to the end of the `with` block."""

    def __init__(self, root: Path, files: Iterable[File]) -> None:
        self._root = root
        self._kept = root / f"{KEPT}{uuid.uuid4().hex[:12]}"
        self._names: dict[str, Path] = {}
        try:
            for number, file in enumerate(files):
                if file.link is None and file.size >= LARGE:
                    self._keep(file, number)
        except BaseException:
            self.close()
            raise

    def _keep(self, file: File, number: int) -> None:
        name = self._kept / str(number)
        try:
            self._kept.mkdir(exist_ok=True)
            os.link(self._root / file.path, name, follow_symlinks=False)
        except FileNotFoundError as error:
            raise ChangedError(file.path, "was deleted before it was read") from error
        except OSError:  # another file system, or one without hard links
            return
        self._names[file.path] = name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the second names up."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._kept)

    def read(self, file: File, chunk: int) -> Iterator[bytearray]:
        """The bytes of `file`, `chunk` at a time. ChangedError if it is another one by now, before its last chunk."""
        for start in range(0, file.size, chunk):
            yield self._read(file, start, min(chunk, file.size - start))

    def _read(self, file: File, start: int, size: int) -> bytearray:
        data = bytearray(size)
        try:
            # Open only for this chunk: see above.
            descriptor = os.open(self._names.get(file.path, self._root / file.path), READ)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ChangedError(file.path, "was deleted before it was read") from error
        try:
            check(os.fstat(descriptor), file)
            with memoryview(data) as view:
                done = 0
                while done < size:
                    count = os.preadv(descriptor, [view[done:]], start + done)
                    if count == 0:
                        raise ChangedError(file.path, "became shorter while it was read")
                    done += count
            check(os.fstat(descriptor), file)
        finally:
            os.close(descriptor)
        return data


def check(known: os.stat_result, file: File) -> None:
    """ChangedError if `known` is not as `file`: another size, another time, or no file."""
    if not stat.S_ISREG(known.st_mode) or (known.st_size, known.st_mtime_ns) != (file.size, file.mtime_ns):
        raise ChangedError(file.path, "changed while it was read")


def is_same(files: Mapping[str, File], later: Mapping[str, File], but: frozenset[str]) -> str | None:
    """The first path at which the two looks differ, outside of `but`; None if they are the same."""
    for path in files.keys() | later.keys():
        one, other = files.get(path), later.get(path)
        if path not in but and (one is None or other is None or one.signature != other.signature):
            return path
    return None
