"""A lock between processes. The kernel frees it when its process ends, however it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def exclusive(
    path: Path,
    waiting: Callable[[], None] | None = None,
    *,
    wait: bool = True,
    cancelled: Callable[[], bool] | None = None,
) -> Iterator[None]:
    """Take an exclusive lock on `path`. The file is made if it is missing; its folder must exist.

    `waiting` is called once if another process has the lock and this one has to wait. Raises filelock.Timeout if
    another process has the lock and `wait` is false, or `cancelled` becomes true.
    """
    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise
        if waiting:
            waiting()
        lock.acquire(cancel_check=cancelled)
    try:
        yield
    finally:
        lock.release()
