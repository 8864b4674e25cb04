"""A lock between processes: a file that is locked for as long as its holder lives."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class BusyError(Exception):
    """Another process holds the lock, and the caller did not want to wait."""


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None] | None = None, *, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on `path` (made if it is missing; its folder must exist).

    The kernel frees the lock when the process ends, however it ends, so a killed holder blocks no one.

    Args:
        path: the lock file.
        waiting: called once if another process holds the lock and this one has to wait.
        wait: wait for the lock; else raise.

    Raises:
        BusyError: the lock is held and `wait` is false.
    """
    descriptor = _locked(path, waiting, wait)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path, waiting: Callable[[], None] | None, wait: bool) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor, waiting, wait)
            # The holder before us may have removed the file: then the lock we got guards nothing.
            if _same_file(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, waiting: Callable[[], None] | None, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        if not wait:
            raise BusyError from error
        if waiting:
            waiting()
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
