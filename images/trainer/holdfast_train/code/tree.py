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

MOST_NAME: Final = 255  # bytes of one part of a path, as file systems have
MOST_PATH: Final = 4096
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SHOWN: Final = 200  # characters of a name in a message
_VERSION: Final = b"holdfast code 1\n"


@dataclass(frozen=True, slots=True)
class Limit:
    """How much `what` may have: files, and bytes of all files."""

    what: str
    files: int
    size: int


OF_CODE: Final = Limit("the folder of the program", 100_000, 256 << 20)
OF_DEPENDENCIES: Final = Limit("all packages together", 200_000, 4 << 30)  # one write takes 4 GiB


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


def check_tree(entries: Sequence[Entry], limit: Limit = OF_CODE) -> None:
    """CodeInvalidError if these cannot be the entries of one folder, CodeTooLargeError if they are too many."""
    check_size(len(entries), sum(entry.size for entry in entries), limit)
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


def check_size(files: int, size: int, limit: Limit = OF_CODE) -> None:
    """CodeTooLargeError if there are more files or bytes than are allowed."""
    if files > limit.files or size > limit.size:
        raise CodeTooLargeError(
            f"{limit.what}: {files:,} files with {size:,} bytes; at most {limit.files:,} files with "
            f"{limit.size:,} bytes are allowed"
        )


def check_path(path: str) -> None:
    """CodeInvalidError if this cannot be the path of a file below a folder on every Linux."""
    size = _check_text(path, path)
    if size > MOST_PATH:
        raise CodeInvalidError(f"the path {shown(path)} has {size} bytes; at most {MOST_PATH} are allowed")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise CodeInvalidError(
                f"{shown(path)} cannot be a path in the folder; allowed: names between single slashes, without '.' "
                f"and '..'"
            )
        if len(part) * 4 > MOST_NAME and len(part.encode()) > MOST_NAME:
            raise CodeInvalidError(f"{shown(path)} has a name of more than {MOST_NAME} bytes")


def check_target(path: str, target: str) -> None:
    """CodeInvalidError if the link at `path` leads, or could lead, out of the folder.

    `..` may only be at the beginning of a target. The folder of a link is a real folder, and so are those above it, so
    the way goes up inside the folder, and from there down, through links for which the same is true.
    """
    if not target:
        raise CodeInvalidError(f"the link {shown(path)} has no target")
    if _check_text(path, target) > MOST_PATH:
        raise CodeInvalidError(f"the target of the link {shown(path)} has more than {MOST_PATH} bytes")
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    if target.startswith("/") or up > path.count("/"):
        raise CodeInvalidError(f"the link {shown(path)} leads out of the folder: to {shown(target)}")
    if ".." in parts[up:]:
        raise CodeInvalidError(
            f"the link {shown(path)} to {shown(target)} could lead out of the folder; allowed: '..' only at the "
            f"beginning of a target"
        )


def shown(text: str) -> str:
    """A name in a message: printable, and not too long."""
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


def _check_text(path: str, text: str) -> int:
    """How many bytes `text`, the path itself or the target of its link, has in UTF-8. CodeInvalidError if none."""
    if _CONTROL.search(text):
        raise CodeInvalidError(f"{shown(path)}: a name has control characters, such as a line end; rename it")
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise CodeInvalidError(f"{shown(path)}: a name is not UTF-8; rename it") from error


def _above(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
