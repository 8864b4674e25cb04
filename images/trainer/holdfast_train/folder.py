"""Checkpoints in a folder, such as a mounted volume. Durable: files and the folders that name them are synced."""

import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast_train.errors import (
    KeyMissingError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageNotAtomicError,
    StorageNotFoundError,
    StorageUnreachableError,
)

__all__ = ["FolderStorage"]

_TEMPORARY: Final = ".writing-"
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class FolderStorage:
    """Keys are files under `folder`. The folder above the prefix must exist: an unmounted volume must not pass for one.

    A new key is written under another name, synced, and then linked to its own: link() fails if the name is taken, also
    over NFS, and a reader never sees half a file.
    """

    def __init__(self, folder: str | Path) -> None:
        self._root = Path(folder)
        self.uri = f"file://{self._root}"

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """As Storage."""
        with self._errors(key):
            target = self._target(key)
            temporary = self._write(target.parent, body)
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise StorageNotAtomicError(
                        f"the file system of {self._root} has no hard links, so that a commit could be lost; "
                        f"use a volume that has them (ext4, xfs, NFS) or S3"
                    ) from error
                raise
            finally:
                temporary.unlink(missing_ok=True)
            _sync_folder(target.parent)
            return True

    def put(self, key: str, body: bytes | bytearray) -> None:
        """As Storage."""
        with self._errors(key):
            target = self._target(key)
            self._write(target.parent, body).replace(target)
            _sync_folder(target.parent)

    def get(self, key: str) -> bytes:
        """As Storage."""
        with self._errors(key):
            try:
                return (self._root / key).read_bytes()
            except FileNotFoundError as error:
                raise KeyMissingError(f"{self.uri}/{key} does not exist") from error

    def size(self, key: str) -> int | None:
        """As Storage."""
        with self._errors(key):
            try:
                return (self._root / key).stat().st_size
            except FileNotFoundError:
                return None

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """As Storage."""
        with self._errors(prefix):
            top = self._root / prefix.rpartition("/")[0]
            found = [
                str((Path(folder) / name).relative_to(self._root))
                for folder, _, names in os.walk(top)
                for name in names
                if not name.startswith(_TEMPORARY)
            ]
            return sorted(key for key in found if key.startswith(prefix) and key > after)

    def delete(self, keys: Iterable[str]) -> None:
        """As Storage. A folder that is left empty goes too."""
        for key in keys:
            with self._errors(key):
                path = self._root / key
                path.unlink(missing_ok=True)
                if path.parent != self._root:
                    _remove_if_empty(path.parent)

    def _target(self, key: str) -> Path:
        target = self._root / key
        if not target.parent.is_dir():
            if not self._root.is_dir() and not _exists_above(self._root):
                raise StorageNotFoundError(
                    f"the folder {self._root.parent} does not exist; is the volume mounted there?"
                )
            missing = [p for p in (target.parent, *target.parent.parents) if not p.is_dir()]
            target.parent.mkdir(parents=True, exist_ok=True)
            for folder in missing:
                _sync_folder(folder.parent)
        return target

    def _write(self, folder: Path, body: bytes | bytearray) -> Path:
        path = folder / f"{_TEMPORARY}{uuid.uuid4().hex}"
        try:
            with path.open("xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise StorageDeniedError(
                f"{self.uri}/{key}: {error.strerror}; the pod's user may not write there"
            ) from error
        except OSError as error:
            where = f"{self.uri}/{key}: {error.strerror or error}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFullError(where) from error
            if error.errno == errno.EROFS:
                raise StorageDeniedError(where) from error
            if error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EINVAL):
                raise StorageError(where) from error
            raise StorageUnreachableError(where) from error


def _exists_above(root: Path) -> bool:
    """A prefix may be new, and so may folders above it, but not everything down from the file system's root."""
    return any(parent.is_dir() for parent in list(root.parents)[:-1])


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # not empty, or gone already: both are fine
        return


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
