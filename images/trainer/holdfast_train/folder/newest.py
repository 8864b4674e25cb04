"""Which file or folder is the newest save of the program, of which step it is, and which files no save wrote.

None of this decides what is committed. It names the save in HOLDFAST_NEWEST_CHECKPOINT, and the step of a commit.
"""

import math
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

from holdfast_train.folder import formats, inside
from holdfast_train.folder.index import Index
from holdfast_train.folder.look import File
from holdfast_train.folder.numbered import step_of
from holdfast_train.folder.saves import Save, saves

OF_FORMAT = "its files say it"
OF_PROGRAM = "the program told it"
OF_NAME = "its name says it"
_DOWNLOADS: Final = re.compile(r"(?:\A|/)hub/checkpoints/")  # in which torch.hub keeps models that others made


class NewestSave:
    """Of the folder `root`. `pattern`: of the job, the only paths that are saves."""

    def __init__(self, root: Path, pattern: str | None = None) -> None:
        self._root = root
        self._pattern = None if pattern is None else PurePosixPath(pattern).parts
        self._states: dict[str, tuple[object, bool]] = {}
        self._steps: dict[str, tuple[object, int | None]] = {}
        # Files that no save of this training wrote: by path, with their signatures, and by content.
        self._old: dict[str, object] = {}
        self._old_content: set[tuple[str, ...]] = set()
        self._own: dict[str, object] = {}  # what a commit of this job has put back
        self._before: Index | None = None  # the newest commit
        self._has_begun = False  # the program, so what is there may be of it
        # By path: the step that was told last when the file changed, and the one before that.
        self._told_at: dict[str, tuple[int | None, int | None]] = {}
        self._tolds: tuple[tuple[float, int], ...] = ()  # the last three steps that were told, and when
        self.told: int | None = None
        """The step that the program told last."""

    def begin(
        self,
        before: Index | None,
        there: Mapping[str, File],
        old: Mapping[str, object],
        *,
        has_begun: bool = False,
    ) -> None:
        """The program starts with the files of the commit `before` that are `there`. `has_begun`: it runs already.

        `old`: the signatures of files that were in the folder before the job's first start.
        """
        self._old, self._before, self._has_begun = dict(old), before, has_begun
        if before is not None:
            self._own = {path: file.signature for path, file in there.items()}
            self._old |= {path: file.signature for path, file in there.items() if before.files[path].is_old}
            self._old_content = {before.content(path) for path, saved in before.files.items() if saved.is_old}

    def path_in(self, files: Mapping[str, File], torn: Collection[str]) -> str:
        """The newest save among `files` that has nothing of what is `torn`; empty without one."""
        own = [file for file in files.values() if not self.is_old(file, ())]
        new = [file.path for file in own if self._own.get(file.path) != file.signature]
        save = self._newest(own, new, {*torn, *self._cut(own, new)})
        return "" if save is None else save.path

    def _cut(self, files: Sequence[File], new: Collection[str]) -> Iterator[str]:
        """Saves that no commit has, and that lack a kind of state file that one beside them has, as after a crash."""
        kinds = {
            save.path: {
                re.sub(r"\d+", "0", posixpath.relpath(file.path, save.path or "."))
                for file in save.files
                if self._is_state(file)
            }
            for save in self._saves(files)
            if not any(file.path == save.path for file in save.files)
        }
        committed = {file.path for file in files} - {*new}
        for path, own in kinds.items():
            beside = (more for other, more in kinds.items() if posixpath.dirname(other) == posixpath.dirname(path))
            if any(own < more for more in beside) and not any(is_in(one, path) for one in committed):
                yield path

    def note_told(self, step: int, there: Mapping[str, File], at: float = 0.0) -> None:
        """The program told `step` until `at`, in seconds since 1970; its output is read about once a second.

        What it had written of the files `there` before its first step counts as old.
        """
        if self.told is None and not self._has_begun:
            written = (path for path in self._told_at if path in there and path not in self._own)
            self._old |= {path: there[path].signature for path in written}
        self._tolds = (*self._tolds[-2:], (at, step))
        self.told = step

    def note_changed(self, path: str, at: float = math.inf) -> None:
        """The file at `path` has changed at the time `at`. A step that was told only then may come after the save."""
        known = self._tolds[:-1] if len(self._tolds) > 1 and at < self._tolds[-1][0] else self._tolds
        steps = (None, None, *(step for _, step in known))
        self._told_at[path] = steps[-1], steps[-2]

    def is_old(self, file: File, content: tuple[str, ...]) -> bool:
        """True if no save of this training wrote `file`."""
        is_known = self._old.get(file.path) == file.signature or (bool(content) and content in self._old_content)
        return is_known or (self._pattern is None and _DOWNLOADS.search(file.path) is not None)

    def learn(self, files: Collection[File]) -> None:
        """Look into `files` while they are there: the program may delete them before they are committed."""
        own = [file for file in files if not self.is_old(file, ())]
        known = {} if self._before is None else self._before.files
        new = [f.path for f in own if f.path not in known or known[f.path].file.signature != f.signature]
        if (save := self._newest(own, new)) is not None:
            self._step(save)

    def noted(self, known: Index) -> Index:
        """`known` with its newest save, and the step of that."""
        own = [saved.file for saved in known.files.values() if not saved.is_old]
        before = self._before
        content = set() if before is None else {before.content(path) for path in before.files}
        save = self._newest(own, [file.path for file in own if known.content(file.path) not in content])
        self._before = known
        if save is None:
            return known
        step, step_from = self._step(save)
        self._before = replace(known, newest=save.path, step=step, step_from=step_from)
        return self._before

    def save_at(self, known: Index) -> Save:
        """The newest save that `known` names."""
        files = [saved.file for saved in known.files.values() if not saved.is_old]
        inside_it = tuple(file for file in files if is_in(file.path, known.newest))
        # A file of a save names it, and others with the same number in the same folder belong to it.
        return next((one for one in saves(files, lambda file: True) if one.path == known.newest), None) or Save(
            known.newest, inside_it, step_of(known.newest.rpartition("/")[2])
        )

    def step_at(self, path: str, files: Mapping[str, File]) -> int | None:
        """The step of the save at `path`, None if nothing says it."""
        below = tuple(file for one, file in files.items() if is_in(one, path))
        return self._step(Save(path, below, step_of(path.rpartition("/")[2])))[0]

    def stated_step(self, path: str, files: Mapping[str, File]) -> int | None:
        """The step that the format of the save at `path` states, None if it states none."""
        below = (file for one, file in files.items() if is_in(one, path) and file.link is None)
        return next((step for file in below if (step := self._step_in(file)) is not None), None)

    def _newest(self, files: Sequence[File], new: Collection[str], torn: Collection[str] = ()) -> Save | None:
        """The newest save among `files`, of which those at the paths `new` were not in the newest commit.

        One with a file that is `torn` does not count.

        Times order only what is new together, so a save of a clock that was ahead is not the newest one for ever. An
        older save in which a small file is new, such as an evaluation, is not new.
        """
        new = frozenset(new)
        found = [s for s in self._saves(files) if not any(is_in(file.path, one) for file in s.files for one in torn)]
        written = [s for s in found if 2 * sum(f.size for f in s.files if f.path in new) > sum(f.size for f in s.files)]
        if not written and (before := self._before) is not None:  # one may have been moved, or copied with its time
            written = [s for s in found if s.path == before.newest or any(f.path not in before.files for f in s.files)]
        return next(reversed(written or found), None)

    def _saves(self, files: Sequence[File]) -> Sequence[Save]:
        """The saves among `files`, the oldest first."""
        if self._pattern is None:
            return saves(files, self._is_state)
        count, found = len(self._pattern), dict[str, list[File]]()
        for file in files:
            if self.is_named(file.path):
                found.setdefault("/".join(file.path.split("/")[:count]), []).append(file)
        named = (Save(path, tuple(group), step_of(path.rpartition("/")[2])) for path, group in found.items())
        return sorted(named, key=lambda save: (save.newest, save.path))

    def is_named(self, path: str) -> bool:
        """True if the job's pattern says that `path` is a save, or a part of one."""
        parts, pattern = path.split("/"), self._pattern or ()
        return bool(pattern) and len(parts) >= len(pattern) and all(map(fnmatchcase, parts, pattern))

    def _is_state(self, file: File) -> bool:
        signature, known = self._states.get(file.path, (None, False))
        if signature != file.signature:
            try:
                known = file.link is None and formats.is_state(self._root / file.path)
            except OSError:
                return False  # it is gone, and the commit has its bytes
            self._states[file.path] = file.signature, known
        return known

    def _step(self, save: Save) -> tuple[int | None, str]:
        for file in save.files:
            if file.link is None and (step := self._step_in(file)) is not None:
                return step, OF_FORMAT
        at = [self._told_at[file.path] for file in save.files if file.path in self._told_at]
        told = max((step for step, _ in at if step is not None), default=None)
        earliest = min((step or 0 for _, step in at), default=0)
        named = save.step_in_name
        if named is not None and (self.told is None or earliest <= named <= self.told):
            return named, OF_NAME
        return told, "" if told is None else OF_PROGRAM

    def _step_in(self, file: File) -> int | None:
        signature, known = self._steps.get(file.path, (None, None))
        if signature != file.signature:
            try:
                known = inside.step_in(self._root / file.path)
            except OSError:
                return None  # as above
            self._steps[file.path] = file.signature, known
        return known

    def metrics(self, known: Index) -> Mapping[str, str]:
        """What the newest save says of its quality."""
        found: dict[str, str] = {}
        for path in known.files:
            if known.newest and path.startswith(f"{known.newest}/"):
                try:
                    found |= inside.metrics_in(self._root / path)
                except OSError:
                    continue
        return found


def is_in(path: str, upper: str) -> bool:
    """True if `path` is `upper` or lies below it."""
    return path == upper or path.startswith(f"{upper}/")
