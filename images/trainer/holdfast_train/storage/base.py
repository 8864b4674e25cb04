"""Where checkpoints live: the small interface that S3 and folders implement, and the wrapper that tries again.

Small things (the log, manifests) go through `put`, `put_if_absent` and `get`. The data of checkpoints goes through
`write` and `read_into`, which move gigabytes between the store and the caller's memory without a copy in between.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from holdfast_train.storage.rate_limit import Rate

__all__ = ["Entry", "Storage", "join_uri"]


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


def join_uri(uri: str, key: str) -> str:
    """The address of `key` in the storage at `uri`."""
    return f"{uri.rstrip('/')}/{key}"
