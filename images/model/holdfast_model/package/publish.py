"""Copy a package to a storage, where package.json is written last, and only if none is there."""

import mmap
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from holdfast_model.package.document import check_origin, parse, read_json
from holdfast_model.package.errors import PackageError, ProblemError
from holdfast_model.package.folder import FILE, MOST_BYTES
from holdfast_train.storage.base import Storage

MOST_FILE: Final = 4 << 30
"""The largest file that a storage takes at once, in bytes."""


def published(storage: Storage) -> Mapping[str, Any] | None:
    """package.json of the package at a storage, None if there is none. PackageError if it is not one of a package."""
    size = storage.size(FILE)
    if size is None:
        return None
    place = f"{storage.uri}/{FILE}"
    if size > MOST_BYTES:
        raise PackageError(f"{place} has {size >> 20} MiB; it is not of this program")
    try:
        found = read_json(storage.get(FILE))
        check_origin(found)
        parse(found)
    except (ValueError, ProblemError) as error:
        raise PackageError(f"{place} is damaged: {error}") from error
    document: Mapping[str, Any] = found
    return document


def check_free(storage: Storage, known: Collection[str]) -> list[str]:
    """What an interrupted copy of a package has left there. `known`: files and folders that a package may have.

    PackageError if a package is there, or something else: it would be mixed with the package.
    """
    keys = storage.keys("")
    if FILE in keys:
        raise PackageError(f"{storage.uri} is a package already: give another place, or delete it first")
    if other := [key for key in keys if key.split("/")[0] not in known]:
        raise PackageError(
            f"{storage.uri} has {other[0]}, which is not of a package: give a place of its own, as {storage.uri}/NAME"
        )
    return keys


def publish(
    folder: Path, storage: Storage, known: Collection[str], progress: Callable[[str], None] = lambda _: None
) -> None:
    """Copy all files of the package in `folder`. `known`: see `check_free`.

    PackageError if another package is there, or comes there meanwhile, or if a file is too large.
    """
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    for name, path in files.items():
        if path.stat().st_size > MOST_FILE:
            raise PackageError(
                f"{name} has over {MOST_FILE >> 30} GiB, more than one copy to a storage takes; make the package in a "
                f"folder, and copy it with another program"
            )
    document = files.pop(FILE).read_bytes()
    storage.delete(key for key in check_free(storage, known) if key not in files)
    for name, path in files.items():
        if storage.size(FILE) is not None:  # of an attempt beside this one: its files must stay as it wrote them
            raise PackageError(f"{storage.uri} got another package meanwhile: give another place")
        progress(f"copying {name}")
        _copy(path, storage, name)
    if not storage.put_if_absent(FILE, document) and storage.get(FILE) != document:  # the first answer may be lost
        raise PackageError(f"{storage.uri} got another package meanwhile: give another place")


def _copy(path: Path, storage: Storage, name: str) -> None:
    if not path.stat().st_size:
        storage.put(name, b"")
        return
    with path.open("rb") as file:
        # The map ends with its last view, which an upload that failed may still have.
        storage.write(name, memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
