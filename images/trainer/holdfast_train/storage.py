"""Where checkpoints live: the small interface that S3 and folders implement, and the wrapper that tries again.

Small things (the log, manifests) go through `put`, `put_if_absent` and `get`. The data of checkpoints goes through
`write` and `read_into`, which move gigabytes between the store and the caller's memory without a copy in between.
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from holdfast_train.environment import Credentials
from holdfast_train.errors import StorageError, StorageInvalidError, StorageUnreachableError
from holdfast_train.rate import Rate

__all__ = ["Entry", "Patient", "Storage", "join_uri", "open_storage"]

T = TypeVar("T")
FIRST_DELAY = 0.1
LONGEST_DELAY = 2.0


@dataclass(frozen=True)
class Entry:
    """One key as the store lists it: `size` in bytes, `modified_at` with a time zone, by the store's own clock."""

    key: str
    size: int
    modified_at: datetime


class Storage(Protocol):
    """A flat store of keys under one prefix. Every method may raise a StorageError; each is one try."""

    uri: str
    """Where the prefix is, without a slash at the end."""

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Create `key`, or return False and change nothing if it exists. Of concurrent callers exactly one wins."""

    def put(self, key: str, body: bytes | bytearray) -> None:
        """Write `key` so that it is durable and whole on return."""

    def write(self, key: str, data: memoryview, *, sums: Sequence[str] = (), rate: Rate | None = None) -> None:
        """Create `key` with `data` (bytes, contiguous, up to 4 GiB), durable and whole on return, without a copy of it.

        `data` must not change until then. `sums`: the CRC-64/NVME of each 4 MiB of it, as manifests have them. An S3
        store is given them to check what arrives; without them they are computed here. `rate` limits bytes a second.
        """

    def get(self, key: str) -> bytes:
        """The bytes of `key`. KeyMissingError if it does not exist."""

    def read_into(self, key: str, start: int, *views: memoryview) -> None:
        """Fill `views` (bytes, contiguous), one after the other, with the bytes of `key` from `start` on.

        KeyMissingError if it does not exist, CheckpointCorruptError if it ends before all are full; what they hold
        after an error is undefined.
        """

    def size(self, key: str) -> int | None:
        """Length of `key` in bytes, None if it does not exist."""

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """All keys that start with `prefix` and sort behind `after`, sorted."""

    def entries(self, prefix: str) -> list[Entry]:
        """What `keys` lists, with size and time of the last change."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete `keys`; one that does not exist is no error."""

    def drop_unfinished(self, prefix: str, before: datetime) -> int:
        """Drop what a writer that died had begun under `prefix` and never finished, if it began before `before`.

        Nobody lists or reads that, but it takes space. `before` has a time zone. Returns how many were dropped.
        """


class Patient:
    """A Storage that tries again, with growing random delays, while the store cannot be reached.

    How long is set by `within`; outside of it every call is tried once. Calls of several threads share one silence: it
    begins with the first call that fails after one that was answered, and any answer ends it.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._sleep = sleep
        self._patience = 0.0
        self._deadline = math.inf
        self._silent_since: float | None = None
        self.uri = storage.uri

    @contextmanager
    def within(self, seconds: float, *, at_most: float = math.inf) -> Iterator[None]:
        """Inside, a call is tried again until the store has been silent for `seconds`.

        However long the work takes, each answer renews that: many gigabytes survive many short disturbances. Only
        `at_most` seconds from now, for one who has to leave by then, nothing is tried again.
        """
        before = self._patience, self._deadline
        self._patience, self._deadline = seconds, self._clock() + at_most
        self._silent_since = None
        try:
            yield
        finally:
            self._patience, self._deadline = before

    def hurry(self, at_most: float) -> None:
        """Inside `within`: nothing is tried again after `at_most` seconds from now. May be called in any thread."""
        self._deadline = min(self._deadline, self._clock() + at_most)

    def _call(self, function: Callable[[], T]) -> T:
        delay = FIRST_DELAY
        while True:
            try:
                answer = function()
            except StorageUnreachableError:
                # Jitter keeps a thousand jobs from returning to a recovering store in one wave.
                pause = delay * random.uniform(0.5, 1.5)  # noqa: S311
                now = self._clock()
                since = self._silent_since
                if since is None:
                    since = self._silent_since = now
                if now + pause > min(since + self._patience, self._deadline):
                    raise
                self._sleep(pause)
                delay = min(LONGEST_DELAY, delay * 2)
            except StorageError:
                self._silent_since = None  # a refusal is an answer
                raise
            else:
                self._silent_since = None
                return answer

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """As Storage. False may also mean that an earlier try took effect unseen: compare what is there."""
        return self._call(lambda: self._storage.put_if_absent(key, body))

    def put(self, key: str, body: bytes | bytearray) -> None:
        """As Storage."""
        self._call(lambda: self._storage.put(key, body))

    def write(self, key: str, data: memoryview, *, sums: Sequence[str] = (), rate: Rate | None = None) -> None:
        """As Storage. Each try sends all of it."""
        self._call(lambda: self._storage.write(key, data, sums=sums, rate=rate))

    def get(self, key: str) -> bytes:
        """As Storage."""
        return self._call(lambda: self._storage.get(key))

    def read_into(self, key: str, start: int, *views: memoryview) -> None:
        """As Storage. Each try reads all of it."""
        self._call(lambda: self._storage.read_into(key, start, *views))

    def size(self, key: str) -> int | None:
        """As Storage."""
        return self._call(lambda: self._storage.size(key))

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """As Storage."""
        return self._call(lambda: self._storage.keys(prefix, after))

    def entries(self, prefix: str) -> list[Entry]:
        """As Storage."""
        return self._call(lambda: self._storage.entries(prefix))

    def delete(self, keys: Iterable[str]) -> None:
        """As Storage."""
        wanted = list(keys)
        self._call(lambda: self._storage.delete(wanted))

    def drop_unfinished(self, prefix: str, before: datetime) -> int:
        """As Storage."""
        return self._call(lambda: self._storage.drop_unfinished(prefix, before))


def join_uri(uri: str, key: str) -> str:
    """The address of `key` in the storage at `uri`."""
    return f"{uri.rstrip('/')}/{key}"


def open_storage(
    uri: str, *, endpoint: str | None = None, region: str | None = None, credentials: Credentials | None = None
) -> Storage:
    """The storage at `uri`: `s3://bucket/prefix` or `file:///folder`. StorageInvalidError if it is neither.

    Nothing is contacted yet. boto3 is imported only for S3: it takes longer to import than a small trainer to start.
    """
    scheme, separator, rest = uri.partition("://")
    parts = rest.strip("/").split("/")
    if separator and not any(part in ("", ".", "..") for part in parts):
        if scheme == "file" and rest.startswith("/"):
            from holdfast_train.folder import FolderStorage  # noqa: PLC0415

            return FolderStorage("/" + "/".join(parts))
        if scheme == "s3" and not rest.startswith("/"):  # s3:///prefix: a variable with the bucket was empty
            from holdfast_train.s3 import S3Storage  # noqa: PLC0415

            return S3Storage(
                parts[0],
                "/".join(parts[1:]),
                endpoint=endpoint,
                region=region,
                credentials=credentials or Credentials(),
            )
    raise StorageInvalidError(
        f"the checkpoint storage {uri!r} cannot be read; allowed: s3://bucket/prefix or file:///absolute/folder"
    )
