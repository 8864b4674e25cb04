"""Read files that another process may change or delete meanwhile: the bytes of one moment, or UnitChangedError."""

import os
import stat
from pathlib import Path

from holdfast_train.folder.index import Piece
from holdfast_train.folder.look import File

__all__ = ["UnitChangedError", "check_unchanged", "read_piece"]


class UnitChangedError(Exception):
    """A file changed or vanished while it was read: the checkpoint is left alone until it is whole again."""


def read_piece(root: Path, files: dict[str, File], piece: Piece) -> bytearray:
    """The bytes of `piece`. UnitChangedError if a file is not the one of `files`; OSError if it cannot be read."""
    data = bytearray(piece.size)
    view, at = memoryview(data), 0
    for path, start, size in piece.spans:
        descriptor = _open(root / path)
        try:
            _check(descriptor, files[path])
            end = at + size
            while at < end:
                count = os.preadv(descriptor, [view[at:end]], start + size - (end - at))
                if count == 0:
                    raise UnitChangedError(f"{path} became shorter while it was read")
                at += count
            _check(descriptor, files[path])
        finally:
            os.close(descriptor)
    return data


def check_unchanged(root: Path, files: dict[str, File]) -> None:
    """UnitChangedError if one of `files` is another one by now, or is gone."""
    for path, file in files.items():
        try:
            known = (root / path).lstat()
        except FileNotFoundError as error:
            raise UnitChangedError(f"{path} was deleted while it was read") from error
        if file.link is None and (known.st_size, known.st_mtime_ns) != (file.size, file.mtime_ns):
            raise UnitChangedError(f"{path} changed while it was read")


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnitChangedError(f"{path} was deleted before it was read") from error


def _check(descriptor: int, file: File) -> None:
    known = os.fstat(descriptor)
    if not stat.S_ISREG(known.st_mode) or (known.st_size, known.st_mtime_ns) != (file.size, file.mtime_ns):
        raise UnitChangedError(f"{file.path} changed while it was read")
