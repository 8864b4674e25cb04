"""A folder of data: a file is there, whole, under its name, or it is not there. Several pods may fill one folder.

A file is written under another name, which its writer locks, and is renamed when it is complete. Its time of change
says which version of the object it is: the seconds are those of the object, and the fraction stands for its ETag. So
nothing but the data lies in the folder, and no list can disagree with it. Symbolic links are never followed.
"""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Final, Self

from holdfast_train.errors import DataError, DataInvalidError, DataTooLargeError
from holdfast_train.storage.base import Entry

PART: Final = ".holdfast-part-"  # and a digest of the file's name
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_FILE: Final = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EEXIST)
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SECOND: Final = 10**9


def mark(entry: Entry) -> int:
    """The time of change, in nanoseconds, of a file that holds this version of the object: whole microseconds."""
    digest = hashlib.sha256(entry.version.encode()).digest()
    fraction = 1 + int.from_bytes(digest[:8]) % 999_999
    return int(entry.modified_at.timestamp()) * _SECOND + fraction * 1000


class OpenPart:
    """A file that is being written, locked by this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: memoryview, at: int) -> None:
        """Write all of `data` at this place."""
        done = 0
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:], at + done)


class DataFolder:
    """The folder `path`, which is `mount` or below it, open until `close`. Errors are DataErrors.

    The folders from `mount` down are made where they are missing. Several threads may use one instance.
    """

    def __init__(self, path: str, mount: str) -> None:
        self._path = path
        with self._errors(path):
            self._root = os.open(mount, _FOLDER)
            below = PurePosixPath(os.path.relpath(path, mount)).parts
            try:
                inside = self._open(below, make=True)
            finally:
                os.close(self._root)
            assert inside is not None
            self._root = inside

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self._root)

    @property
    def free(self) -> tuple[int, int]:
        """A number of the file system, and how many bytes are free on it."""
        found = os.fstatvfs(self._root)
        return os.fstat(self._root).st_dev, found.f_bavail * found.f_frsize

    def holds(self, entry: Entry) -> bool:
        """True if the file is there, is whole, and has this version of the object."""
        with self._errors(entry.key):
            return self._holds(entry)

    def _holds(self, entry: Entry) -> bool:
        found = self._stat(entry.key, PurePosixPath(entry.key).name)
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_size != entry.size:
            return False
        wanted = mark(entry)
        # Some file systems keep whole seconds only.
        return found.st_mtime_ns in (wanted, wanted - wanted % _SECOND)

    def begun(self, entry: Entry) -> int:
        """How many bytes the unfinished file takes."""
        with self._errors(entry.key):
            found = self._stat(entry.key, part_name(entry.key))
        return 0 if found is None else min(entry.size, found.st_size)

    @contextmanager
    def writing(self, entry: Entry) -> Iterator[OpenPart | None]:
        """Write the file: at the end it has its name. After an error it is not there, and neither is a part of it.

        None if another process writes it now, or has written it since `holds` was asked.
        """
        with self._errors(entry.key):
            parent = self._parent(entry.key, make=True)
        assert parent is not None
        name, part = PurePosixPath(entry.key).name, part_name(entry.key)
        try:
            with self._errors(entry.key):
                descriptor = self._lock(parent, part)
            if descriptor is None:
                yield None
                return
            try:
                if self.holds(entry):
                    os.unlink(part, dir_fd=parent)
                    yield None
                    return
                try:
                    with self._errors(entry.key):
                        os.ftruncate(descriptor, 0)
                        yield OpenPart(descriptor)
                        _finish(descriptor, entry)
                        os.rename(part, name, src_dir_fd=parent, dst_dir_fd=parent)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(part, dir_fd=parent)
                    raise
            finally:
                os.close(descriptor)
        finally:
            os.close(parent)

    def _lock(self, parent: int, part: str) -> int | None:
        """The open file, which this process has locked. None if another process has, or its writer has just ended."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part, flags, 0o664, dir_fd=parent)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Otherwise the file has got its own name, after it was opened here and before it was locked.
            if os.path.samestat(os.fstat(descriptor), os.stat(part, dir_fd=parent, follow_symlinks=False)):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def _stat(self, key: str, name: str) -> os.stat_result | None:
        """What lies beside the file of `key` under this name; None if there is nothing."""
        parent = self._parent(key, make=False)
        if parent is None:
            return None
        try:
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        finally:
            os.close(parent)

    def _parent(self, key: str, *, make: bool) -> int | None:
        return self._open(PurePosixPath(key).parts[:-1], make=make)

    def _open(self, parts: tuple[str, ...], *, make: bool) -> int | None:
        """A folder below, opened part by part; None if it is missing and is not to be made."""
        found = os.dup(self._root)
        for part in parts:
            above = found
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o775, dir_fd=above)
                found = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
            except FileNotFoundError:
                return None
            finally:
                os.close(above)
        return found

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = key if key == self._path else f"{self._path}/{key}"
            text = f"{where}: {error.strerror or error}"
            if error.errno in _NO_SPACE:
                raise DataTooLargeError(f"{text}; choose a larger volume for the data, or less data") from error
            if error.errno in _DENIED:
                raise DataInvalidError(
                    f"{text}; user {os.geteuid()} may not write there: set trainer.securityContext.runAsUser to the "
                    f"owner of the folder, or trainer.securityContext.fsGroup to its group"
                ) from error
            if error.errno in _NO_FILE:
                raise DataInvalidError(
                    f"{text}; the path must lead through folders that are not symbolic links to a file: remove what "
                    f"is in its way, or choose another folder"
                ) from error
            if error.errno in _NO_LOCKS:
                raise DataInvalidError(f"{text}; the volume has no locks (flock): choose another volume") from error
            raise DataError(text) from error


def part_name(key: str) -> str:
    """The name while the file is written: short, also if the file has the longest name."""
    return PART + hashlib.sha256(PurePosixPath(key).name.encode()).hexdigest()[:24]


def _finish(descriptor: int, entry: Entry) -> None:
    """Give the file its time, and bring it to the disk: after a crash of the node it is whole, or has not its name."""
    at = mark(entry)
    os.utime(descriptor, ns=(at, at))
    os.fsync(descriptor)
