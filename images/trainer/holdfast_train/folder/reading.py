"""Read files that another process may change or delete meanwhile: the bytes of one moment, or UnitChangedError."""

import os
import resource
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from holdfast_train.folder.index import Piece
from holdfast_train.folder.look import File

MOST_OPEN: Final = 16_384  # files, and at most half of what this process may open


class UnitChangedError(Exception):
    """A file changed or vanished while it was read: the checkpoint is left alone until it is whole again."""


class Reading:
    """The `files` of one checkpoint below `root`, open from the beginning to the end of the `with` block.

    A program deletes its older checkpoints: what is open can still be read then. Of more than MOST_OPEN files, the
    smallest are opened when they are read.
    """

    def __init__(self, root: Path, files: Iterable[File], most: int | None = None) -> None:
        self._root = root
        self._files = {file.path: file for file in files if file.link is None}
        self._open: dict[str, int] = {}
        limit = _most_open() if most is None else most
        try:
            for file in sorted(self._files.values(), key=lambda file: -file.size)[:limit]:
                self._open[file.path] = _open(root / file.path)
            self.check_unchanged()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            os.close(self._open.popitem()[1])

    def read(self, piece: Piece) -> bytearray:
        """The bytes of `piece`. UnitChangedError if a file is another one than before; OSError if it cannot be read."""
        data = bytearray(piece.size)
        view, at = memoryview(data), 0
        for path, start, size in piece.spans:
            known = self._open.get(path)
            descriptor = _open(self._root / path) if known is None else known
            try:
                _check(os.fstat(descriptor), self._files[path])
                end = at + size
                while at < end:
                    count = os.preadv(descriptor, [view[at:end]], start + size - (end - at))
                    if count == 0:
                        raise UnitChangedError(f"{path} became shorter while it was read")
                    at += count
                _check(os.fstat(descriptor), self._files[path])
            finally:
                if known is None:
                    os.close(descriptor)
        return data

    def check_unchanged(self) -> None:
        """UnitChangedError if one of the files has another content by now, or is gone before it was opened."""
        for path, file in self._files.items():
            descriptor = self._open.get(path)
            try:
                known = (self._root / path).lstat() if descriptor is None else os.fstat(descriptor)
            except FileNotFoundError as error:
                raise UnitChangedError(f"{path} was deleted while it was read") from error
            _check(known, file)


def _most_open() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return MOST_OPEN if hard == resource.RLIM_INFINITY else min(MOST_OPEN, hard // 2)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnitChangedError(f"{path} was deleted before it was read") from error


def _check(known: os.stat_result, file: File) -> None:
    if not stat.S_ISREG(known.st_mode) or (known.st_size, known.st_mtime_ns) != (file.size, file.mtime_ns):
        raise UnitChangedError(f"{file.path} changed while it was read")
