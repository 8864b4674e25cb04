"""`Heartbeat`: shows rank 0 that the upload of another rank goes on, however long it takes."""

import contextlib
import threading
from collections.abc import Callable
from typing import Final

from holdfast_train.errors import StorageError
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage

BEAT_SECONDS: Final = 30.0


class Heartbeat:
    """Writes an empty object beside the data of each checkpoint that its rank still has to upload, every BEAT_SECONDS.

    It writes none unless bytes were sent since the one before: `sent` returns how many were sent in all. So an upload
    of less than BEAT_SECONDS has none.
    """

    def __init__(self, storage: Storage, rank: int, sent: Callable[[], int]) -> None:
        self._storage = storage
        self._rank = rank
        self._sent = sent
        self._seen = 0
        self._count = 0
        self._names: list[CheckpointName] = []
        self._changed = threading.Condition()
        self._has_thread = False

    def begin(self, name: CheckpointName) -> None:
        """The rank has to upload its part of `name`."""
        with self._changed:
            self._names.append(name)
            self._changed.notify_all()
            if not self._has_thread:
                with contextlib.suppress(RuntimeError):  # the container is at its limit of processes: it shows nothing
                    threading.Thread(target=self._run, name="holdfast-heartbeat", daemon=True).start()
                    self._has_thread = True

    def end(self, name: CheckpointName) -> None:
        """The rank has uploaded its part of `name`, or has given it up."""
        with self._changed:
            if name in self._names:
                self._names.remove(name)
                self._changed.notify_all()

    def beat(self) -> None:
        """Write the objects now, if bytes were sent. A storage that fails is not this object's concern."""
        sent = self._sent()
        if sent == self._seen:
            return
        self._seen = sent
        self._count += 1
        for name in list(self._names):
            try:
                self._storage.put(name.beat_key(self._rank, self._count), b"")
            except StorageError:  # the upload has the same error, and reports it
                return

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._names)
                self._changed.wait_for(lambda: not self._names, BEAT_SECONDS)
            self.beat()
