"""The git revision of the program, read from the files of the repository: an image rarely contains git."""

import contextlib
import re
import sys
from pathlib import Path
from typing import Final

_HASH: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
DEEPEST: Final = 5  # levels of references to references


def revision_of_program() -> str | None:
    """The commit of the repository of the main script, otherwise of the working folder; None without a repository.

    It does not show uncommitted changes.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    folders = [] if script is None or "site-packages" in Path(script).parts else [Path(script).absolute().parent]
    with contextlib.suppress(OSError):  # the working folder was deleted
        folders.append(Path.cwd())
    return next((found for folder in folders if (found := revision_of(folder)) is not None), None)


def revision_of(folder: Path) -> str | None:
    """The commit (40 or 64 hex digits) that is checked out in the repository of `folder`; None if there is none."""
    try:
        for parent in (folder, *folder.parents):
            if (parent / ".git").exists():
                return _head(parent / ".git")
    except (OSError, ValueError):  # no permission, or a file that is not text: a missing revision is not an error
        return None
    return None


def _head(git: Path) -> str | None:
    if git.is_file():  # a worktree or a submodule: the file contains the path of its folder
        git = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
    common = git / "commondir"
    shared = (git / common.read_text().strip()).resolve() if common.exists() else git
    value = (git / "HEAD").read_text().strip()
    for _ in range(DEEPEST):
        if not value.startswith("ref:"):
            break
        value = _reference(value.removeprefix("ref:").strip(), git, shared)
    return value if _HASH.fullmatch(value) else None


def _reference(name: str, git: Path, shared: Path) -> str:
    for folder in (git, shared):
        if (folder / name).is_file():
            return (folder / name).read_text().strip()
    packed = shared / "packed-refs"
    lines = packed.read_text().splitlines() if packed.exists() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
