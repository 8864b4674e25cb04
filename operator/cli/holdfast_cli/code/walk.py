"""Which files of a folder are sent, by their names and by the ignore files: nothing is read but those."""

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast_cli.code import secret_files
from holdfast_cli.code.ignore import IgnoreFile, lines_of
from holdfast_cli.errors import CliError, ExitCode, unreadable
from holdfast_train.code.tree import OF_CODE, Entry, check_path, check_target, content_hash, shown
from holdfast_train.errors import CodeInvalidError

OWN_FILE: Final = ".holdfastignore"
GIT_FILE: Final = ".gitignore"
HINT: Final = f"name it in {OWN_FILE} if the program does not need it"
_ALWAYS: Final = frozenset({".git", ".hg", ".svn"})
_CACHES: Final = frozenset(
    {"__pycache__", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
)
# A file or folder in a folder: what that folder then is. The first one counts: uv tags environments as caches too.
_MARKERS: Final = {
    "pyvenv.cfg": "an environment of Python",
    "conda-meta": "an environment of Python",
    ".holdfast-folder.json": "checkpoints that Holdfast keeps",
    "CACHEDIR.TAG": "a cache",
}
_MOST_SHOWN: Final = 5


@dataclass(frozen=True)
class LeftOut:
    """What is not sent: a file, or a folder with a slash at its end. `why` in words, equal for all of one group."""

    path: str
    why: str


@dataclass(frozen=True)
class File:
    """A file that is sent unless its content looks like a secret. `is_named`: the user takes it in by a pattern."""

    path: str
    size: int
    is_named: bool


@dataclass
class Found:
    """What a walk has found. `files_in`: how many files each topmost folder has."""

    files: list[File] = field(default_factory=list)
    links: list[Entry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    files_in: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Folder:
    """A folder to look into: its path below the root, with a slash at its end, and the ignore files that count in it.

    `inside`: True if a folder that is left out is above it, of which a pattern may take in something.
    """

    path: str
    own: tuple[IgnoreFile, ...] = ()
    git: tuple[IgnoreFile, ...] = ()
    inside: bool = False


class Walk:
    """A walk through the folder `root`. `exclude`: more patterns, which count before those of all files."""

    def __init__(self, root: Path, exclude: Sequence[str] = ()) -> None:
        self._root = root
        try:
            self._more = IgnoreFile(exclude, "", "--exclude")
        except ValueError as error:
            raise CliError(str(error), code=ExitCode.USAGE) from error
        self._prefix, self._git = _above(root)
        self._found = Found()
        self._leading_out: list[str] = []

    def run(self) -> Found:
        """Walk until the end, or until there are more than may be sent. CliError names what cannot be sent."""
        waiting = [_Folder("", (), self._git)]
        while waiting and len(self._found.files) + len(self._found.links) <= OF_CODE.files:
            waiting += self._look_into(waiting.pop())
        if self._leading_out:
            raise CliError(
                f"{_named(self._leading_out)}: a pod has only what is in the folder",
                hint=f"copy what the link leads to into the folder, make a link inside it relative, or {HINT}",
            )
        return self._found

    def _look_into(self, folder: _Folder) -> Iterator[_Folder]:
        """Take the files of one folder, and return the folders in it."""
        try:
            with os.scandir(self._root / folder.path) as entries:
                children = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            raise unreadable(f"the folder {self._root / folder.path}", error, hint=HINT) from error
        names = {entry.name for entry in children}
        marker = next((name for name in _MARKERS if name in names), None)
        if folder.path and marker is not None and not folder.inside and not self._is_named(folder):
            self._found.left_out.append(LeftOut(folder.path, _MARKERS[marker]))
            if not self._takes_in_below(folder.path.rstrip("/"), folder.own):
                return
            folder = _Folder(folder.path, folder.own, folder.git, inside=True)
        if not folder.inside:
            folder = self._with_files(folder, names)
        for entry in children:
            if (below := self._take(folder, entry)) is not None:
                yield below

    def _is_named(self, folder: _Folder) -> bool:
        path = folder.path.rstrip("/")
        return self._verdict(folder.own, path, path.rpartition("/")[2], is_folder=True) is True

    def _with_files(self, folder: _Folder, names: set[str]) -> _Folder:
        """The folder, with its own ignore files."""
        own, git = folder.own, folder.git
        if OWN_FILE in names and (file := _read(self._root / folder.path / OWN_FILE, folder.path)):
            own = (file, *own)
        if GIT_FILE in names:
            base = f"{self._prefix}{folder.path}"
            if file := _read(self._root / folder.path / GIT_FILE, base, is_strict=False):
                git = (file, *git)
        return _Folder(folder.path, own, git, folder.inside)

    def _verdict(self, own: Sequence[IgnoreFile], path: str, name: str, *, is_folder: bool) -> bool | None:
        """As IgnoreFile.takes_in, by --exclude and .holdfastignore."""
        for file in (self._more, *own):
            if (found := file.takes_in(path, name, is_folder=is_folder)) is not None:
                return found
        return None

    def _takes_in_below(self, path: str, own: Sequence[IgnoreFile]) -> bool:
        return any(file.takes_in_below(path) for file in (self._more, *own))

    def _take(self, folder: _Folder, entry: os.DirEntry[str]) -> _Folder | None:
        """Take or leave out a file or link. Return a folder that has to be looked into."""
        path, name = f"{folder.path}{entry.name}", entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        verdict = None if name in _ALWAYS else self._verdict(folder.own, path, name, is_folder=is_folder)
        if verdict is not True and (folder.inside or (why := self._why(folder, path, name, verdict, is_folder))):
            if not folder.inside:
                self._found.left_out.append(LeftOut(f"{path}/" if is_folder else path, why))
            if is_folder and name not in _ALWAYS and verdict is None and self._takes_in_below(path, folder.own):
                return _Folder(f"{path}/", folder.own, folder.git, inside=True)
            return None
        _check_name(path)
        if is_folder:
            return _Folder(f"{path}/", folder.own, folder.git)
        if entry.is_symlink():
            self._take_link(path)
        else:
            self._take_file(path, entry, is_named=verdict is True)
        return None

    def _why(self, folder: _Folder, path: str, name: str, verdict: bool | None, is_folder: bool) -> str:
        """Why a path is left out, "" if it is not."""
        if name in _ALWAYS:
            return "the history of a version control"
        if verdict is False:
            return f"in {OWN_FILE} or --exclude"
        whole = f"{self._prefix}{path}"
        for file in folder.git:
            if (found := file.takes_in(whole, name, is_folder=is_folder)) is not None:
                if found:
                    break
                return f"in {GIT_FILE}"
        if (is_folder and name in _CACHES) or (not is_folder and name.endswith(".pyc")):
            return "a cache"
        secret = "" if is_folder else secret_files.of_name(name)
        return f"may have {secret}" if secret else ""

    def _take_link(self, path: str) -> None:
        try:
            target = os.readlink(self._root / path)  # noqa: PTH115 - Path changes ./a
            check_target(path, target)
        except CodeInvalidError as error:
            self._leading_out.append(str(error))
        except OSError as error:
            raise unreadable(self._root / path, error, hint=HINT) from error
        else:
            self._found.links.append(Entry(path, "link", 0, content_hash(target.encode()), target))
            self._count(path)

    def _take_file(self, path: str, entry: os.DirEntry[str], *, is_named: bool) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            raise unreadable(self._root / path, error, hint=HINT) from error
        if stat.S_ISREG(status.st_mode):
            self._found.files.append(File(path, status.st_size, is_named))
            self._count(path)
        else:
            self._found.left_out.append(LeftOut(path, "a pipe, socket or device"))

    def _count(self, path: str) -> None:
        top, slash, _ = path.partition("/")
        self._found.files_in[top + slash if slash else "the folder itself"] += 1


def _check_name(path: str) -> None:
    try:
        check_path(path)
    except CodeInvalidError as error:
        raise CliError(
            str(error), hint=f"rename it, or name it in {OWN_FILE} if the program does not need it"
        ) from error


def _named(errors: Sequence[str]) -> str:
    more = f"; and {len(errors) - _MOST_SHOWN:,} more" if len(errors) > _MOST_SHOWN else ""
    return "; ".join(errors[:_MOST_SHOWN]) + more


def _read(path: Path, base: str, *, is_strict: bool = True) -> IgnoreFile | None:
    """The patterns of a file, None if it is not one. Git passes over what is not a pattern; `is_strict`: CliError."""
    try:
        if not path.is_file():
            return None
        lines = lines_of(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        return IgnoreFile(lines, base, str(path))
    except ValueError as error:
        if is_strict:
            raise CliError(str(error), code=ExitCode.USAGE) from error
    return IgnoreFile(_patterns(lines), base, str(path))


def _patterns(lines: Sequence[str]) -> Iterator[str]:
    """The lines that are patterns."""
    for line in lines:
        try:
            IgnoreFile([line], "", "")
        except ValueError:
            continue
        yield line


def _above(root: Path) -> tuple[str, tuple[IgnoreFile, ...]]:
    """Where `root` lies in its repository, "" or with a slash at the end, and the ignore files of the folders above.

    Whether a folder above is left out itself does not count: the user has chosen `root`.
    """
    top = next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), None)
    if top is None:
        return "", ()
    files = []
    if (git := _git_folder(top)) is not None and (file := _read(git / "info" / "exclude", "", is_strict=False)):
        files.append(file)
    base, parts = "", root.relative_to(top).parts
    for part in parts:
        if file := _read(top / base / GIT_FILE, base, is_strict=False):
            files.append(file)
        base += f"{part}/"
    return base, tuple(reversed(files))


def _git_folder(top: Path) -> Path | None:
    """The folder of the repository; of the main one for a worktree, whose `.git` is a file that says where it is."""
    git = top / ".git"
    try:
        if not git.is_file():
            return git
        git = top / git.read_text(errors="replace").removeprefix("gitdir:").strip()
        common = git / "commondir"
        return git / common.read_text(errors="replace").strip() if common.is_file() else git
    except (OSError, ValueError):
        return None


def in_words(found: Sequence[LeftOut]) -> Iterator[str]:
    """One line for each reason: how many, and the first names."""
    groups: dict[str, list[str]] = {}
    for one in found:
        groups.setdefault(one.why, []).append(one.path)
    for why, paths in groups.items():
        names = ", ".join(shown(path)[1:-1] for path in paths[:_MOST_SHOWN])
        more = f" and {len(paths) - _MOST_SHOWN:,} more" if len(paths) > _MOST_SHOWN else ""
        yield f"not sent ({why}): {names}{more}"
