"""One look at a folder: its files, without their content. Symbolic links are never followed."""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_ENTRIES: Final = 1_000_000
OWN: Final = ".holdfast-"  # names of files and folders that the writer makes, and that no look sees


class TooManyFilesError(Exception):
    """The folder has more than MOST_ENTRIES files and folders."""


@dataclass(frozen=True)
class File:
    """A file or a symbolic link. `path`: below the folder, with slashes. `link`: where a symbolic link points to.

    `size` in bytes, 0 of a link. `mode`: the permission bits. `is_other`: a device, a pipe, a socket, or a
    folder that cannot be read.
    """

    path: str
    size: int
    mtime_ns: int
    mode: int
    link: str | None = None
    is_other: bool = False

    @property
    def signature(self) -> tuple[str, int, int, str | None]:
        """Equal for two looks if the file did not change in between, as far as its size and its time say."""
        return self.path, self.size, self.mtime_ns if self.link is None else 0, self.link


def look(root: Path, most: int = MOST_ENTRIES) -> dict[str, File]:
    """The files below `root` by their paths. What vanishes during the look is left out.

    A link whose whole path leads below `root` is given as if it had been written with a path from where it is.

    OSError if `root` cannot be read, TooManyFilesError if it has more than `most` entries.
    """
    found: dict[str, File] = {}
    waiting, count, tops = [""], 0, {str(root.absolute()), os.path.realpath(root)}
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    count += 1
                    if count > most:
                        raise TooManyFilesError(f"{root} has more than {most} files and folders")
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.name.startswith(OWN):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif (file := _file(entry, path, tops)) is not None:
                        found[path] = file
        except (FileNotFoundError, NotADirectoryError):
            if not folder:
                raise
        except PermissionError:  # such as lost+found at the top of a volume
            if not folder:
                raise
            found[folder] = File(folder, 0, 0, 0, None, True)
    return found


def _file(entry: os.DirEntry[str], path: str, tops: set[str]) -> File | None:
    try:
        known = entry.stat(follow_symlinks=False)
        link = _inside(path, os.readlink(entry.path), tops) if stat.S_ISLNK(known.st_mode) else None  # noqa: PTH115
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:  # of readlink: it was a link a moment ago
            return None
        raise
    mode = stat.S_IMODE(known.st_mode)
    if link is not None:
        return File(path, 0, known.st_mtime_ns, mode, link)
    return File(path, known.st_size, known.st_mtime_ns, mode, None, not stat.S_ISREG(known.st_mode))


def _inside(path: str, link: str, tops: set[str]) -> str:
    top = next((top for top in tops if link.startswith(f"{top}/")), None)
    return link if top is None else os.path.relpath(link[len(top) + 1 :], path.rpartition("/")[0] or ".")
