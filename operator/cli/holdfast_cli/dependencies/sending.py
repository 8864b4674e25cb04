"""Dependencies from a folder of a program to the storage of its job."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from holdfast_cli.cache import cache_dir
from holdfast_cli.dependencies.declared import declared, not_read
from holdfast_cli.dependencies.locked import ForImage, lock
from holdfast_cli.dependencies.unpacked import Unpacked, unpack
from holdfast_cli.errors import CliError
from holdfast_cli.terminal.bytes_bar import bytes_bar
from holdfast_train.code import store
from holdfast_train.code.tree import OF_DEPENDENCIES
from holdfast_train.exchange.progress_bar import format_size
from holdfast_train.storage.base import Storage

SHOWN: Final = 3  # requirements of the image that are named
LOCKS, PACKAGES, SENT = "locks", "packages", "sent"  # folders of the cache


def prepare(root: Path, file: str | None, image: ForImage, err: Console, *, upgrade: bool = False) -> Unpacked | None:
    """The packages that the folder `root` needs, on this machine; None if it names none. CliError.

    `file`: see `declared`. `upgrade`: choose the newest versions, not those of the last time.
    """
    found = declared(root, file)
    if found is None:
        if file is None and (files := not_read(root)):
            words = f"no packages are sent: {', '.join(files)} {'is' if len(files) == 1 else 'are'} not read for them"
            err.print(Text(f"{words}; --deps names a file of requirements"), soft_wrap=True)
        return None
    cache = cache_dir() / "dependencies"
    try:
        for part in (LOCKS, PACKAGES, SENT):
            (cache / part).mkdir(parents=True, exist_ok=True)
        cache.chmod(0o700)  # a lock has the addresses of indexes, and those may have passwords
        locked = lock(found, image, cache / LOCKS, upgrade=upgrade)
        unpacked = unpack(locked, image, cache / PACKAGES, err)
    except OSError as error:
        raise CliError(
            f"{cache} cannot be used: {error.strerror or error}", hint="HOLDFAST_CACHE names another folder"
        ) from error
    listed = unpacked.listed
    size = sum(package.size for package in listed.packages)
    count = len(listed.packages)
    words = f"{count:,} {'package' if count == 1 else 'packages'} of {found.path.name}, {format_size(size)}"
    err.print(Text(f"{words}, for Python {image.python} on {image.platform}"), soft_wrap=True)
    if listed.provided:
        err.print(Text(f"of the image: {_some(need.requirement for need in listed.provided)}"), soft_wrap=True)
    return unpacked


def _some(texts: Iterable[str]) -> str:
    every = sorted(set(texts))
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return f"{', '.join(every[:SHOWN])}{more}"


def send(storage: Storage, unpacked: Unpacked, err: Console) -> int:
    """Upload what the storage does not have. The bytes that were uploaded. CliError, CodeErrors, StorageErrors.

    A package that this person has sent for another job is copied inside the server.
    """
    packages, sent = unpacked.packages(), 0
    with bytes_bar(err, "sending packages", sum(package.size for package, _ in packages)) as advance:
        for package, files in packages:
            note = cache_dir() / "dependencies" / SENT / package.sha256
            if storage.size(store.key_of(package.sha256)) is not None or _copy(storage, note):
                advance(package.size)
            else:
                sent += store.send(storage, unpacked.root, files, advance, OF_DEPENDENCIES)
            note.write_text(storage.uri)
    key = store.list_key_of(unpacked.sha256)
    if storage.size(key) is None:
        storage.write(key, memoryview(unpacked.content))  # last: what it names is there
        sent += len(unpacked.content)
    return sent


def _copy(storage: Storage, note: Path) -> bool:
    """Copy the package from where the note says that it was sent. False if that is not possible."""
    with suppress(FileNotFoundError):
        return storage.copy_from(note.read_text(), store.key_of(note.name))
    return False
