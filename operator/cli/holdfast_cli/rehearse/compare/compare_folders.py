"""The folders of three runs, file by file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from holdfast_cli.rehearse.compare.compare_file import compare_contents, worst
from holdfast_cli.rehearse.compare.difference import Effort
from holdfast_cli.rehearse.compare.findings import File, Kind, Spot, Standing
from holdfast_cli.rehearse.compare.reading.pickle_machine import BROKEN
from holdfast_cli.rehearse.compare.reading.read import read
from holdfast_cli.rehearse.compare.reading.values import Contents
from holdfast_cli.rehearse.left import Left
from holdfast_train.folder.formats import is_state
from holdfast_train.folder.look import File as Entry
from holdfast_train.folder.look import Rules, TooMuchError, look

MOST_FILES: Final = 20_000  # of one folder; the content of more is not compared


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder of a run: where it is, and what is in it. `newest`: the newest save, "" if it is not known.

    `older`: the saves beside it. `written`: all that the run has committed, also those that are gone.
    """

    root: Path
    files: Mapping[str, Entry]
    newest: str
    older: tuple[str, ...]
    written: frozenset[str] = frozenset()


def compare_folders(reference: Left, again: Left, rehearsed: Left, ignore: Sequence[str], effort: Effort) -> list[File]:
    """What is found in each file, and the folders that could not be compared."""
    found: list[File] = []
    runs = (reference, again, rehearsed)
    count = min(len(run.folders) for run in runs)
    if any(len(run.folders) != count for run in runs):
        found.append(
            File("the folder", Standing.NOT_COMPARED, note="the runs have folders of different numbers of nodes")
        )
    for node in range(count):
        of_node = f" of node {node}" if count > 1 else ""
        try:
            first, other, second = (_folder(run, node, ignore) for run in runs)
        except (OSError, TooMuchError) as error:
            found.append(File(f"the folder{of_node}", Standing.NOT_COMPARED, note=str(error)))
            continue
        prefix = f"node {node}: " if count > 1 else ""
        found += [replace(file, path=prefix + file.path) for file in _files(first, other, second, effort)]
    return found


def _folder(run: Left, node: int, ignore: Sequence[str]) -> Folder:
    root = run.folders[node]
    newest = run.saves[-1].strip("/") if run.saves and node == 0 else ""
    older, written = ([path.strip("/") for path in paths] for paths in (run.saves[:-1], run.written))
    return Folder(root, look(root, Rules(root, ignore)).files, newest, tuple(older), frozenset(written))


def is_below(path: str, folder: str) -> bool:
    """True if `path` is `folder`, or in it."""
    return path == folder or path.startswith(f"{folder}/")


def _files(reference: Folder, again: Folder, rehearsed: Folder, effort: Effort) -> list[File]:
    runs = (reference, again, rehearsed)
    rotated = _rotated(reference, rehearsed)
    found = []
    for number, path in enumerate(sorted({path for run in runs for path in run.files})):
        is_newest = bool(reference.newest) and is_below(path, reference.newest)
        has = [path in run.files for run in runs]
        if not has[0] and not has[1]:
            one = File(path, Standing.EXTRA, size=rehearsed.files[path].size)
        elif not has[0] or not has[1]:
            one = File(path, Standing.NOISE)
        elif not has[2]:
            one = _missing(path, reference, rotated)
        elif any(run.files[path].link is not None for run in runs):
            one = _link(path, *runs)
        elif number >= MOST_FILES:
            one = File(path, Standing.NOT_COMPARED, note=f"there are more than {MOST_FILES:,} files")
        else:
            one = _content(path, runs, effort)
        found.append(replace(one, is_newest=is_newest))
    return found


def _rotated(reference: Folder, rehearsed: Folder) -> list[str]:
    """Older saves that may be missing, the oldest first.

    A program that keeps its last saves has deleted one for each save more, such as that on a notice. A save more has a
    path that the reference has never had.
    """
    has = {*rehearsed.older, rehearsed.newest}
    if reference.newest not in has:
        return []
    more = has - {*reference.older, reference.newest} - reference.written
    gone = [save for save in reference.older if save not in has]
    return gone[: len(more)]


def _missing(path: str, reference: Folder, rotated: Sequence[str]) -> File:
    size = reference.files[path].size
    older = next((save for save in rotated if is_below(path, save)), None)
    if older is None or is_below(path, reference.newest):
        return File(path, Standing.MISSING, size=size)
    return File(path, Standing.NOTED, size=size, note=f"the older save {older} is not there any more")


def _link(path: str, reference: Folder, again: Folder, rehearsed: Folder) -> File:
    first, other, second = (_target(run, path) for run in (reference, again, rehearsed))
    if first == second:
        return File(path, Standing.EQUAL, "link", equal={Kind.OTHER: 1})
    standing = Standing.DIFFERS if first == other else Standing.NOISE
    return File(path, standing, "link", places=(Spot("", standing, Kind.OTHER, first, second),))


def _target(run: Folder, path: str) -> str:
    link = run.files[path].link
    if link is None:
        return "a file, not a link"
    return link.replace(str(run.root.absolute()), "(the folder)")


def _content(path: str, runs: Sequence[Folder], effort: Effort) -> File:
    size = runs[0].files[path].size
    try:
        first, other, second = (read(run.root / path) for run in runs)
        found = _with_source(compare_contents(path, first, other, second, effort), first, second, runs[2].written)
        return replace(found, size=size, is_state=is_state(runs[0].root / path))
    except (OSError, *BROKEN) as error:
        note = error.strerror if isinstance(error, OSError) else f"{type(error).__name__} while its values are compared"
        return File(path, Standing.NOT_COMPARED, size=size, note=note or str(error))


def _with_source(file: File, reference: Contents, rehearsed: Contents, written: frozenset[str]) -> File:
    """The file, with texts noted as harmless that name the save from which the program went on, and nothing before.

    A program that takes it as an option keeps its options: `resume_from_checkpoint` in `training_args.bin`.
    """

    def is_source(place: Spot) -> bool:
        value = rehearsed.values.get(place.place)
        if place.standing is not Standing.DIFFERS or not isinstance(value, str) or reference.values[place.place]:
            return False
        return any(f"/{value}".endswith(f"/{save}") for save in written)

    places = [replace(place, standing=Standing.NOTED) if is_source(place) else place for place in file.places]
    return replace(file, places=tuple(places), standing=file.standing if file.more else worst(places))
