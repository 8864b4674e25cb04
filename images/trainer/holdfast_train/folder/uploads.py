"""`Uploads`: the new chunks of one commit, one after the other in objects."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from holdfast_train.folder.index import hash_of
from holdfast_train.format.manifest import Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.rate_limit import RateLimit

OBJECT_BYTES: Final = 32 << 20
THREADS: Final = 2  # objects that are uploaded at once, beside the one that is being filled


class Place(NamedTuple):
    """Where the bytes of a chunk lie: in the object `key`, from `start` on."""

    key: str
    start: int
    size: int


class Uploads:
    """The data that one commit uploads: chunks one after the other in objects of OBJECT_BYTES at most.

    Each file of `own` has a name of its own, so that its data can be deleted by itself. `names`: all of them.
    """

    def __init__(
        self, storage: Storage, rate: RateLimit | None, check: Callable[[], None], attempt: int, step: int
    ) -> None:
        self._storage = storage
        self._rate = rate
        self._check = check
        self._attempt = attempt
        self._step = step
        self.own: frozenset[str] = frozenset()
        self.names: tuple[CheckpointName, ...] = ()
        self.parts: list[Part] = []
        self._open: dict[str, tuple[CheckpointName, int, bytearray]] = {}  # by file; "" for all that share a name
        self._pool = ThreadPoolExecutor(THREADS, "holdfast-put")
        self._room = threading.BoundedSemaphore(THREADS)
        self._pending: list[Future[Part]] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                for path in tuple(self._open):
                    self._close(path)
                self.parts = [one.result() for one in self._pending]
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def put(self, path: str, data: bytes | bytearray, places: dict[str, Place]) -> str:
        """Upload a chunk of the file at `path`, if it is in none of `places` yet. Its hash."""
        sha256 = hash_of(data)
        if sha256 in places:
            return sha256
        group = path if path in self.own else ""
        if group:
            for other in [one for one in self._open if one not in ("", group)]:
                self._close(other)  # the file before this one is complete
        if group in self._open and len(self._open[group][2]) + len(data) > OBJECT_BYTES:
            self._flush(group)
        if group not in self._open:
            self._open[group] = self._fresh(), 0, bytearray()
        name, count, filled = self._open[group]
        places[sha256] = Place(name.part_key(0, count), len(filled), len(data))
        filled += data
        return sha256

    def _fresh(self) -> CheckpointName:
        name = CheckpointName.new(self._step, self._attempt)
        self.names = (*self.names, name)
        return name

    def _flush(self, group: str) -> None:
        name, count, filled = self._open[group]
        self._open[group] = name, count + 1, bytearray()
        if filled:
            self._write(name.part_key(0, count), filled)

    def _close(self, group: str) -> None:
        self._flush(group)
        del self._open[group]

    def _write(self, key: str, data: bytearray) -> None:
        for one in self._pending:
            if one.done():
                one.result()  # the first error ends the commit
        self._check()
        self._room.acquire()

        def write() -> Part:
            try:
                sums = chunk_sums(data)
                with memoryview(data) as view:
                    self._storage.write(key, view, sums=sums, rate=self._rate)
                return Part(key, len(data), CHUNK_BYTES, sums)
            finally:
                self._room.release()

        self._pending.append(self._pool.submit(write))
