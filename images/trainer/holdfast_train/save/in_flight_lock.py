"""A lock that shows the launcher that a checkpoint is in flight: the pod must not end before it is committed."""

import fcntl
import os
import tempfile
import threading

from holdfast_train.memory_file import memory_file


class InFlightLock:
    """A lock on one open file that a trainer and its writer share: it stays taken until the writer releases it.

    The trainer takes it when it begins a save. The writer takes it too when it receives the save, and releases it when
    no checkpoint is in flight any more. The kernel releases it when both processes have ended.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._count = 0
        self._guard = threading.Lock()

    @classmethod
    def new(cls, folder: str | None) -> "InFlightLock":
        """On a new file in `folder`, where the launcher looks for it. Without a launcher: on a file without a name."""
        if folder is None:
            return cls(memory_file("holdfast-writer"))
        descriptor, _ = tempfile.mkstemp(prefix="writer-", dir=folder)
        return cls(descriptor)

    def note_writer(self) -> None:
        """Write into the file that this process is the writer, which ends by itself soon after the trainer."""
        os.pwrite(self.descriptor, b"%d" % os.getpid(), 0)

    def take(self) -> None:
        """One more checkpoint is in flight."""
        with self._guard:
            self._count += 1
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def release(self) -> None:
        """One checkpoint fewer is in flight."""
        with self._guard:
            self._count -= 1
            if not self._count:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file in this process. The lock stays taken if the other process still has the file open."""
        os.close(self.descriptor)
