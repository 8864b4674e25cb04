"""Pack the folder of a program into one archive, and unpack it: exactly what its hash says, or nothing.

The archive is a tar with PAX headers in gzip. Its bytes are the same for the same entries and the same zlib; what
counts is the hash of what is in it.
"""

import contextlib
import gzip
import hashlib
import os
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, cast

from holdfast_train.code.tree import (
    OF_CODE,
    Entry,
    Kind,
    Limit,
    check_path,
    check_size,
    check_target,
    content_hash,
    tree_hash,
)
from holdfast_train.errors import CodeInvalidError

BLOCK: Final = 1 << 20
READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a file may have become a pipe
LEVEL: Final = 6  # of gzip
HEADERS: Final = 64 << 10  # bytes of all headers of one member, and of what is read ahead
_FOLDER: Final = 0o1777  # as /tmp: the program may write beside its files, as any user
_MODES: Final = {"file": 0o444, "executable": 0o555}


def pack(root: Path, entries: Sequence[Entry], out: BinaryIO, done: Callable[[int], None] = lambda _: None) -> None:
    """Write the archive of `entries`, which are below `root`. `done`: is told of bytes that were read.

    CodeInvalidError if a file is not what its entry says any more. OSError if it cannot be read.
    """
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=LEVEL, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for entry in sorted(entries, key=lambda one: one.path):
            member = tarfile.TarInfo(entry.path)
            member.mode = 0o755 if entry.kind == "executable" else 0o644
            if entry.kind == "link":
                member.type, member.linkname = tarfile.SYMTYPE, entry.target
                tar.addfile(member)
                continue
            member.size = entry.size
            with open_file(root / entry.path) as opened:
                reader = _Reader(opened, done)
                try:
                    tar.addfile(member, reader)
                except OSError as error:
                    if reader.failed is not None:
                        raise reader.failed from error
                    raise CodeInvalidError(_changed(entry.path)) from error  # tarfile: it is shorter than it was
                if opened.read(1) or reader.digest.hexdigest() != entry.sha256:
                    raise CodeInvalidError(_changed(entry.path))


def open_file(path: Path) -> BinaryIO:
    """A regular file for reading. OSError also if it is a link or a pipe, which would block."""
    descriptor = os.open(path, READ)
    return os.fdopen(descriptor, "rb")


def kind_of(status: os.stat_result) -> Kind:
    """Of a file."""
    return "executable" if status.st_mode & stat.S_IXUSR else "file"


def _changed(path: str) -> str:
    return f"{path} was changed while it was packed; run the command again"


class _Reader:
    """A file that hashes what is read of it."""

    def __init__(self, opened: BinaryIO, done: Callable[[int], None]) -> None:
        self._opened = opened
        self._done = done
        self.digest = hashlib.sha256()
        self.failed: OSError | None = None

    def read(self, size: int = -1, /) -> bytes:
        try:
            data = self._opened.read(size)
        except OSError as error:
            self.failed = error
            raise
        self.digest.update(data)
        self._done(len(data))
        return data


def unpack(
    sources: Iterable[tuple[BinaryIO, str]], folder: Path, *, limit: Limit = OF_CODE, is_writable: bool = False
) -> None:
    """Fill `folder`, which exists, with archives, each with the hash of its tree. What was there is removed.

    No two archives have the same path, and together they have not more than `limit`. Their files cannot be changed
    afterwards, unless `is_writable`; any user may write beside them, in each folder. `folder` may be owned by another
    user, as an emptyDir is: then it keeps its mode. Nothing of an archive is believed: neither its sizes nor its names.
    CodeInvalidError, CodeTooLargeError, OSError: the folder has nothing of them then.
    """
    entries: list[Entry] = []
    made: set[str] = set()  # folders
    size = 0
    try:
        _clear(folder)
        for source, wanted in sources:
            new = _extract(source, folder, made, Limit(limit.what, limit.files - len(entries), limit.size - size))
            _check_hash(new, wanted)
            entries += new
            size += sum(entry.size for entry in new)
    except BaseException:
        _clear(folder)
        raise
    if not is_writable:
        _seal(folder, entries)


def _check_hash(entries: Sequence[Entry], wanted: str) -> None:
    found = tree_hash(entries)
    if found != wanted:
        raise CodeInvalidError(f"the archive contains the folder {found}, and {wanted} is wanted")


def _extract(source: BinaryIO, folder: Path, made: set[str], limit: Limit) -> list[Entry]:
    """The entries of one archive. `made`: folders that are there."""
    entries: dict[str, Entry] = {}
    size = 0
    try:
        with gzip.GzipFile(fileobj=source) as plain:
            bounded = _Bounded(plain)
            with tarfile.open(fileobj=cast("BinaryIO", bounded), mode="r|") as tar:
                while (member := _next(tar, bounded)) is not None:
                    _check(member, entries)
                    check_size(len(entries) + 1, size + member.size, limit)
                    size += member.size
                    bounded.left = member.size + HEADERS
                    entries[member.name] = _entry(tar, member, folder, made)
    except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, UnicodeError, ValueError) as error:
        raise CodeInvalidError(f"the archive is broken: {error}") from error
    return [*entries.values()]


def _check(member: tarfile.TarInfo, before: Container[str]) -> None:
    check_path(member.name)
    if member.name in before or member.size < 0:
        raise CodeInvalidError(f"{member.name!r} is in the archive twice, or has no size")


def _next(tar: tarfile.TarFile, bounded: "_Bounded") -> tarfile.TarInfo | None:
    bounded.left = HEADERS
    return tar.next()


class _Bounded:
    """What was packed; not more than is `left`: a small archive may unpack to anything, and so may one header."""

    left = HEADERS

    def __init__(self, plain: gzip.GzipFile) -> None:
        self._plain = plain

    def read(self, size: int) -> bytes:
        data = self._plain.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise CodeInvalidError("the archive has more bytes than its headers say, or a header that is too large")
        return data


def _entry(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, made: set[str]) -> Entry:
    """Write one member of the archive. CodeInvalidError if it is not a file or a link that stays in the folder."""
    place = folder / member.name
    try:
        _make_folders(folder, member.name, made)
        if member.issym():
            check_target(member.name, member.linkname)
            place.symlink_to(member.linkname)
            return Entry(member.name, "link", 0, content_hash(member.linkname.encode()), member.linkname)
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise CodeInvalidError(f"{member.name!r} is neither a file nor a symbolic link")
        kind: Kind = "executable" if member.mode & 0o100 else "file"
        opened = tar.extractfile(member)
        assert opened is not None
        digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with opened, os.fdopen(os.open(place, flags, 0o755 if kind == "executable" else 0o644), "wb") as out:
            while block := opened.read(BLOCK):
                digest.update(block)
                out.write(block)
        return Entry(member.name, kind, member.size, digest.hexdigest())
    except (FileExistsError, NotADirectoryError) as error:
        raise CodeInvalidError(f"{member.name!r} lies below or in the place of something else") from error


def _make_folders(folder: Path, path: str, made: set[str]) -> None:
    """Make the folders above `path` that are not in `made`. FileExistsError if a file or a link is there instead."""
    parts = path.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        above = "/".join(parts[:count])
        if above not in made:
            (folder / above).mkdir()
            made.add(above)


def _seal(folder: Path, entries: Sequence[Entry]) -> None:
    """Take away the rights to change what was unpacked."""
    above = {folder / parent for entry in entries for parent in Path(entry.path).parents}
    for entry in entries:
        if entry.kind != "link":
            (folder / entry.path).chmod(_MODES[entry.kind])
    for place in above - {folder}:
        place.chmod(_FOLDER)
    with contextlib.suppress(PermissionError):  # kubelet makes an emptyDir as root, with mode 0777
        folder.chmod(_FOLDER)


def _clear(folder: Path) -> None:
    """Remove all that is in the folder, which may be a mount point."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            for place, _, _ in os.walk(path):  # an earlier try may have left folders of any mode
                Path(place).chmod(0o700)
            shutil.rmtree(path)
        else:
            path.unlink()
