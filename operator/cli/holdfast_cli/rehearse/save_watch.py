"""`SaveWatch`: sees that the program begins to write a save into its folder.

It also runs in pods (`cluster.script`): it needs Python 3.9, and nothing but the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

MOST_FILES = 20_000  # a look must take milliseconds
OWN = ".holdfast-"  # names of Holdfast's own files in the folder


class Seen(NamedTuple):
    """What is known of a file without reading it."""

    inode: int
    size: int
    changed_ns: int


class SaveWatch:
    """Compares what is in the folder with what was there before. An empty path: there is no folder.

    A file that only grows is a log. A save makes a file, replaces one, makes one shorter, or changes bytes in one of
    which the size stays.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(folder)
        self._before = dict(self._look())

    def has_begun(self) -> str:
        """The path of a file that a save has changed since the last look; empty if there is none."""
        now, before = dict(self._look()), self._before
        self._before = now
        return next((path for path, seen in now.items() if is_of_save(seen, before.get(path))), "")

    def _look(self) -> Iterator[tuple[str, Seen]]:
        waiting, left = [self._folder] if self._folder else [], MOST_FILES
        while waiting and left > 0:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        left -= 1
                        if entry.name.startswith(OWN):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        elif entry.is_file(follow_symlinks=False):
                            known = entry.stat(follow_symlinks=False)
                            yield entry.path, Seen(known.st_ino, known.st_size, known.st_mtime_ns)
            except OSError:  # it is gone meanwhile
                continue


def is_of_save(now: Seen, before: Seen | None) -> bool:
    """True if a save made the difference, and not a log that grows."""
    if before is None or now.inode != before.inode or now.size < before.size:
        return True
    return now.size == before.size and now.changed_ns != before.changed_ns
