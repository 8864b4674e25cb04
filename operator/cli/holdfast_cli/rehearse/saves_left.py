"""The saves that a program has left in its folder, as Holdfast knows them."""

from collections.abc import Sequence
from pathlib import Path

from holdfast_cli.rehearse.commits import Made
from holdfast_train.folder import formats
from holdfast_train.folder.look import File, TooMuchError, look
from holdfast_train.folder.newest import NewestSave
from holdfast_train.folder.saves import saves
from holdfast_train.folder.unfinished import temporary_part


def saves_in(folders: Sequence[Path], made: Sequence[Made]) -> tuple[str, ...]:
    """Paths in the first folder that are saves, the newest last: the one that the last commit names."""
    if not folders:
        return ()
    folder = folders[0]

    def is_state(file: File) -> bool:
        try:
            return formats.is_state(folder / file.path)
        except OSError:
            return False

    try:
        found = [one.path for one in saves(list(look(folder).files.values()), is_state)]
    except (OSError, TooMuchError):
        return ()
    newest = made[-1].save if made else ""
    return (*(path for path in found if path != newest), *([newest] if newest in found else []))


def step_left(folder: Path, pattern: str | None) -> int | None:
    """The step of the newest save in a folder in which nothing is torn; None if nothing says it, or if it is empty."""
    if torn_in(folder):
        return None  # all files that the commit has are put back
    try:
        files = look(folder).files
    except (OSError, TooMuchError):
        return None
    newest = NewestSave(folder, pattern)
    path = newest.path_in(files, ())
    return newest.step_at(path, files) if path else None


def torn_in(folder: Path) -> str:
    """The path of a file that is not whole, or that has the name of one that is being written; empty if none is."""
    try:
        for path, file in look(folder).files.items():
            if temporary_part(path) is not None:
                return path
            if file.link is None and formats.whole(folder / path, file.size) is False:
                return path
    except (OSError, TooMuchError):
        return ""
    return ""
