"""A lock that says "a checkpoint is on its way" to the launcher, which must not end before it is committed."""

import fcntl
import os
import tempfile
import threading

__all__ = ["Lock"]


class Lock:
    """A lock on one open file, which a trainer and its writer share: whoever of them lives longest holds it.

    The trainer takes it when it begins to save; the writer takes it too when it hears of that, and gives it back when
    nothing is left to do.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._count = 0
        self._guard = threading.Lock()

    @classmethod
    def new(cls, folder: str | None) -> "Lock":
        """On a new file in `folder`, where the launcher looks for it. Without a launcher, one without a name."""
        if folder is None:
            return cls(os.memfd_create("holdfast-writer", os.MFD_CLOEXEC))
        descriptor, _ = tempfile.mkstemp(prefix="writer-", dir=folder)
        return cls(descriptor)

    def take(self) -> None:
        """One more checkpoint is on its way."""
        with self._guard:
            self._count += 1
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def give_back(self) -> None:
        """One less."""
        with self._guard:
            self._count -= 1
            if not self._count:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """This process is done with it; the other one may still hold it."""
        os.close(self.descriptor)
