"""One look at a folder: its files, without their content, and what stays out. Symbolic links are never followed."""

import errno
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from holdfast_train.folder.numbered import is_of_saves
from holdfast_train.folder.unfinished import temporary_part

MOST_FILES: Final = 200_000
LARGE: Final = 1 << 20  # bytes of a file that may be a save although its format is not known
OWN: Final = ".holdfast-"  # names of files and folders that the writer makes, and that no look sees
TAG: Final = "CACHEDIR.TAG"  # marks a cache: bford.info/cachedir
CACHES: Final = frozenset(("__pycache__", ".cache"))
CACHE_VARIABLES: Final = (
    "CUDA_CACHE_PATH",
    "HF_DATASETS_CACHE",
    "HF_HOME",
    "HF_HUB_CACHE",
    "JAX_COMPILATION_CACHE_DIR",
    "KERAS_HOME",
    "NUMBA_CACHE_DIR",
    "PIP_CACHE_DIR",
    "PYTHONPYCACHEPREFIX",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TORCH_HOME",
    "TRITON_CACHE_DIR",
    "UV_CACHE_DIR",
    "XDG_CACHE_HOME",
)
UNREADABLE: Final = "a file that cannot be read"
_NFS: Final = ".nfs"  # what a client of NFS makes of a file that is deleted while it is open


class TooMuchError(Exception):
    """The folder has more than MOST_FILES files."""


@dataclass(frozen=True, slots=True)
class File:
    """A file or a symbolic link. `path`: below the folder, with slashes. `link`: where a symbolic link points to.

    `size` in bytes, 0 of a link. `mode`: the permission bits.
    """

    path: str
    size: int
    mtime_ns: int
    mode: int
    link: str | None = None

    @property
    def signature(self) -> tuple[int, int, str | None]:
        """Equal for two looks if the file did not change in between, as far as its size and its time say."""
        return self.size, self.mtime_ns if self.link is None else 0, self.link


@dataclass(frozen=True)
class Look:
    """The `files` by their paths, and what stays `out`: path -> why, in words. `outside`: links that lead out.

    `empty`: folders without anything in them, but for those that may be a save that has just begun.
    """

    files: Mapping[str, File]
    out: Mapping[str, str]
    outside: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()


class Rules:
    """What stays out of the folder `root`: the patterns `exclude` of the job, and caches that `environment` names."""

    def __init__(self, root: Path, exclude: Collection[str] = (), environment: Mapping[str, str] | None = None) -> None:
        self._exclude = tuple(exclude)
        top = os.path.realpath(root)
        self._caches: dict[str, str] = {}
        for name in CACHE_VARIABLES:
            place = (environment or {}).get(name, "")
            inside = os.path.relpath(os.path.realpath(place), top) if place.startswith("/") else ".."
            if inside not in (".", "..") and not inside.startswith("../"):
                self._caches[inside] = f"a cache, which {name} names"

    def reason(self, path: str, name: str, *, is_folder: bool) -> str | None:
        """Why `path` stays out, None if it is saved."""
        for pattern in self._exclude:
            if fnmatchcase(path, pattern) or fnmatchcase(name, pattern):
                return f"checkpoint.exclude has {pattern!r}"
        if is_folder and name in CACHES:
            return "a cache, by its name"
        return self._caches.get(path)


def look(
    root: Path, rules: Rules | None = None, most: int = MOST_FILES, before: Mapping[str, File] | None = None
) -> Look:
    """The files below `root`. What vanishes during the look is left out. What is as in the look `before` is shared.

    A link whose whole path leads below `root` is given as if it had been written with a path from where it is.

    OSError if `root` cannot be read, TooMuchError if it has more than `most` files.
    """
    rules = rules or Rules(root)
    files: dict[str, File] = {}
    out: dict[str, str] = {}
    outside: set[str] = set()
    empty: set[str] = set()
    waiting, tops = [""], {str(root.absolute()), os.path.realpath(root)}
    while waiting:
        folder = waiting.pop()
        if (entries := _entries(root, folder, out)) is None:
            continue
        if (
            not entries
            and not any(map(is_of_saves, folder.split("/")))
            and folder[-1:].isalpha()
            and temporary_part(folder) is None
        ):
            empty.add(folder)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith((OWN, _NFS)):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if (why := rules.reason(path, entry.name, is_folder=is_folder)) is not None:
                out[path] = why
            elif is_folder:
                waiting.append(path)
            elif (file := _file(entry, path, tops, out)) is not None:
                shared = (before or {}).get(path, file)
                files[shared.path] = shared if shared == file else file
                if file.link is not None and is_outside(path, file.link):
                    outside.add(path)
        if len(files) > most:
            raise TooMuchError(f"{root} has more than {most} files, most of them in {_most_in(files)}")
    return Look(files, out, frozenset(outside), frozenset(empty))


def _entries(root: Path, folder: str, out: dict[str, str]) -> list[os.DirEntry[str]] | None:
    """What is in `folder`. None if all of it stays out, or if it is gone."""
    try:
        with os.scandir(root / folder) as opened:
            entries = list(opened)
    except (FileNotFoundError, NotADirectoryError):
        if not folder:
            raise
        return None
    except PermissionError:  # such as lost+found at the top of a volume
        if not folder:
            raise
        out[folder] = "a folder that cannot be read"
        return None
    if folder and any(entry.name == TAG for entry in entries):
        out[folder] = f"a cache, as its file {TAG} says"
        return None
    return entries


def _file(entry: os.DirEntry[str], path: str, tops: set[str], out: dict[str, str]) -> File | None:
    try:
        known = entry.stat(follow_symlinks=False)
        link = _inside(path, os.readlink(entry.path), tops) if stat.S_ISLNK(known.st_mode) else None  # noqa: PTH115
    except FileNotFoundError:
        return None
    except PermissionError:  # its folder can be listed, and no more
        out[path] = UNREADABLE
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:  # of readlink: it was a link a moment ago
            return None
        raise
    mode = stat.S_IMODE(known.st_mode)
    if link is not None:
        return File(path, 0, known.st_mtime_ns, mode, link)
    if stat.S_ISREG(known.st_mode) and not os.access(entry.path, os.R_OK):
        out[path] = UNREADABLE
        return None
    if not stat.S_ISREG(known.st_mode):
        out[path] = "a socket, a pipe or a device"
        return None
    return File(path, known.st_size, known.st_mtime_ns, mode)


def _inside(path: str, link: str, tops: set[str]) -> str:
    top = next((top for top in tops if link.startswith(f"{top}/")), None)
    return link if top is None else os.path.relpath(link[len(top) + 1 :], path.rpartition("/")[0] or ".")


def is_outside(path: str, link: str) -> bool:
    """True if the `link` at `path` leads out of the folder."""
    target = os.path.normpath(os.path.join(path.rpartition("/")[0], link))  # noqa: PTH118 - Path keeps the dots
    return target.startswith(("/", "../")) or target == ".."


def _most_in(files: Mapping[str, File]) -> str:
    count: dict[str, int] = {}
    for path in files:
        above = path.rpartition("/")[0] or "."
        count[above] = count.get(above, 0) + 1
    return repr(max(count, key=lambda folder: count[folder]))
