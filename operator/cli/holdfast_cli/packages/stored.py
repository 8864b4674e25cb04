"""A package in a storage: read what it says of itself, and copy it to this machine."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from holdfast_cli.checkpoints import screen
from holdfast_cli.errors import CliError
from holdfast_train.errors import KeyMissingError
from holdfast_train.storage.base import Entry, Storage

FILE: Final = "package.json"
MOST_BYTES: Final = 16 << 20  # the largest package.json that is read
BLOCK_BYTES: Final = 64 << 20


def read_package(storage: Storage) -> Mapping[str, Any] | None:
    """package.json, None if there is none: then there is no package. CliError if it is not one of a package."""
    size = storage.size(FILE)
    if size is None:
        return None
    try:
        found = json.loads(storage.get(FILE)) if size <= MOST_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("variants"), dict):
        raise CliError(f"{storage.uri}/{FILE} is not that of a package", hint="give another --to")
    return found


def fetch(storage: Storage, document: Mapping[str, Any], folder: Path) -> None:
    """Copy the files that package.json names to the new folder, which appears when they are complete and intact.

    Other files below the address are not of the package, and stay there.

    CliError, KeyMissingError and other StorageErrors, OSError.
    """
    hashes = _hashes(document)
    if outside := [name for name in hashes if not _is_plain(name)]:
        raise CliError(f"{storage.uri}/{FILE} names the file {outside[0]!r:.80}, which is outside of the package")
    entries = [entry for entry in storage.entries("") if entry.key in hashes or entry.key == FILE]
    if missing := [name for name in hashes if name not in {entry.key for entry in entries}]:
        raise KeyMissingError(f"{storage.uri}/{missing[0]} does not exist, and {FILE} names it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as temporary,
        screen.transfer("fetching", sum(entry.size for entry in entries)) as progress,
    ):
        made = Path(temporary) / "package"
        for entry in entries:
            found = _copy(storage, entry, made / entry.key)
            if hashes.get(entry.key, found) != found:
                raise CliError(f"{storage.uri}/{entry.key} has changed since the package was made")
            progress.advance(progress.task_ids[0], entry.size)
        refuse_existing(folder)
        made.rename(folder)


def refuse_existing(folder: Path) -> None:
    """CliError if something has this name already, also a link that leads nowhere."""
    if os.path.lexists(folder):
        raise CliError(f"{folder} exists already", hint="use another name, or remove it first")


def _hashes(document: Mapping[str, Any]) -> dict[str, str]:
    """The hash of each file that package.json names. What is not as expected has none."""
    found: dict[str, str] = {}
    listed: dict[str, Any] = {}
    tests = document.get("tests")
    if isinstance(tests, dict):
        listed[str(tests.get("file"))] = tests
    for files in (document.get("pages"), *(_files(entry) for entry in document["variants"].values())):
        if isinstance(files, dict):
            listed |= files
    for name, one in listed.items():
        if isinstance(one, dict) and isinstance(one.get("sha256"), str):
            found[name] = one["sha256"]
    return found


def _files(entry: Any) -> Any:
    return entry.get("files") if isinstance(entry, dict) else None


def _is_plain(key: str) -> bool:
    """True if a key can be a path below a folder."""
    return "\\" not in key and "\0" not in key and not any(part in ("", ".", "..") for part in key.split("/"))


def _copy(storage: Storage, entry: Entry, path: Path) -> str:
    """Write one file; the SHA-256 of what was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("xb") as file:
        for at in range(0, entry.size, BLOCK_BYTES):
            block = bytearray(min(BLOCK_BYTES, entry.size - at))
            storage.read_into(entry.key, at, memoryview(block))
            digest.update(block)
            file.write(block)
    return digest.hexdigest()
