"""The interface of a storage, which S3 and folders implement.

`put`, `put_if_absent` and `get` are for small objects (log records, manifests). `write` and `read_into` are for data:
they move gigabytes between the store and the caller's memory without an intermediate copy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from holdfast_train.storage.rate_limit import RateLimit


@dataclass(frozen=True)
class Entry:
    """One key in a listing: `size` in bytes; `modified_at` has a time zone and comes from the store's clock.

    `version`: of the content, such as an ETag: it is another one after the key was written again.
    """

    key: str
    size: int
    modified_at: datetime
    version: str = ""


class Storage(Protocol):
    """A flat store of keys under one prefix. Every method makes one attempt and may raise a StorageError."""

    uri: str
    """The address of the prefix, without a trailing slash."""

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Create `key`. False, without a change, if it exists. Exactly one of several concurrent callers gets True."""

    def put(self, key: str, body: bytes | bytearray) -> None:
        """Write `key`. On return it is durable and complete."""

    def write(self, key: str, data: memoryview, *, sums: Sequence[str] = (), rate: RateLimit | None = None) -> None:
        """Create `key` from `data` (contiguous bytes, at most 4 GiB) without a copy. Durable and complete on return.

        `data` must not change before the return. `sums`: the CRC-64/NVME of each 4 MiB of `data`, as in a manifest. An
        S3 store checks the received bytes against them; without `sums` they are computed here. `rate` limits bytes per
        second.
        """

    def copy_from(self, uri: str, key: str) -> bool:
        """Copy `key` of the storage at `uri`, without reading it here. False if this server has it not, or refuses."""

    def get(self, key: str) -> bytes:
        """The bytes of `key`. KeyMissingError if `key` does not exist."""

    def read_into(self, key: str, start: int, *views: memoryview, version: str = "") -> None:
        """Fill `views` (contiguous bytes), one after the other, with the bytes of `key` from `start` on.

        KeyMissingError if `key` does not exist, CheckpointCorruptError if it ends before all views are full. With the
        `version` of a listing: KeyChangedError if `key` was written again since. After an error the content of the
        views is undefined.
        """

    def size(self, key: str) -> int | None:
        """Length of `key` in bytes, None if `key` does not exist."""

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """All keys that start with `prefix` and sort after `after`, sorted."""

    def entries(self, prefix: str) -> list[Entry]:
        """The keys that start with `prefix`, sorted, with their sizes and the times of their last changes."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete `keys`. A key that does not exist is not an error."""

    def drop_unfinished(self, prefix: str, before: datetime) -> int:
        """Remove unfinished writes under `prefix` that began before `before` (with a time zone). Return their number.

        A writer that dies leaves them behind. No listing shows them and no read returns them, but they take space.
        """


def join_uri(uri: str, key: str) -> str:
    """The address of `key` in the storage at `uri`."""
    return f"{uri.rstrip('/')}/{key}"
