"""What of a folder is sent: every file but those that are left out, each with the hash of its content."""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from holdfast_cli.code.ignored import SECRET, Ignored, Layers, mark_of
from holdfast_cli.code.secrets import LOOKS_AT, looks_secret
from holdfast_cli.errors import CliError, unreadable
from holdfast_train.code.archive import BLOCK, open_file
from holdfast_train.code.tree import (
    MOST_BYTES,
    MOST_FILES,
    Entry,
    Kind,
    check_path,
    check_target,
    check_tree,
    content_hash,
    tree_hash,
)
from holdfast_train.errors import CodeError
from holdfast_train.exchange.progress_bar import format_size

THREADS: Final = 8
SHOWN: Final = 10
HINT: Final = "leave out what the program does not need: write it into .holdfastignore, in the form of .gitignore"


class LeftOut(NamedTuple):
    """A file or a folder that is not sent. `why`: the name of a file with patterns, or what it is."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What is sent of the folder `root`."""

    root: Path
    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def sha256(self) -> str:
        """The hash of what is sent."""
        return tree_hash(self.entries)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)


class _Seen(NamedTuple):
    path: str
    kind: Kind
    size: int
    may_be_secret: bool


def select(root: Path, exclude: Sequence[str] = (), done: Callable[[int], None] = lambda _: None) -> Selection:
    """Look through the folder, and hash what is sent. `done`: is told of bytes that were read.

    CliError: it is too large, a file cannot be read or sent, or nothing is left.
    """
    try:
        seen, left_out = _look(root, Ignored(root, exclude))
        _check_size(seen)
        with ThreadPoolExecutor(THREADS, "holdfast-code") as pool:
            found = list(pool.map(lambda one: _entry(root, one, done), seen))
        entries = tuple(entry for entry in found if entry is not None)
        secrets = [LeftOut(one.path, SECRET) for one, entry in zip(seen, found, strict=True) if entry is None]
        check_tree(entries)
    except OSError as error:
        raise unreadable(error.filename or root, error, hint=HINT) from error
    except CodeError as error:
        raise CliError(str(error), hint=HINT) from error
    if not entries:
        raise CliError(f"no file of {root} is left to send", hint="holdfast run --dir names the folder of the program")
    return Selection(root, entries, tuple(sorted([*left_out, *secrets])))


def _look(root: Path, ignored: Ignored) -> tuple[list[_Seen], list[LeftOut]]:
    """Everything below the root that may be sent, and what is left out by its name or its kind."""
    seen: list[_Seen] = []
    left_out: list[LeftOut] = []
    folders: list[tuple[str, Layers | None]] = [("", None)]
    while folders:
        folder, above = folders.pop()
        with os.scandir(root / folder) as listed:
            there = sorted(listed, key=lambda one: one.name)
        mark = mark_of(one.name for one in there) if folder else ""
        if mark and not (above and above.is_wanted(folder, is_folder=True)):
            left_out.append(LeftOut(f"{folder}/", mark))
            continue
        layers = ignored.enter(folder, above)
        for one in there:
            path = f"{folder}/{one.name}" if folder else one.name
            is_folder = one.is_dir(follow_symlinks=False)
            if why := layers.why_not(path, is_folder=is_folder):
                left_out.append(LeftOut(f"{path}/" if is_folder else path, why))
            elif is_folder:
                folders.append((path, layers))
            elif (kind := _kind(one)) is None:
                left_out.append(LeftOut(path, "neither a file nor a link"))
            else:
                check_path(path)
                size = 0 if kind == "link" else one.stat(follow_symlinks=False).st_size
                seen.append(_Seen(path, kind, size, not layers.is_wanted(path, is_folder=False)))
    return seen, left_out


def _kind(one: "os.DirEntry[str]") -> Kind | None:
    if one.is_symlink():
        return "link"
    found = one.stat(follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        return None
    return "executable" if found.st_mode & stat.S_IXUSR else "file"


def _entry(root: Path, seen: _Seen, done: Callable[[int], None]) -> Entry | None:
    """Hash one file. None if it looks like a secret. OSError; CodeInvalidError if it is a link out of the folder."""
    if seen.kind == "link":
        target = os.readlink(root / seen.path)  # noqa: PTH115 - as it is written there
        check_target(seen.path, target)
        return Entry(seen.path, "link", 0, content_hash(target.encode()), target)
    digest, size = hashlib.sha256(), 0
    with open_file(root / seen.path) as opened:
        while block := opened.read(BLOCK):
            if size == 0 and seen.may_be_secret and looks_secret(block[:LOOKS_AT]):
                return None
            digest.update(block)
            size += len(block)
            done(len(block))
    return Entry(seen.path, seen.kind, size, digest.hexdigest())


def _check_size(seen: Sequence[_Seen]) -> None:
    """CliError that names what is large. Nothing was read yet."""
    size = sum(one.size for one in seen)
    if size > MOST_BYTES:
        large = sorted(seen, key=lambda one: -one.size)[:SHOWN]
        names = ", ".join(f"{one.path} ({format_size(one.size)})" for one in large)
        raise CliError(
            f"the folder has {format_size(size)}; at most {format_size(MOST_BYTES)} are sent. The largest: {names}",
            hint=HINT,
        )
    if len(seen) > MOST_FILES:
        many = Counter(one.path.rpartition("/")[0] or "." for one in seen).most_common(SHOWN)
        names = ", ".join(f"{folder} ({count:,})" for folder, count in many)
        raise CliError(
            f"the folder has {len(seen):,} files; at most {MOST_FILES:,} are sent. The most are in: {names}", hint=HINT
        )
