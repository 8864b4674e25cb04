"""Which objects are missing in a folder, and how they get there: checked, several at once, each by one pod only."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from holdfast_train.errors import (
    CheckpointCorruptError,
    DataChangedError,
    DataError,
    DataInvalidError,
    DataTooLargeError,
    HoldfastTrainError,
    KeyChangedError,
    KeyMissingError,
)
from holdfast_train.say import say
from holdfast_train.staging.folder import PART, DataFolder
from holdfast_train.storage.base import Entry, Storage
from holdfast_train.storage.parallel import THREADS

MAX_OBJECTS: Final = 1_000_000
BLOCK_BYTES: Final = 8 << 20  # of one request; each thread has one block in memory
PAUSE_SECONDS: Final = 0.2  # between two looks whether another pod has written its files
_MD5: Final = re.compile('"?([0-9a-f]{32})"?')
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def in_words(size: int) -> str:
    """A number of bytes for people."""
    unit = next((one for one in _UNITS if size >= one[1]), None)
    return f"{size} bytes" if unit is None else f"{size / unit[1]:.1f} {unit[0]}"


class Counts:
    """Bytes of all data: `total`, those that are in place or arriving (`done`), and those that came from the store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.total = self.done = self.fetched = 0

    def add(self, done: int, fetched: int = 0) -> None:
        """Count these bytes too. Several threads may call this."""
        with self._lock:
            self.done += done
            self.fetched += fetched


class Copy:
    """Copies the objects of `source` into `folder`. `counts` are those of all copies of the pod."""

    def __init__(self, source: Storage, folder: DataFolder, counts: Counts) -> None:
        self._source = source
        self._folder = folder
        self._counts = counts
        self._missing: list[Entry] = []
        self._checks_sums = True
        self._stop = threading.Event()
        self._lock = threading.Lock()  # of the objects that are left, and of the first error
        self._error: HoldfastTrainError | None = None
        self.files = 0

    def plan(self) -> None:
        """List the objects, and find those that are missing. DataInvalidError if they cannot be files."""
        entries = [one for one in self._source.entries("") if not (one.key.endswith("/") and one.size == 0)]
        _check(self._source.uri, entries)
        self.files = len(entries)
        self._missing = [entry for entry in entries if not self._folder.holds(entry)]
        size = sum(entry.size for entry in entries)
        self._counts.total += size
        self._counts.add(size - sum(entry.size for entry in self._missing))

    def space(self) -> tuple[int, int, int]:
        """A number of the file system, the bytes that this copy needs there, and those that are free."""
        device, free = self._folder.free
        return device, sum(entry.size - self._folder.begun(entry) for entry in self._missing), free

    def run(self) -> None:
        """Fetch what is missing. DataErrors and StorageErrors; the first one ends all."""
        left: Sequence[Entry] = self._missing
        while left:
            busy: list[Entry] = []
            entries = iter(left)  # the threads take from it one by one: a million futures would be a gigabyte
            with ThreadPoolExecutor(min(THREADS, len(left)), "holdfast-data") as pool:
                done = [pool.submit(self._work, entries, busy) for _ in range(min(THREADS, len(left)))]
            for one in done:
                one.result()  # raises what is not one of our errors
            if self._error is not None:
                raise self._error
            left = busy
            if left:
                self._stop.wait(PAUSE_SECONDS)

    def _work(self, entries: Iterator[Entry], busy: list[Entry]) -> None:
        """Fetch objects until there are no more, or one cannot be fetched. Those of another pod go to `busy`."""
        while not self._stop.is_set():
            with self._lock:
                entry = next(entries, None)
            if entry is None:
                return
            try:
                if self._fetch(entry):
                    busy.append(entry)
            except HoldfastTrainError as error:
                with self._lock:
                    self._error = self._error or error
                self._stop.set()
            except BaseException:
                self._stop.set()
                raise

    def _fetch(self, entry: Entry) -> bool:
        """Bring one object into its file. True if another pod is doing it."""
        if self._folder.holds(entry):  # another pod has brought it
            self._counts.add(entry.size)
            return False
        with self._folder.writing(entry) as part:
            if part is None:
                return True
            before = ""
            while not self._is_right(entry, found := self._read(entry, part.write), before):
                self._counts.add(-entry.size)
                before = found
        return False

    def _read(self, entry: Entry, write: Callable[[memoryview, int], None]) -> str:
        """Read the object, and write it. The MD5 sum of its bytes."""
        digest = hashlib.md5(usedforsecurity=False)
        block = bytearray(min(BLOCK_BYTES, entry.size))
        done = 0
        try:
            while done < entry.size:
                if self._stop.is_set():
                    raise DataError("another object could not be copied")
                view = memoryview(block)[: min(len(block), entry.size - done)]
                self._source.read_into(entry.key, done, view, version=entry.version)
                write(view, done)
                digest.update(view)
                done += len(view)
                self._counts.add(len(view), len(view))
        except (KeyChangedError, KeyMissingError, CheckpointCorruptError) as error:
            raise DataChangedError(
                f"{self._source.uri} changed while it was copied: {error}. Do not change data that a job reads: write "
                f"other data below another prefix, and name that in trainer.data"
            ) from error
        return digest.hexdigest()

    def _is_right(self, entry: Entry, found: str, before: str) -> bool:
        """True if the bytes are those of the ETag, where that is their MD5 sum; False to read them once more.

        The ETag of an object that was uploaded in parts, or encrypted with a key of KMS, is something else. Bytes that
        arrive twice and are equal were not damaged on the way: then the store's ETags are no sums.
        """
        wanted = _MD5.fullmatch(entry.version)
        if wanted is None or not self._checks_sums or found == wanted[1]:
            return True
        if not before:
            return False
        if found != before:
            raise DataChangedError(
                f"{self._source.uri}/{entry.key} was damaged on the way: two reads of the same version differ"
            )
        self._checks_sums = False
        say(f"the ETags of {self._source.uri} are no MD5 sums: the data is checked by its sizes and versions alone")
        return True


def check_space(copies: Sequence[Copy]) -> None:
    """DataTooLargeError if what is missing does not fit."""
    needed: dict[int, int] = {}
    room: dict[int, int] = {}
    for copy in copies:
        device, needs, free = copy.space()
        needed[device] = needed.get(device, 0) + needs
        room[device] = free
    for device, needs in needed.items():
        if needs > room[device]:
            raise DataTooLargeError(
                f"the data needs {in_words(needs)}, and {in_words(room[device])} are free: choose a larger volume, or "
                f"less data"
            )


def _check(uri: str, entries: Sequence[Entry]) -> None:
    """DataInvalidError if these keys cannot be paths of files in one folder."""
    if not entries:
        raise DataInvalidError(f"{uri} has no objects below it; name the folder of the objects")
    if len(entries) > MAX_OBJECTS:
        raise DataInvalidError(
            f"{uri} has {len(entries)} objects; at most {MAX_OBJECTS} are allowed: put several samples into one object"
        )
    folders: set[str] = set()
    for entry in entries:
        parts = entry.key.split("/")
        if any(part in ("", ".", "..") or _CONTROL.search(part) for part in parts) or parts[-1].startswith(PART):
            raise DataInvalidError(
                f"{uri} has the key {entry.key[:200]!r}, which cannot be a file; allowed: names between single "
                f"slashes, without '.', '..' and control characters, and not beginning with {PART}"
            )
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
    both = next((entry.key for entry in entries if entry.key in folders), None)
    if both is not None:
        raise DataInvalidError(f"{uri} has {both!r} as an object and as a folder of others; rename one of them")
