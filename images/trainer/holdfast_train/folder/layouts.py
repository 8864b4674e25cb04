"""Which files of a folder are one checkpoint, and whether that checkpoint is complete.

- Hugging Face Trainer: a folder `checkpoint-N`. `trainer_state.json` is JSON, and no `checkpoint-is-incomplete.txt` is
  there.
- Accelerate: a folder of any name that has `random_states_0.pkl`, or is named `checkpoint_N`: Accelerate counts its
  checkpoints so, and N is no step.
- torch.distributed.checkpoint: a folder with `.metadata`.
- Orbax: a folder with `_CHECKPOINT_METADATA`; a name with `.orbax-checkpoint-tmp` never is one.
- Lightning, torch.save: the `.ckpt`, `.pt` and `.pth` files of one folder, those with the newest number and those
  without one. Each is a whole ZIP archive. A link to one of them belongs to them, such as Lightning's `last.ckpt`.
- `checkpoint.pattern`: a file or a folder whose path matches. Each of these files is a whole ZIP archive; if it has
  other files, nothing has changed for 30 s.

A file that still changes is not complete in any layout: `writer` compares two looks.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from holdfast_train.folder.look import File

__all__ = ["INCOMPLETE", "SUFFIXES", "Layout", "Unit", "find", "is_marked", "metrics_of", "step_of"]

Layout = Literal["HuggingFace", "Accelerate", "Distributed", "Orbax", "Files", "Pattern"]

INCOMPLETE: Final = "checkpoint-is-incomplete.txt"  # Hugging Face keeps it in a folder while it saves on SIGTERM
STATE: Final = "trainer_state.json"  # the last file that the Trainer writes
RANDOM_STATES: Final = "random_states_0.pkl"  # the last file of Accelerate, but for a program's own objects
STATE_BYTES: Final = 64 << 20  # a longer one is not read
SUFFIXES: Final = (".ckpt", ".pt", ".pth")

_NAMED: Final = re.compile(r"checkpoint([-_])(\d{1,15})")
_NUMBER: Final = r"[-_= ]?(\d{1,15})(?!\d|\.\d|-of-)"  # model-00001-of-00002 is one of two files, and of no step
_STEP: Final = re.compile(rf"(?i)steps?{_NUMBER}")
_OTHER: Final = re.compile(rf"(?i)(?:iter(?:ation)?|checkpoint|ckpt|model|optimi[sz]er|optim|state){_NUMBER}")
_FOLDER: Final = re.compile(rf"(?i)(?:.*[-_=])?(?:steps?|iter(?:ation)?){_NUMBER}")  # step1_warmup says none
_TIME: Final = 1_000_000_000  # as seconds since 1970 and more: no step, but a time in a name
_ASIDE: Final = re.compile(r".*\.incomplete-[0-9a-f]{8}")  # what `put_back` has renamed
_METRIC: Final = re.compile(r"[\w./-]{1,64}")


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


def step_of(name: str) -> int | None:
    """The step that the `name` of a file or a folder says, None if it says none."""
    stem = name
    for suffix in SUFFIXES:
        stem = stem.removesuffix(suffix)
    if stem.isdecimal() and len(stem) <= 15:
        return _unless_time(int(stem))
    found = _STEP.search(stem) or _OTHER.search(stem)
    return _unless_time(int(found[1])) if found else None


def _unless_time(number: int) -> int | None:
    return number if number < _TIME else None


def _step_of_folder(name: str, layout: Layout) -> int | None:
    if layout == "Accelerate" and (named := _NAMED.fullmatch(name)) is not None and named[1] == "_":
        return None
    return step_of(name)


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
            inside[root].append(file)
        elif path.endswith(SUFFIXES):
            loose.append(file)
    units = [
        Unit(root, layout, _step_of_folder(PurePosixPath(root).name, layout), tuple(inside[root]), True)
        for root, layout in sorted(roots.items())
    ]
    # Beside folders of checkpoints, a file is a model to use or an asset, and no state to resume from.
    return units or _of_files(loose)


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
        if any(".orbax-checkpoint-tmp" in upper for upper in uppers):
            continue
        if named is not None:
            found.setdefault(named, "HuggingFace" if "checkpoint-" in named.rpartition("/")[2] else "Accelerate")
        elif folder and name == RANDOM_STATES:
            found[folder] = "Accelerate"
        elif folder and name == ".metadata":
            found.setdefault(folder, "Distributed")
        elif folder and name == "_CHECKPOINT_METADATA":
            found[folder] = "Orbax"
    roots = {root: layout for root, layout in found.items() if not any(upper in found for upper in _uppers(root))}
    for root in roots:  # programs that use Accelerate alone name their folders as the Trainer does
        if f"{root}/{RANDOM_STATES}" in files and f"{root}/{STATE}" not in files:
            roots[root] = "Accelerate"
    return roots


def _of_files(loose: Iterable[File]) -> list[Unit]:
    """One checkpoint for each folder: its files with the newest number, and those without one."""
    by_folder: dict[str, dict[int | None, list[File]]] = {}
    links: list[File] = []
    for file in loose:
        folder, _, name = file.path.rpartition("/")
        if file.link is None:
            by_folder.setdefault(folder, {}).setdefault(step_of(name), []).append(file)
        else:
            links.append(file)
    units = []
    for folder, by_step in sorted(by_folder.items()):
        numbered = [step for step in by_step if step is not None]
        newest = max(numbered, key=lambda step: max(f.mtime_ns for f in by_step[step]), default=None)
        chosen = [*by_step.get(None, ()), *(by_step[newest] if newest is not None else ())]
        names = {file.path for file in chosen}
        chosen += [link for link in links if f"{link.path.rpartition('/')[0]}/{link.link}".lstrip("/") in names]
        of_folder = _FOLDER.fullmatch(PurePosixPath(folder).name) if newest is None else None
        step = newest if of_folder is None else _unless_time(int(of_folder[1]))
        units.append(Unit(folder, "Files", step, tuple(sorted(chosen, key=lambda f: f.path)), False))
    return units


def _matching(files: Mapping[str, File], pattern: tuple[str, ...]) -> list[Unit]:
    found: dict[str, list[File]] = {}
    for path, file in sorted(files.items()):
        parts = path.split("/")[: len(pattern)]
        if any(map(_ASIDE.fullmatch, parts)):
            continue
        if len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern)):
            found.setdefault("/".join(parts), []).append(file)
    return [
        Unit(name, "Pattern", step_of(PurePosixPath(name).name), tuple(inside), name not in files)
        for name, inside in sorted(found.items())
    ]


def is_marked(root: Path, unit: Unit) -> bool:
    """True if the layout's own mark of a complete checkpoint is there. OSError if a file cannot be read."""
    names = {file.path[len(unit.name) + 1 :] if unit.name else file.path for file in unit.files}
    if not names or INCOMPLETE in names:
        return False
    if unit.layout == "HuggingFace":
        return STATE in names and _state(root, unit) is not None
    if unit.layout == "Accelerate":
        return RANDOM_STATES in names
    if unit.layout == "Distributed":
        return ".metadata" in names
    if unit.layout == "Orbax":
        return "_CHECKPOINT_METADATA" in names
    if unit.layout == "Files":
        whole = [_is_archive(root / file.path) for file in unit.files if file.link is None]
        return bool(whole) and all(whole)
    return all(_is_archive(root / f.path) for f in unit.files if f.link is None and f.path.endswith(SUFFIXES))


def _is_archive(path: Path) -> bool:
    """True if the end of a ZIP archive is there: torch.save writes it last."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(archive.filelist)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, NotImplementedError, EOFError):
        return False


def _state(root: Path, unit: Unit) -> dict[str, Any] | None:
    path = root / unit.name / STATE
    if path.is_symlink() or not path.is_file() or path.stat().st_size > STATE_BYTES:
        return None
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def metrics_of(root: Path, unit: Unit) -> dict[str, str]:
    """The newest value of each metric that the Hugging Face Trainer has noted; empty for other layouts."""
    state = _state(root, unit) if unit.layout == "HuggingFace" else None
    found: dict[str, str] = {}
    history = state.get("log_history") if state else None
    for entry in history if isinstance(history, list) else ():
        for name, value in entry.items() if isinstance(entry, dict) else ():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if is_number and name != "step" and _METRIC.fullmatch(name) and (len(found) < 64 or name in found):
                found[name] = f"{value:.6g}"
    return found
