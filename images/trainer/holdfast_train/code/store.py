"""Archives of programs in the storage of a job's checkpoints, below code/. They are created once and never changed.

Retention leaves them: each checkpoint names its own.
"""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from holdfast_train.code.archive import pack, unpack
from holdfast_train.code.tree import Entry, check_tree, tree_hash
from holdfast_train.errors import CodeMissingError, KeyMissingError
from holdfast_train.storage.base import Storage

BLOCK: Final = 4 << 20


def key_of(sha256: str) -> str:
    """The key of the archive of a folder with this hash."""
    return f"code/{sha256}.tar.gz"


def send(storage: Storage, root: Path, entries: Sequence[Entry], done: Callable[[int], None] = lambda _: None) -> int:
    """Upload the archive of `entries`, which are below `root`. The bytes that were uploaded; 0 if it was there.

    `done`: is told of bytes of the files that were packed. An upload that does not come to its end leaves nothing that
    counts. CodeInvalidError, CodeTooLargeError, StorageErrors, OSError.
    """
    check_tree(entries)
    key = key_of(tree_hash(entries))
    if storage.size(key) is not None:
        return 0
    packed = io.BytesIO()
    pack(root, entries, packed, done)
    storage.write(key, packed.getbuffer())
    return packed.tell()


def copy(source: Storage, target: Storage, sha256: str) -> None:
    """Copy the archive of a folder with this hash, if `target` has it not. CodeMissingError, StorageErrors."""
    key = key_of(sha256)
    if target.size(key) is None:
        try:
            target.write(key, memoryview(source.get(key)))
        except KeyMissingError as error:
            raise _missing(source, key) from error


def fetch(storage: Storage, sha256: str, folder: Path, *, is_writable: bool = False) -> None:
    """Put the folder with this hash into `folder`; see `unpack`. CodeMissingError if the storage has it not."""
    key = key_of(sha256)
    size = storage.size(key)
    if size is None:
        raise _missing(storage, key)
    with io.BufferedReader(_Object(storage, key, size), BLOCK) as opened:
        unpack(opened, folder, sha256, is_writable=is_writable)


def _missing(storage: Storage, key: str) -> CodeMissingError:
    return CodeMissingError(
        f"{storage.uri} has no {key}; `holdfast run --only-send` uploads it: send it to the storage that the job names"
    )


class _Object(io.RawIOBase):
    """An object of a storage as a file for reading."""

    def __init__(self, storage: Storage, key: str, size: int) -> None:
        self._storage = storage
        self._key = key
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer).cast("B")[: self._size - self._at]  # type: ignore[arg-type]
        if len(view):
            try:
                self._storage.read_into(self._key, self._at, view)
            except KeyMissingError as error:
                raise CodeMissingError(f"{self._storage.uri} has no {self._key} any more") from error
            self._at += len(view)
        return len(view)
