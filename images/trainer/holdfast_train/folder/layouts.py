"""Which files of a folder are one checkpoint. Whether it is complete, `marks` says.

- Hugging Face Trainer: a folder `checkpoint-N`.
- Accelerate: a folder of any name that has `random_states_0.pkl`, or is named `checkpoint_N`: Accelerate counts its
  checkpoints so, and N is not a step.
- torch.distributed.checkpoint: a folder with `.metadata`, or the folder above it if that has a number in its name.
- Orbax: a folder with `_CHECKPOINT_METADATA`.
- Lightning, torch.save, Keras: a folder whose name has a number, such as `step-500`, with a file of theirs somewhere in
  it: all of it. Otherwise the files of one folder, those with the newest number and those without one. A link to one of
  them belongs to them, such as Lightning's `last.ckpt`.
- `checkpoint.pattern`: a file or a folder whose path matches.

A name that says that the file or folder is temporary never is one.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final, Literal

from holdfast_train.folder.look import File
from holdfast_train.folder.names import SUFFIXES, is_log, is_numbered, is_temporary, number_of, step_of

Layout = Literal["HuggingFace", "Accelerate", "Distributed", "Orbax", "Files", "Pattern"]

STATE: Final = "trainer_state.json"  # the last file that the Trainer of Hugging Face writes
RANDOM_STATES: Final = "random_states_0.pkl"  # the last file of Accelerate, but for a program's own objects
METADATA: Final = ".metadata"  # the last file of torch.distributed.checkpoint
COMMITTED: Final = "_CHECKPOINT_METADATA"  # of Orbax, which renames the folder when it is whole

_NAMED: Final = re.compile(r"checkpoint([-_])(\d{1,15})")
_ASIDE: Final = re.compile(r".*\.incomplete-[0-9a-f]{8}", re.DOTALL)  # what `put_back` has renamed
_BESIDE: Final = (".safetensors", ".bin", ".json")  # are part of a checkpoint whose folder has tensors of safetensors


@dataclass(frozen=True)
class Unit:
    """What belongs together as one checkpoint. `name`: the path of its folder, or of the folder of its `files`.

    `step`: from its name; None if the name does not say it. `is_folder`: all of its folder belongs to it.
    """

    name: str
    layout: Layout
    step: int | None
    files: tuple[File, ...]
    is_folder: bool

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for two looks if nothing of it changed in between."""
        return self.name, *(file.signature for file in self.files)

    @property
    def newest(self) -> int:
        """When its youngest file was written, in nanoseconds since 1970."""
        return max((file.mtime_ns for file in self.files if file.link is None), default=0)


def _step_of_folder(name: str) -> int | None:
    named = _NAMED.fullmatch(name)
    return step_of(name) if named is None else number_of(name) if named[1] == "-" else None


def find(files: Mapping[str, File], pattern: str | None = None) -> list[Unit]:
    """The checkpoints among `files`, complete or not, in the order of their names."""
    if pattern is not None:
        return _matching(files, PurePosixPath(pattern).parts)
    roots = _roots(files)
    inside: dict[str, list[File]] = {root: [] for root in roots}
    loose: list[File] = []
    for path, file in sorted(files.items()):
        root = next((upper for upper in _uppers(path) if upper in roots), None)
        if root is not None:
            if roots[root] != "Distributed" or not is_log(path.rpartition("/")[2]):
                inside[root].append(file)
        elif not any(map(is_temporary, path.split("/"))):
            loose.append(file)
    units = [
        Unit(root, layout, _step_of_folder(PurePosixPath(root).name), tuple(inside[root]), True)
        for root, layout in sorted(roots.items())
    ]
    # Beside folders of checkpoints, a file is a model to use or an asset, and no state to resume from.
    return units or _without_mark(loose)


def _uppers(path: str) -> list[str]:
    """The folders above `path`, from the top."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _roots(files: Mapping[str, File]) -> dict[str, Layout]:
    """The folders that are checkpoints. A folder below another one of them is a part of it."""
    found: dict[str, Layout] = {}
    for path in files:
        folder, _, name = path.rpartition("/")
        uppers = _uppers(path)
        named = next((upper for upper in uppers if _NAMED.fullmatch(upper.rpartition("/")[2])), None)
        if any(is_temporary(upper.rpartition("/")[2]) for upper in uppers):
            continue
        if named is not None:
            found.setdefault(named, "HuggingFace" if "checkpoint-" in named.rpartition("/")[2] else "Accelerate")
        elif folder and name == RANDOM_STATES:
            found[folder] = "Accelerate"
        elif folder and name == METADATA:
            above = folder.rpartition("/")[0]  # step-500/model and step-500/optim are one checkpoint
            found.setdefault(above if _is_numbered(above) and not _is_numbered(folder) else folder, "Distributed")
        elif folder and name == COMMITTED:
            found[folder] = "Orbax"
    roots = {root: layout for root, layout in found.items() if not any(upper in found for upper in _uppers(root))}
    for root in roots:  # programs that use Accelerate alone name their folders as the Trainer does
        if f"{root}/{RANDOM_STATES}" in files and f"{root}/{STATE}" not in files:
            roots[root] = "Accelerate"
    return roots


def _without_mark(loose: Iterable[File]) -> list[Unit]:
    """The checkpoints among files that no library has marked: whole folders with a number, and files of others."""
    by_folder: dict[str, list[File]] = {}
    numbered: dict[str, list[File]] = {}
    for file in loose:
        uppers = _uppers(file.path)
        save = next((upper for upper in reversed(uppers) if _is_numbered(upper)), None)
        if save is None:
            by_folder.setdefault(uppers[-1] if uppers else "", []).append(file)
        elif not is_log(file.path.rpartition("/")[2]):
            numbered.setdefault(save, []).append(file)
    units = [
        Unit(save, "Files", step_of(save.rpartition("/")[2]), tuple(files), True)
        for save, files in numbered.items()
        if any(_is_save(file) for file in files)
    ]
    links = [file for files in by_folder.values() for file in files if file.link is not None]
    for folder, files in by_folder.items():
        if any(_is_save(file) for file in files) and not _is_copy(folder, files, units):
            units.append(_of_files(folder, [file for file in files if file.link is None], links))
    return sorted(units, key=lambda unit: unit.name)


def _is_copy(folder: str, files: Iterable[File], saves: Iterable[Unit]) -> bool:
    """True for a folder such as `final` or `best` beside `step-500`, with a file of the same name: no state to resume.

    Put back in the place of `step-500`, it would hide from the program that there is something to resume from.
    """
    above, _, name = folder.rpartition("/")
    if not folder or name.lower().startswith(("last", "latest")):
        return False
    beside = [unit for unit in saves if unit.is_folder and unit.name.rpartition("/")[0] == above]
    known = {file.path[len(unit.name) :] for unit in beside for file in unit.files}
    return any(_is_save(file) and file.path[len(folder) :] in known for file in files)


def path_of(unit: Unit) -> str:
    """The path below the folder that a program is given to resume from `unit`: its folder, or one of its files.

    Of several files: not the best one, then the one with the number, then the youngest.
    """
    if unit.is_folder or unit.layout == "Pattern":
        return unit.name

    def rank(file: File) -> tuple[bool, bool, bool, int, str]:
        name = file.path.rpartition("/")[2]
        return _is_save(file), "best" not in name.lower(), number_of(name) is not None, file.mtime_ns, name

    return max(unit.files, key=rank).path


def _is_numbered(folder: str) -> bool:
    return is_numbered(folder.rpartition("/")[2])


def _is_save(file: File) -> bool:
    return file.link is None and file.path.endswith(SUFFIXES)


def _of_files(folder: str, files: list[File], links: list[File]) -> Unit:
    """The checkpoint of one folder: its files with the newest number, and those without one, with links to them."""
    has_tensors = any(file.path.endswith(".safetensors") for file in files)
    by_number: dict[int | None, list[File]] = {}
    for file in files:
        if _is_save(file) or (has_tensors and file.path.endswith(_BESIDE)):
            by_number.setdefault(number_of(file.path.rpartition("/")[2]), []).append(file)
    numbered = [number for number in by_number if number is not None]
    newest = max(numbered, key=lambda number: max(f.mtime_ns for f in by_number[number]), default=None)
    of_newest = by_number[newest] if newest is not None else []
    steps = [step for file in of_newest if (step := step_of(file.path.rpartition("/")[2])) is not None]
    chosen = [*by_number.get(None, ()), *of_newest]
    names = {file.path for file in chosen}
    chosen += [link for link in links if target_of(link.path, link.link or "") in names]
    return Unit(folder, "Files", steps[0] if steps else None, tuple(sorted(chosen, key=lambda f: f.path)), False)


def target_of(path: str, link: str) -> str:
    """Where a symbolic link at `path` leads, below the folder; it begins with `..` or `/` if it leads out of it."""
    return os.path.normpath(os.path.join(path.rpartition("/")[0], link))  # noqa: PTH118 - Path keeps the dots


def _matching(files: Mapping[str, File], pattern: tuple[str, ...]) -> list[Unit]:
    found: dict[str, list[File]] = {}
    for path, file in sorted(files.items()):
        parts = path.split("/")[: len(pattern)]
        if any(map(_ASIDE.fullmatch, parts)):
            continue
        if len(parts) == len(pattern) and all(map(_fits, parts, pattern)):
            found.setdefault("/".join(parts), []).append(file)
    return [
        Unit(name, "Pattern", _step_of_match(name, files), tuple(inside), name not in files)
        for name, inside in sorted(found.items())
    ]


def _step_of_match(path: str, files: Mapping[str, File]) -> int | None:
    name = PurePosixPath(path).name
    return step_of(name) if path in files else _step_of_folder(name)


def _fits(part: str, pattern: str) -> bool:
    return fnmatchcase(part, pattern) and (not is_temporary(part) or is_temporary(pattern))
