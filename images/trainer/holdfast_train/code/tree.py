"""What the folder of a program contains, and the hash of it: of paths, contents and executable bits. No I/O.

The hash does not depend on times, owners, other mode bits, the order of the files, or the archive that carries them.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from holdfast_train.errors import CodeInvalidError, CodeTooLargeError

Kind = Literal["file", "executable", "link"]

MOST_BYTES: Final = 256 << 20  # of all files
MOST_FILES: Final = 100_000
MOST_NAME: Final = 255  # bytes of one part of a path, as file systems have
MOST_PATH: Final = 4096
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_VERSION: Final = b"holdfast code 1\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or symbolic link. `path`: relative, with slashes. `sha256`: of the content, or of the link's target.

    `size` in bytes. `target`: of a link, as it is written there.
    """

    path: str
    kind: Kind
    size: int
    sha256: str
    target: str = ""


def tree_hash(entries: Iterable[Entry]) -> str:
    """The SHA-256 of a folder, in hexadecimal. Two folders have the same only if they have the same entries.

    It is that of a line for each entry, sorted by path: its kind, its `sha256`, and its path, which has no line break.
    """
    digest = hashlib.sha256(_VERSION)
    for entry in sorted(entries, key=lambda one: one.path):
        digest.update(f"{entry.kind} {entry.sha256} {entry.path}\n".encode())
    return digest.hexdigest()


def content_hash(data: bytes) -> str:
    """The `sha256` of an entry."""
    return hashlib.sha256(data).hexdigest()


def check_tree(entries: Sequence[Entry]) -> None:
    """CodeInvalidError if these cannot be the entries of one folder, CodeTooLargeError if they are too many."""
    check_size(len(entries), sum(entry.size for entry in entries))
    seen: set[str] = set()
    folders: set[str] = set()
    for entry in entries:
        check_path(entry.path)
        if entry.path in seen:
            raise CodeInvalidError(f"{entry.path!r} is there twice")
        seen.add(entry.path)
        folders.update(_above(entry.path))
        if entry.kind == "link":
            check_target(entry.path, entry.target)
    if both := sorted(seen & folders):
        raise CodeInvalidError(f"{both[0]!r} is a file and a folder of others")


def check_size(files: int, size: int) -> None:
    """CodeTooLargeError if a folder has more files or bytes than are allowed."""
    if files > MOST_FILES or size > MOST_BYTES:
        raise CodeTooLargeError(
            f"the folder of the program has {files:,} files with {size:,} bytes; allowed are {MOST_FILES:,} files with "
            f"{MOST_BYTES:,} bytes"
        )


def check_path(path: str) -> None:
    """CodeInvalidError if `path` cannot be that of a file below a folder."""
    parts = path.split("/")
    may_be = _is_utf8(path) and len(path.encode()) <= MOST_PATH and all(len(p.encode()) <= MOST_NAME for p in parts)
    if not may_be or any(part in ("", ".", "..") for part in parts) or _CONTROL.search(path):
        raise CodeInvalidError(
            f"the path {path[:200]!r} cannot be sent; allowed are relative paths in UTF-8, of {MOST_PATH} bytes at "
            f"most, without '.', '..' and control characters"
        )


def check_target(path: str, target: str) -> None:
    """CodeInvalidError if a link at `path` to `target` leads out of the folder, as far as the text of both says."""
    place = path.split("/")[:-1]
    if not _is_utf8(target) or len(target) > MOST_PATH:
        raise CodeInvalidError(f"the link {path!r} leads to {target[:200]!r}; allowed are paths in UTF-8")
    if target.startswith("/") or not target:
        raise CodeInvalidError(f"the link {path!r} leads to {target[:200]!r}; allowed are relative paths in the folder")
    for part in target.split("/"):
        if part == "..":
            if not place:
                raise CodeInvalidError(f"the link {path!r} leads out of the folder, to {target[:200]!r}")
            place.pop()
        elif part not in ("", "."):
            place.append(part)


def _is_utf8(text: str) -> bool:
    """False for what a file system has in other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _above(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
