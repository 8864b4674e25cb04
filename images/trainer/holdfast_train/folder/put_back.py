"""Put the files of a commit back into the folder, before the program starts.

What is there with the same bytes stays, chunk by chunk. What is there with other bytes stays if the folder was at this
commit (`note`), because the program wrote it later, and if it is whole; otherwise the file of the commit replaces it.
Files that the commit does not have stay. All bytes are there, and are checked, before the first file is replaced.
"""

import errno
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Final

from holdfast_train.errors import EnvironmentVariableError, StorageFullError
from holdfast_train.folder import formats
from holdfast_train.folder.index import CHUNK, Chunk, Index, Saved, above, check_hash, hash_of, read_part
from holdfast_train.folder.look import OWN, File, look
from holdfast_train.folder.snapshot import KEPT
from holdfast_train.storage.base import Storage

STAGE: Final = f"{OWN}put-back-"
ASIDE: Final = f"{OWN}aside"
MARKER: Final = f"{OWN}node-"  # files by which nodes find that they share a volume
THREADS: Final = 3  # ranges in memory at once,
RANGE_BYTES: Final = 32 << 20  # of so many bytes
ZEROS: Final = hash_of(bytes(CHUNK))
APART: Final = 16  # folders, the newest ones, whose times of change differ,
TICK_SECONDS: Final = 0.01  # by more than a tick of the kernel's clock


@dataclass
class PutBack:
    """What was done: bytes that were `read` from the storage, and of files that were `there` with the same bytes.

    `replaced`: path -> why the commit's file is in the place of another one. `newer`: paths of files that stay although
    the commit has other bytes. `files`: all that have the bytes of the commit now.
    """

    read: int = 0
    there: int = 0
    replaced: dict[str, str] = field(default_factory=dict)
    newer: list[str] = field(default_factory=list)
    files: dict[str, File] = field(default_factory=dict)


def make_folder(root: Path) -> None:
    """Make `root` if it is missing, and delete what an earlier writer left. EnvironmentVariableError if that fails."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        tidy(root)
        probe = root / f"{STAGE}{uuid.uuid4().hex}"
        probe.mkdir()
        with suppress(FileNotFoundError):  # see tidy
            probe.rmdir()
    except OSError as error:
        raise EnvironmentVariableError(
            f"checkpoint.folder: cannot write to {root} ({error.strerror}); mount a volume there that the program's "
            f"user can write to, such as an emptyDir in trainer.volumes"
        ) from error


def tidy(root: Path) -> None:
    """Delete what a writer that was killed has left: it would keep the bytes of files that the program deletes.

    A node that shares the volume may do the same at the same time.
    """
    for pattern in (f"{STAGE}*", f"{KEPT}*"):
        for path in root.glob(pattern):
            with suppress(FileNotFoundError):
                shutil.rmtree(path)
    for pattern in (f"{OWN}*.new", f"{MARKER}*"):
        for path in root.glob(pattern):
            path.unlink(missing_ok=True)


def set_aside(root: Path, paths: Collection[str]) -> Path:
    """Move the files at `paths` into a folder that no look sees, whose content goes. Returns that folder. OSError."""
    aside = root / ASIDE
    if aside.exists():
        shutil.rmtree(aside)
    for path in paths:
        target = aside / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            (root / path).replace(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.move(root / path, target)  # another volume is mounted there
    for folder in sorted({one for path in paths for one in above(path)}, reverse=True):
        with suppress(OSError):  # other files are in it
            (root / folder).rmdir()  # a program may take an empty one for its newest save
    return aside


def put_back(
    storage: Storage,
    known: Index,
    root: Path,
    *,
    is_at_commit: bool = False,
    wanted: Collection[str] | None = None,
    before_others: Callable[[], None] = lambda: None,
    check: Callable[[], None] = lambda: None,
) -> PutBack:
    """Put the files of `known` into `root`. `wanted`: only these paths; None for all.

    `is_at_commit`: what has other bytes in `root` was written after this commit. `before_others` is called before the
    first of such files is replaced: from then on this is not true, also if this process dies.

    CheckpointCorruptError or KeyMissingError if the checkpoint is broken: then nothing in `root` has changed.
    StorageFullError if the folder has no room.
    """
    stage = root / f"{STAGE}{uuid.uuid4().hex[:12]}"
    try:
        stage.mkdir()
        return _Work(storage, known, root, stage, check).done(is_at_commit, wanted, before_others)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(
                f"checkpoint.folder: {root} has no room for the {known.size} bytes of the checkpoint; give its volume "
                f"more room"
            ) from error
        raise EnvironmentVariableError(
            f"checkpoint.folder: the checkpoint cannot be put back into {root}: {error.strerror} ({error.filename})"
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


class _Work:
    """One time of putting back: `stage` is a folder for files that are not complete yet."""

    def __init__(self, storage: Storage, known: Index, root: Path, stage: Path, check: Callable[[], None]) -> None:
        self._storage = storage
        self._known = known
        self._root = root
        self._stage = stage
        self._check = check
        self._result = PutBack()
        self._staged: dict[str, Path] = {}
        self._chunks_here: dict[str, Sequence[bool]] = {}
        self._copies: list[Future[None]] = []
        self._pool = ThreadPoolExecutor(THREADS, "holdfast-get")

    def done(self, is_at_commit: bool, wanted: Collection[str] | None, before_others: Callable[[], None]) -> PutBack:
        try:
            return self._done(is_at_commit, wanted, before_others)
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _done(self, is_at_commit: bool, wanted: Collection[str] | None, before_others: Callable[[], None]) -> PutBack:
        chosen = {p: s for p, s in self._known.files.items() if wanted is None or p in wanted}
        other = dict(self._different(chosen))
        self._choose(other, is_at_commit)
        bring = {path: saved for path, saved in chosen.items() if path in other}
        self._fetch(bring)
        if self._result.replaced:
            before_others()
        for path, saved in sorted(bring.items(), key=lambda one: one[1].file.mtime_ns):
            self._place(path, saved)
        if bring:
            self._order_folders(chosen)
        for path, text in self._known.texts.items():
            if self._blocked(path) is None and not os.path.lexists(self._root / path):
                self._parent(path)
                (self._root / path).write_text(text, encoding="utf-8")
        for path in self._known.empty:
            if self._blocked(path) is None and not os.path.lexists(self._root / path):
                (self._root / path).mkdir(parents=True)
        for path in chosen:
            if path not in self._result.newer:
                self._result.files[path] = self._there(path)
        return self._result

    def _different(self, chosen: Mapping[str, Saved]) -> Iterator[tuple[str, bool]]:
        """The paths at which there is not what the commit has, and whether there is something."""
        for path, saved in chosen.items():
            self._check()
            place = self._root / path
            if self._blocked(path) is not None:
                yield path, True
            elif not os.path.lexists(place):
                yield path, False
            elif not self._is_same(path, saved):
                yield path, True
            else:
                self._result.there += saved.file.size

    def _blocked(self, path: str) -> Path | None:
        """The file or link that is in the place of a folder above `path`, where it could lead out of the folder."""
        for folder in reversed(PurePosixPath(path).parents):
            place = self._root / folder
            if place != self._root and (place.is_symlink() or not place.is_dir()):
                return place if os.path.lexists(place) else None
        return None

    def _is_same(self, path: str, saved: Saved) -> bool:
        place = self._root / path
        if saved.file.link is not None:
            return place.is_symlink() and os.fspath(place.readlink()) == saved.file.link
        if place.is_symlink() or not place.is_file() or place.stat().st_size != saved.file.size:
            return False
        if any(not self._known.chunks[number].sha256 for number in saved.chunks):  # of an earlier version
            return place.stat().st_mtime_ns == saved.file.mtime_ns
        return all(self._here(path, saved))

    def _here(self, path: str, saved: Saved) -> Sequence[bool]:
        """Of each chunk of a file, whether the file that is there has its bytes. They are looked at once."""
        if path not in self._chunks_here:
            place, chunks = self._root / path, [self._known.chunks[number] for number in saved.chunks]
            if self._blocked(path) is not None or place.is_symlink() or not place.is_file():
                return [False] * len(chunks)
            starts = accumulate((chunk.size for chunk in chunks), initial=0)
            compare = partial(self._has_chunk, place)
            self._chunks_here[path] = list(self._pool.map(compare, starts, chunks))
        return self._chunks_here[path]

    def _has_chunk(self, place: Path, start: int, chunk: Chunk) -> bool:
        self._check()
        with place.open("rb", buffering=0) as opened:
            data = os.pread(opened.fileno(), chunk.size, start)
        return bool(chunk.sha256) and hash_of(data) == chunk.sha256

    def _choose(self, other: dict[str, bool], is_at_commit: bool) -> None:
        """Take out of `other` what stays as it is in the folder."""
        present = [path for path, is_there in other.items() if is_there]
        torn = {path: why for path in present if (why := self._why_torn(path)) is not None}
        is_cut = bool(torn) or (is_at_commit and bool(present) and self._has_torn_beside())
        for path in present:
            place = self._root / path
            if is_at_commit and not is_cut:
                del other[path]
                self._result.newer.append(path)
            elif place.is_dir() and not place.is_symlink() and any(place.iterdir()):  # nobody knows what is in it
                raise OSError(errno.ENOTEMPTY, "a folder is in the place of a file of the checkpoint", str(place))
            else:
                left = "another file was not whole" if is_at_commit else "it is not of the newest commit"
                self._result.replaced[path] = torn.get(path, left)

    def _has_torn_beside(self) -> bool:
        """True if a file is torn that the commit does not have: what is newer, such as `latest`, may name it."""
        return any(self._why_torn(path) for path in look(self._root).files if path not in self._known.files)

    def _why_torn(self, path: str) -> str | None:
        place, saved = self._root / path, self._known.files.get(path)
        if self._blocked(path) is not None or place.is_symlink() or not place.is_file():
            return None
        size = place.stat().st_size
        if size == 0 and saved is not None and saved.file.size > 0:
            return "it was empty"
        if formats.is_zeros(place, size):
            return "it had zeros in the place of its bytes"
        return "it was not whole" if formats.whole(place, size) is False else None

    def _fetch(self, bring: Mapping[str, Saved]) -> None:
        """Write all bytes of `bring` below the stage, what is needed first before the others."""
        wanted: dict[int, dict[Chunk, list[tuple[Path, int]]]] = {}
        order = sorted(bring.items(), key=lambda one: (-one[1].file.mtime_ns, one[0]))
        for number, (path, saved) in enumerate(order):
            if saved.file.link is not None:
                continue
            target = self._stage / str(number)
            with target.open("xb") as new:
                new.truncate(saved.file.size)
            self._staged[path] = target
            for start, chunk in self._lacking(path, saved, target):
                wanted.setdefault(chunk.part, {}).setdefault(chunk, []).append((target, start))
        ranges = [(part, one) for part, chunks in wanted.items() for one in self._ranges(part, chunks)]

        def bring_range(of: tuple[int, list[Chunk]]) -> int:
            part, chunks = of
            self._check()
            return self._bring(part, chunks, wanted[part])

        self._result.read = sum(one.result() for one in [self._pool.submit(bring_range, one) for one in ranges])
        for copy in self._copies:
            copy.result()

    def _lacking(self, path: str, saved: Saved, target: Path) -> Iterator[tuple[int, Chunk]]:
        """The chunks that must be read from the storage, with their starts. Others are copied from what is there."""
        start = 0
        for number, is_here in zip(saved.chunks, self._here(path, saved), strict=True):
            chunk = self._known.chunks[number]
            if chunk.sha256 == ZEROS:
                pass  # the new file has them, and a sparse one needs no room for them
            elif is_here:
                self._copies.append(self._pool.submit(_copy, self._root / path, target, start, chunk.size))
                self._result.there += chunk.size
            else:
                yield start, chunk
            start += chunk.size

    def _ranges(self, part: int, chunks: Collection[Chunk]) -> Iterator[list[Chunk]]:
        """The chunks of a part, in runs without a gap of RANGE_BYTES at most; all of one without hashes at once."""
        ordered = sorted(chunks, key=lambda chunk: chunk.start)
        if any(not chunk.sha256 for chunk in ordered):
            yield ordered
            return
        run: list[Chunk] = []
        for chunk in ordered:
            if run and (
                chunk.start != run[-1].start + run[-1].size or chunk.start + chunk.size - run[0].start > RANGE_BYTES
            ):
                yield run
                run = []
            run.append(chunk)
        yield run

    def _bring(self, part: int, chunks: list[Chunk], places: Mapping[Chunk, list[tuple[Path, int]]]) -> int:
        """Read a run of chunks and write each to its places. The bytes that were read."""
        of = self._known.parts[part]
        if chunks[0].sha256:
            base = chunks[0].start
            data = bytearray(chunks[-1].start + chunks[-1].size - base)
            with memoryview(data) as view:
                self._storage.read_into(of.key, base, view)
        else:
            base, data = 0, read_part(self._storage, of)
        with memoryview(data) as view:
            for chunk in chunks:
                piece = view[chunk.start - base : chunk.start - base + chunk.size]
                if chunk.sha256:
                    check_hash(self._known, chunk, piece)
                for target, start in places[chunk]:
                    with target.open("r+b", buffering=0) as opened:
                        _write(opened.fileno(), piece, start)
        return len(data)

    def _place(self, path: str, saved: Saved) -> None:
        """Give what is staged its name."""
        file, target = saved.file, self._root / path
        self._parent(path)
        staged = self._staged.get(path, self._stage / "link")
        if file.link is not None:
            staged.symlink_to(file.link)
        else:
            staged.chmod(file.mode)
            os.utime(staged, ns=(file.mtime_ns, file.mtime_ns))
        if target.is_dir() and not target.is_symlink():  # it is empty, see `_choose`
            target.rmdir()
        try:
            staged.replace(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            near = target.with_name(f"{STAGE}{uuid.uuid4().hex[:12]}")  # another volume is mounted there
            shutil.move(staged, near)
            near.replace(target)

    def _order_folders(self, chosen: Mapping[str, Saved]) -> None:
        """Give folders the times of their newest files: a program may look for the one that changed last."""
        newest = dict[str, int]()
        for path, saved in chosen.items():
            names = path.split("/")
            for count in range(1, len(names)):
                folder = "/".join(names[:count])
                newest[folder] = max(newest.get(folder, 0), saved.file.mtime_ns)
        ordered = sorted(newest, key=lambda folder: newest[folder])
        for count, folder in enumerate(ordered):
            if count >= len(ordered) - APART:
                time.sleep(TICK_SECONDS)
            with suppress(OSError):  # something else is in its place, or it is of another user
                os.utime(self._root / folder, ns=(newest[folder], newest[folder]), follow_symlinks=False)

    def _parent(self, path: str) -> None:
        """Make the folders above `path`, also in the place of a file or a link."""
        if (blocked := self._blocked(path)) is not None:
            blocked.unlink()
        (self._root / path).parent.mkdir(parents=True, exist_ok=True)

    def _there(self, path: str) -> File:
        known = (self._root / path).lstat()
        file = self._known.files[path].file
        return File(path, file.size, known.st_mtime_ns, file.mode, file.link)


def _copy(source: Path, target: Path, start: int, size: int) -> None:
    with source.open("rb", buffering=0) as opened, target.open("r+b", buffering=0) as new:
        _write(new.fileno(), memoryview(os.pread(opened.fileno(), size, start)), start)


def _write(descriptor: int, data: memoryview, start: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], start + done)
