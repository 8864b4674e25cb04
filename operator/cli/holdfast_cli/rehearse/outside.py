"""`written_outside`: files that the program writes where nothing saves them."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast_train.folder.index import above
from holdfast_train.folder.look import File, Look, Rules, TooMuchError, look

MOST_FILES: Final = 100_000


@dataclass(frozen=True, slots=True)
class NotSaved:
    """What no commit has. `excluded`: paths in the folder, and why they stay out.

    `outside`: files below the working directory that the program has written, as far as it was looked at. `unknown`:
    why it was not looked at; empty if it was.
    """

    excluded: Mapping[str, str]
    outside: tuple[str, ...] = ()
    unknown: str = ""


def is_ignored(path: str, patterns: Collection[str]) -> bool:
    """True if one of the patterns fits the path or a folder above it, as those of checkpoint.exclude do."""
    rules = Rules(Path("/"), patterns, {})
    return any(
        rules.reason(one, one.rpartition("/")[2], is_folder=one != path) is not None for one in (*above(path), path)
    )


class WorkingDirectory:
    """What is below the working directory when a program starts. `without`: folders that do not count."""

    def __init__(self, root: Path, without: Collection[Path]) -> None:
        self._root = root
        self._without = [path.relative_to(root).as_posix() for path in without if path.is_relative_to(root)]
        self._before, self._unknown = self._look()

    def written(self) -> tuple[tuple[str, ...], str]:
        """Paths of files that are new, or have changed, and why it is not known."""
        now, unknown = self._look()
        if self._before is None or now is None:
            return (), self._unknown or unknown
        before = self._before
        changed = (path for path, file in now.items() if path not in before or before[path].signature != file.signature)
        return tuple(sorted(path for path in changed if not self._is_without(path) and not self._is_ours(path))), ""

    def _look(self) -> tuple[Mapping[str, File] | None, str]:
        if self._without == ["."]:
            return {}, ""
        try:
            seen: Look = look(self._root, most=MOST_FILES)
        except TooMuchError:
            return None, f"{self._root} has more than {MOST_FILES} files"
        except OSError as error:
            return None, f"{self._root} cannot be read: {error.strerror or error}"
        return seen.files, ""

    def _is_ours(self, path: str) -> bool:
        """True if the output of this command goes into the file."""
        try:
            own = [os.fstat(stream) for stream in (1, 2)]
            known = (self._root / path).stat()
        except OSError:
            return False
        return any(os.path.samestat(known, one) for one in own)

    def _is_without(self, path: str) -> bool:
        return any(path == upper or path.startswith(f"{upper}/") for upper in self._without)
