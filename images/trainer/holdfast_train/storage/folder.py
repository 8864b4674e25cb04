"""A storage in a folder, such as a mounted volume. Writes are durable: files and their folders are synced."""

import ctypes
import errno
import fcntl
import os
import stat
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from holdfast_train.errors import (
    CheckpointCorruptError,
    KeyChangedError,
    KeyMissingError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageNotAtomicError,
    StorageNotFoundError,
    StorageUnreachableError,
)
from holdfast_train.storage.base import Entry
from holdfast_train.storage.rate_limit import RateLimit

BLOCK_BYTES: Final = (
    8 << 20
)  # of one write: large enough that a rate limit needs few pauses, because each pause is a wake-up
DIRECT_BYTES: Final = 1 << 20
DIRECT_ALIGNMENT: Final = 4096  # bytes: the strictest alignment that disks and file systems require

_VECTORS: Final = 1024  # IOV_MAX of Linux: the most buffers in one call of preadv
_TEMPORARY: Final = ".writing-"
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class FolderStorage:
    """Keys are files under `folder`. A folder above the prefix must exist, so that an unmounted volume is an error.

    A new key is written under a temporary name, synced, and then linked to its own name. link() fails if the name
    exists, also over NFS, and a reader never sees a partial file.
    """

    def __init__(self, folder: str | Path) -> None:
        self._root = Path(folder)
        self.uri = f"file://{self._root}"

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """As Storage."""
        with self._errors(key):
            target = self._target(key)
            temporary = self._write(target.parent, memoryview(body))
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise StorageNotAtomicError(
                        f"the file system of {self._root} has no hard links, without which a commit could be lost; "
                        f"use a volume with hard links (ext4, xfs, NFS) or S3"
                    ) from error
                raise
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(target.parent)
            return True

    def put(self, key: str, body: bytes | bytearray) -> None:
        """As Storage."""
        self.write(key, memoryview(body))

    def write(self, key: str, data: memoryview, *, sums: Sequence[str] = (), rate: RateLimit | None = None) -> None:
        """As Storage. `sums` are not used: file systems check their own writes, and a restore checks every chunk."""
        with self._errors(key):
            target = self._target(key)
            self._write(target.parent, data, rate).replace(target)
            sync_folder(target.parent)

    def copy_from(self, uri: str, key: str) -> bool:
        """As Storage."""
        source = Path(uri.removeprefix("file://")) / key
        if not source.is_file():
            return False
        with self._errors(key):
            self.write(key, memoryview(source.read_bytes()))
        return True

    def get(self, key: str) -> bytes:
        """As Storage."""
        with self._errors(key):
            try:
                return (self._root / key).read_bytes()
            except FileNotFoundError as error:
                raise KeyMissingError(f"{self.uri}/{key} does not exist") from error

    def read_into(self, key: str, start: int, *views: memoryview, version: str = "") -> None:
        """As Storage."""
        with self._errors(key):
            try:
                descriptor = os.open(self._root / key, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError as error:
                raise KeyMissingError(f"{self.uri}/{key} does not exist") from error
            wanted, at, waiting = sum(map(len, views)), start, deque(views)
            try:
                if version and version != _version(os.fstat(descriptor)):
                    raise KeyChangedError(f"{self.uri}/{key} was written again since it was listed")
                while at < start + wanted:
                    count = os.preadv(descriptor, list(islice(waiting, _VECTORS)), at)
                    if count == 0:
                        raise CheckpointCorruptError(
                            f"{self.uri}/{key} has {os.fstat(descriptor).st_size} bytes; "
                            f"expected bytes {start} to {start + wanted}"
                        )
                    at += count
                    _drop(waiting, count)
            finally:
                os.close(descriptor)

    def size(self, key: str) -> int | None:
        """As Storage."""
        with self._errors(key):
            try:
                return (self._root / key).stat().st_size
            except FileNotFoundError:
                return None

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """As Storage."""
        return self._list(prefix, after)

    def entries(self, prefix: str) -> list[Entry]:
        """As Storage. `modified_at` is the time of the last write to the file."""
        found = []
        for key in self._list(prefix):
            with self._errors(key):
                try:
                    status = (self._root / key).stat()
                except FileNotFoundError:  # deleted after the listing
                    continue
            at = datetime.fromtimestamp(status.st_mtime, UTC)
            found.append(Entry(key, status.st_size, at, _version(status)))
        return found

    def _list(self, prefix: str, after: str = "", *, unfinished: bool = False) -> list[str]:
        """Keys that sort after `after`, sorted. With `unfinished`, only the temporary files of unfinished writes.

        A log has one file for every save so far, so a file is examined only if its name is wanted.
        """
        with self._errors(prefix):
            found = []
            for folder, _, names in os.walk(self._root / prefix.rpartition("/")[0], onerror=_raise_unless_missing):
                above = "" if (inside := os.path.relpath(folder, self._root)) == "." else f"{inside}/"
                for name in names:
                    key = above + name
                    if key > after and key.startswith(prefix) and name.startswith(_TEMPORARY) == unfinished:
                        found.append(key)
            return sorted(found)

    def delete(self, keys: Iterable[str]) -> None:
        """As Storage. A folder that becomes empty is removed too."""
        for key in keys:
            with self._errors(key):
                path = self._root / key
                path.unlink(missing_ok=True)
                if path.parent != self._root:
                    _remove_if_empty(path.parent)

    def drop_unfinished(self, prefix: str, before: datetime) -> int:
        """As Storage. The last write to a file counts as its beginning, so the files of a live writer stay.

        If `prefix` is a folder in which a failed write has left nothing, it is removed too.
        """
        dropped = 0
        for key in self._list(prefix, unfinished=True):
            with self._errors(key):
                path = self._root / key
                try:
                    if path.stat().st_mtime >= before.timestamp():
                        continue
                    path.unlink()
                except FileNotFoundError:  # finished, or removed by another process
                    continue
                dropped += 1
                if path.parent != self._root:
                    _remove_if_empty(path.parent)
        if prefix.strip("/").count("/"):  # data/NAME/, but not data/, in which other writers make folders
            _remove_if_empty(self._root / prefix)
        return dropped

    def _target(self, key: str) -> Path:
        target = self._root / key
        if not target.parent.is_dir():
            if not self._root.is_dir() and not _exists_above(self._root):
                raise StorageNotFoundError(
                    f"the folder {self._root.parent} does not exist; check that the volume is mounted there"
                )
            missing = [p for p in (target.parent, *target.parent.parents) if not p.is_dir()]
            target.parent.mkdir(parents=True, exist_ok=True)
            for folder in missing:
                _open_to_group(folder)
                sync_folder(folder.parent)
        return target

    def _write(self, folder: Path, data: memoryview, rate: RateLimit | None = None) -> Path:
        """A new synced file with `data`, under a temporary name, which is never a key."""
        path = folder / f"{_TEMPORARY}{uuid.uuid4().hex}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            direct = _is_aligned(data) and _set_direct(descriptor, True)
            done = 0
            while done < len(data):
                block = data[done : done + BLOCK_BYTES]
                if rate is not None:
                    rate.wait(len(block))
                try:
                    done += os.pwrite(descriptor, block, done)
                except OSError as error:
                    if not direct or error.errno != errno.EINVAL:
                        raise
                    direct = _set_direct(descriptor, False)
            os.fsync(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        return path

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise StorageDeniedError(
                f"{self.uri}/{key}: {error.strerror}; user {os.geteuid()} with the groups {_groups()} may not read and "
                f"write there: set trainer.securityContext.runAsUser to the owner of the folder, or "
                f"trainer.securityContext.fsGroup to its group"
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


def _version(status: os.stat_result) -> str:
    """Changes with every write, also if a file of the same size takes the place of this one."""
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


def _is_aligned(data: memoryview) -> bool:
    """True if `data` is large enough and aligned for direct writes. Arenas are."""
    if data.readonly or len(data) < DIRECT_BYTES:
        return False
    return (ctypes.addressof(ctypes.c_char.from_buffer(data)) | len(data)) % DIRECT_ALIGNMENT == 0


def _set_direct(descriptor: int, direct: bool) -> bool:
    """Turn writes past the page cache on or off. True if they are on now: not every file system supports them.

    Past the cache, a gigabyte costs some hundredths of a second of CPU and no memory. The cache would take both from
    the training and keep bytes that no process reads.
    """
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~os.O_DIRECT
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | (os.O_DIRECT if direct else 0))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return direct


def _exists_above(root: Path) -> bool:
    """True if a folder above `root` exists, other than the root of the file system. The prefix itself may be new."""
    return any(parent.is_dir() for parent in list(root.parents)[:-1])


def _raise_unless_missing(error: OSError) -> None:
    """A folder that does not exist counts as empty. A folder that cannot be read is an error."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # not empty, or removed already: both are fine
        return


def _open_to_group(folder: Path) -> None:
    """Let the group write into a new folder: the init container, and later trainers, may run as other users."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    try:
        folder.chmod(mode | stat.S_IRWXG)
    except PermissionError:  # another process, of another user, has just made it
        return


def _groups() -> str:
    return ", ".join(str(group) for group in sorted({os.getegid(), *os.getgroups()}))


def sync_folder(folder: Path) -> None:
    """Bring the names in `folder` to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop(views: deque[memoryview], count: int) -> None:
    """Remove the first `count` bytes from `views`: they are filled."""
    while views and count >= len(views[0]):
        count -= len(views.popleft())
    if count:
        views[0] = views[0][count:]
