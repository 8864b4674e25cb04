"""Programs and what they need, in the storage of a job's checkpoints, below code/: created once, and never changed.

code/{sha256}.tar.gz is an archive: of the folder of a program, or of one package. code/{sha256}.json is a list of
packages (`holdfast_protocol.dependencies`).

Retention leaves them: each checkpoint names its own.
"""

import io
import mmap
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from holdfast_protocol.dependencies import LIST_FILE, MOST_BYTES, Dependencies, read_list
from holdfast_protocol.document import DocumentError
from holdfast_train.code.archive import pack, unpack
from holdfast_train.code.tree import OF_CODE, OF_DEPENDENCIES, Entry, Limit, check_tree, content_hash, tree_hash
from holdfast_train.errors import CodeInvalidError, CodeMissingError, KeyMissingError
from holdfast_train.storage.base import Storage

BLOCK: Final = 4 << 20


def key_of(sha256: str) -> str:
    """The key of the archive of a folder with this hash."""
    return f"code/{sha256}.tar.gz"


def list_key_of(sha256: str) -> str:
    """The key of a list of packages with this hash."""
    return f"code/{sha256}.json"


def send(
    storage: Storage,
    root: Path,
    entries: Sequence[Entry],
    done: Callable[[int], None] = lambda _: None,
    limit: Limit = OF_CODE,
) -> int:
    """Upload the archive of `entries`, which are below `root`. The bytes that were uploaded; 0 if it was there.

    `done`: is told of bytes of the files that were packed. An upload that does not come to its end leaves nothing that
    counts. CodeInvalidError, CodeTooLargeError, StorageErrors, OSError.
    """
    check_tree(entries, limit)
    key = key_of(tree_hash(entries))
    if storage.size(key) is not None:
        return 0
    with tempfile.TemporaryFile() as packed:  # packages may have gigabytes
        pack(root, entries, packed, done)
        packed.flush()
        with mmap.mmap(packed.fileno(), 0, access=mmap.ACCESS_READ) as content, memoryview(content) as data:
            storage.write(key, data)
            return len(data)


def copy(source: Storage, target: Storage, sha256: str, dependencies: str | None = None) -> None:
    """Copy the archive of a folder with this hash, and what it needs, if `target` has it not.

    CodeInvalidError, CodeMissingError, StorageErrors.
    """
    _copy_object(source, target, key_of(sha256))
    if dependencies is not None:
        content = _read_list(source, dependencies)
        for package in _decoded(content).packages:
            _copy_object(source, target, key_of(package.sha256))
        target.write(list_key_of(dependencies), memoryview(content))  # last: what it names is there


def _copy_object(source: Storage, target: Storage, key: str) -> None:
    if target.size(key) is None and not target.copy_from(source.uri, key):
        try:
            target.write(key, memoryview(source.get(key)))
        except KeyMissingError as error:
            raise _missing(source, key) from error


def size_of(storage: Storage, sha256: str) -> int:
    """Bytes of the archive of the folder with this hash. CodeMissingError if the storage has it not, StorageErrors."""
    key = key_of(sha256)
    size = storage.size(key)
    if size is None:
        raise _missing(storage, key)
    return size


def size_of_dependencies(storage: Storage, sha256: str) -> int:
    """Bytes of the archives of the packages in the list with this hash. CodeMissingError if one of them is missing."""
    return sum(size_of(storage, package.sha256) for package in _decoded(_read_list(storage, sha256)).packages)


def fetch(storage: Storage, sha256: str, folder: Path, *, is_writable: bool = False) -> None:
    """Put the folder with this hash into `folder`; see `unpack`. CodeMissingError if the storage has it not."""
    size = size_of(storage, sha256)
    unpack(_opened(storage, [(sha256, size)]), folder, is_writable=is_writable)


def fetch_dependencies(storage: Storage, sha256: str, folder: Path) -> None:
    """Put the packages of the list with this hash, and the list, into `folder`; see `unpack`.

    CodeMissingError if the storage has not all of them.
    """
    content = _read_list(storage, sha256)
    found = _decoded(content)
    archives = [(package.sha256, size_of(storage, package.sha256)) for package in found.packages]
    unpack(_opened(storage, archives), folder, limit=OF_DEPENDENCIES)
    try:
        with (folder / LIST_FILE).open("xb") as opened:
            opened.write(content)
    except FileExistsError as error:
        raise CodeInvalidError(f"a package has a file {LIST_FILE}, which is Holdfast's") from error


def _read_list(storage: Storage, sha256: str) -> bytes:
    key = list_key_of(sha256)
    size = storage.size(key)
    if size is None:
        raise _missing(storage, key)
    content = storage.get(key) if size <= MOST_BYTES else b""
    if content_hash(content) != sha256:
        raise CodeInvalidError(f"{key} in {storage.uri} is not the list with this hash")
    return content


def _decoded(content: bytes) -> Dependencies:
    try:
        return read_list(content)
    except DocumentError as error:
        raise CodeInvalidError(str(error)) from error


def _opened(storage: Storage, sizes: Iterable[tuple[str, int]]) -> Iterator[tuple[BinaryIO, str]]:
    """The archives with these hashes, one after the other."""
    for sha256, size in sizes:
        with io.BufferedReader(_Object(storage, key_of(sha256), size), BLOCK) as opened:
            yield opened, sha256


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
