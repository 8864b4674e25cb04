"""Which of the files of a folder are one save of the program.

A save is a folder that a library has marked, or a folder whose name says with a number which save it is, or the files
of one folder with the same number, or one state file. Names order what is put back, and never decide what is saved.
"""

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast_train.folder.look import File
from holdfast_train.folder.numbered import is_of_saves, number_of, save_of, series_of, step_of
from holdfast_train.folder.unfinished import METADATA, STATE, temporary_part

MARKERS: Final = (STATE, METADATA, "_CHECKPOINT_METADATA", "commit_success.txt", "random_states_0.pkl")
PARTS: Final = "mp_rank_"  # files or folders of DeepSpeed and Megatron
BESIDE_NS: Final = 600 * 10**9  # at most, between a file and one beside it, such as a copy of the best model
_HELPER: Final = re.compile(r"(?i)best|opt|ema|sched|scaler|rng|rank|replay|normalize")  # beside the model


@dataclass(frozen=True)
class Save:
    """`path`: of a folder, "" for all of it, or of the one of `files` that a program is given.

    `step_in_name`: only a hint.
    """

    path: str
    files: tuple[File, ...]
    step_in_name: int | None

    @property
    def newest(self) -> int:
        """When its youngest file was written, in nanoseconds since 1970."""
        return max((file.mtime_ns for file in self.files if file.link is None), default=0)


def saves(files: Sequence[File], is_state: Callable[[File], bool]) -> list[Save]:
    """The saves among `files`, the oldest first. `is_state`: a program may resume from the file.

    Not one: files with temporary names, and a folder with a part of what the saves beside it have, such as the model.
    """
    known = [file for file in files if temporary_part(file.path) is None]
    states = {file.path for file in known if file.link is None and is_state(file)}
    marked = _marked({file.path for file in known})
    roots = marked | _numbered({*states, *(f"{folder}/" for folder in marked)})
    inside, loose = defaultdict[str, list[File]](list), defaultdict[tuple[str, object], list[File]](list)
    for file in known:
        root = next((upper for upper in _uppers(file.path) if upper in roots), None)
        if root is not None:
            inside[root].append(file)
        elif file.link is None:
            folder, name = posixpath.split(file.path)
            number = number_of(name)
            loose[folder, name if number is None else number].append(file)
    found = [Save(root, tuple(of_root), step_of(posixpath.basename(root))) for root, of_root in inside.items()]
    contents = defaultdict[str, list[set[str]]](list)  # of the saves in a folder: the state files of each
    for root, of_root in inside.items():
        below = {posixpath.relpath(file.path, root or ".") for file in of_root if file.path in states}
        contents[posixpath.dirname(root)].append(below)
    names = defaultdict[str, set[str]](set)
    for path in states:
        names[posixpath.dirname(path)].add(posixpath.basename(path))
    for (folder, _), group in loose.items():
        beside = [*contents[folder], *(contents[posixpath.dirname(folder)] if folder else ())]
        own = sorted((_is_helper(file.path), file.path) for file in group if file.path in states)
        if own and not any(names[folder] < others for others in beside):
            steps = (step_of(posixpath.basename(file.path)) for file in group)
            found.append(Save(own[0][1], tuple(group), next((step for step in steps if step is not None), None)))
    models = [save for save in found if not _is_helper(save.path)]
    found = [save for save in found if not (_is_helper(save.path) and any(_is_beside(save, one) for one in models))]
    return sorted(found, key=lambda save: (save.newest, save.path))


def _is_helper(path: str) -> bool:
    return _HELPER.search(posixpath.basename(path)) is not None


def _is_beside(helper: Save, model: Save) -> bool:
    """True if a program that is given `model` needs, or may do without, what was written soon after it."""
    is_near = posixpath.dirname(helper.path) == posixpath.dirname(model.path)
    return is_near and helper.newest - model.newest <= BESIDE_NS


def _uppers(path: str) -> Iterator[str]:
    """The folders above `path`, from the top, which is ""."""
    yield ""
    yield from (path[: slash.start()] for slash in re.finditer("/", path))


def _marked(paths: Iterable[str]) -> set[str]:
    """The folders with a marker. One with the same marker in numbered folders below it is a run, and not a save."""
    paths = set(paths)
    tensors = {posixpath.dirname(path) for path in paths if path.endswith(".distcp")}
    marks = set[tuple[str, str]]()
    for path in paths:
        folder, name = posixpath.split(path)
        parts = re.search(rf"(?:\A|/){PARTS}", path)
        if parts is not None:
            marks.add((path[: parts.start()], PARTS))
        elif name in MARKERS and (name != METADATA or folder in tensors):
            marks.add((folder, name))
    runs = {(upper, mark) for folder, mark in marks if folder[-1:].isdecimal() for upper in _uppers(folder)}
    return {folder for folder, _ in marks - runs}


def _numbered(paths: set[str]) -> set[str]:
    """The folders above `paths` that are one save each, as their names and those of their neighbours say.

    A folder in which other names count saves is a run, and its own number a setting of it.
    """
    uppers = {upper for path in paths for upper in _uppers(path) if upper}
    series = Counter((posixpath.dirname(upper), series_of(posixpath.basename(upper))) for upper in uppers)
    base = posixpath.basename
    found = {upper for upper in uppers if is_of_saves(base(upper))}
    found |= {
        upper
        for upper in uppers
        if (key := series_of(base(upper))) is not None and series[posixpath.dirname(upper), key] > 1
    }
    for path in paths:
        for upper in [upper for upper in _uppers(path.rstrip("/")) if upper in found]:
            number = save_of if is_of_saves(base(upper)) else number_of
            counted = {number(part) for part in path[len(upper) :].strip("/").split("/")} - {None}
            if counted - {int(re.findall(r"\d+", upper)[-1][:15])}:
                found.discard(upper)
    return found
