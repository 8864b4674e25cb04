"""Where checkpoints live: the small interface that S3 and folders implement, and the wrapper that tries again."""

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from holdfast_train.environment import Credentials
from holdfast_train.errors import StorageError, StorageInvalidError, StorageUnreachableError

__all__ = ["Patient", "Storage", "join_uri", "open_storage"]

T = TypeVar("T")
FIRST_DELAY = 0.1
LONGEST_DELAY = 2.0


class Storage(Protocol):
    """A flat store of keys under one prefix. Every method may raise a StorageError; each is one try."""

    uri: str
    """Where the prefix is, without a slash at the end."""

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Create `key`, or return False and change nothing if it exists. Of concurrent callers exactly one wins."""

    def put(self, key: str, body: bytes | bytearray) -> None:
        """Write `key` so that it is durable and whole on return."""

    def get(self, key: str) -> bytes:
        """The bytes of `key`. KeyMissingError if it does not exist."""

    def size(self, key: str) -> int | None:
        """Length of `key` in bytes, None if it does not exist."""

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """All keys that start with `prefix` and sort behind `after`, sorted."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete `keys`; one that does not exist is no error."""


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

    def get(self, key: str) -> bytes:
        """As Storage."""
        return self._call(lambda: self._storage.get(key))

    def size(self, key: str) -> int | None:
        """As Storage."""
        return self._call(lambda: self._storage.size(key))

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """As Storage."""
        return self._call(lambda: self._storage.keys(prefix, after))

    def delete(self, keys: Iterable[str]) -> None:
        """As Storage."""
        wanted = list(keys)
        self._call(lambda: self._storage.delete(wanted))


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
        if scheme == "s3":
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
