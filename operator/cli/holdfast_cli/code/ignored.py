"""Which files of a folder are left out: by .gitignore, by .holdfastignore, and by default.

The rules are those of git: a pattern counts below the folder of its file, the last one that matches wins, and nothing
below a folder that is left out is taken in again. .holdfastignore wins over .gitignore.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pathspec import GitIgnoreSpec

from holdfast_cli.errors import CliError, ExitCode, unreadable

GIT: Final = ".gitignore"
OWN: Final = ".holdfastignore"
NEVER: Final = (".git", ".hg", ".svn")  # of other people's trees too, whatever a pattern says
_BY_DEFAULT: Final = (
    *("__pycache__/", "*.pyc", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".ipynb_checkpoints/", ".tox/"),
    *("node_modules/", ".DS_Store"),
)
# Folders that say themselves what they are, by a file in them.
_MARKS: Final = {
    "pyvenv.cfg": "virtual environment",
    "CACHEDIR.TAG": "cache",
    ".holdfast-folder.json": "saves of a training",
}
_SECRET_NAMES: Final = (".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", ".netrc", ".pypirc")
SECRET: Final = "secret"  # noqa: S105 - the name of a reason
MOST_PATTERNS: Final = 1 << 20  # bytes of one file


class _Rules(NamedTuple):
    """Patterns, and the folder below which they count: a path with a slash at its end, empty for the root."""

    base: str
    spec: GitIgnoreSpec
    why: str


class Ignored:
    """Decides for paths below `root`. `exclude`: patterns that count as if they were in its .holdfastignore.

    `enter` must be called for each folder before its files are asked for, and returns what counts in it.
    """

    def __init__(self, root: Path, exclude: Sequence[str]) -> None:
        self._root = root
        self._default = (
            _Rules("", GitIgnoreSpec.from_lines(_BY_DEFAULT), "default"),
            _Rules("", GitIgnoreSpec.from_lines(_SECRET_NAMES), SECRET),
            _Rules("", _spec(_lines(root / ".git/info/exclude"), ".git/info/exclude"), ".git/info/exclude"),
        )
        self._typed = (_Rules("", _spec(exclude, "--exclude"), "--exclude"),) if exclude else ()

    def enter(self, folder: str, above: "Layers | None") -> "Layers":
        """What counts in `folder`, empty for the root, and below. `above`: what counts in the folder above it."""
        git, own = (above.git, above.own) if above else (self._default, ())
        base = f"{folder}/" if folder else ""
        if lines := _lines(self._root / folder / GIT):
            git = (*git, _Rules(base, _spec(lines, f"{base}{GIT}"), GIT))
        if lines := _lines(self._root / folder / OWN):
            own = (*own, _Rules(base, _spec(lines, f"{base}{OWN}"), OWN))
        if above is None:
            own = (*own, *self._typed)
        return Layers(git, own)


class Layers(NamedTuple):
    """The rules that count in one folder, the weakest first."""

    git: tuple[_Rules, ...]
    own: tuple[_Rules, ...]

    def why_not(self, path: str, *, is_folder: bool) -> str:
        """Why `path` is left out; empty if it is sent. The name of a file with patterns, or a kind of file."""
        asked = f"{path}/" if is_folder else path
        if path.rpartition("/")[2] in NEVER:
            return "default"
        found = ""
        for rules in (*self.git, *self.own):
            said = rules.spec.check_file(asked[len(rules.base) :]).include
            if said is not None:
                found = rules.why if said else ""
        return found

    def is_wanted(self, path: str, *, is_folder: bool) -> bool:
        """True if .holdfastignore names the path with a `!`: then it is sent although it looks like a secret."""
        asked = f"{path}/" if is_folder else path
        said = [rules.spec.check_file(asked[len(rules.base) :]).include for rules in self.own]
        return next((one is False for one in reversed(said) if one is not None), False)


def mark_of(names: Iterable[str]) -> str:
    """What a folder with files of these names is, if it says so: such as a virtual environment; otherwise empty."""
    return next((_MARKS[name] for name in names if name in _MARKS), "")


def _spec(lines: Sequence[str], where: str) -> GitIgnoreSpec:
    """The rules of these patterns. CliError if one is invalid: without it, more would be sent than is meant."""
    try:
        return GitIgnoreSpec.from_lines(lines)
    except (ValueError, re.error) as error:
        raise CliError(
            f"{where} has an invalid pattern: {error}", code=ExitCode.USAGE, hint="correct or remove it"
        ) from error


def _lines(path: Path) -> list[str]:
    """The patterns of a file; none if it is missing. CliError if it cannot be read."""
    try:
        with path.open("rb") as opened:
            if os.fstat(opened.fileno()).st_size > MOST_PATTERNS:
                raise CliError(f"{path} has over {MOST_PATTERNS} bytes of patterns")
            return opened.read().decode("utf-8", "surrogateescape").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unreadable(path, error) from error
