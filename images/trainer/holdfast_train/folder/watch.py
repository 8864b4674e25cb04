"""Which checkpoint of a folder is committed next: the newest one that is complete and does not change any more."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast_train.folder.layouts import SUFFIXES, Unit, find, is_marked
from holdfast_train.folder.look import TooManyFilesError, look
from holdfast_train.folder.unknown import Unknown

__all__ = ["Watch"]

LOOK_SECONDS: Final = 2.0  # between two looks,
SHARE: Final = 20.0  # or so many times what a look takes
QUIET_SECONDS: Final = 30.0  # without a change, for a checkpoint whose layout has no mark


class Watch:
    """Looks at the folder `root`. `pattern`: the only paths that are checkpoints; None for the known layouts."""

    def __init__(self, root: Path, pattern: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._pattern = pattern
        self._clock = clock
        self._seen: dict[
            str, tuple[tuple[object, ...], float]
        ] = {}  # by name: signature, and since when it is this one
        self._done: dict[str, tuple[object, ...]] = {}  # committed, or refused
        self._newest = 0  # the time of the newest commit's youngest file
        self._unknown = Unknown(pattern, clock)
        self.complaint = ""  # why the last look failed, or why nothing is saved
        self.pause = LOOK_SECONDS

    @property
    def has_pattern(self) -> bool:
        """True if the job says which paths are checkpoints."""
        return self._pattern is not None

    def note_committed(self, unit: Unit) -> None:
        """`unit` is in the storage: it, and checkpoints before it, are not committed again."""
        self._done[unit.name] = unit.signature
        self._newest = max(self._newest, unit.newest)

    def begin(self, resumed: Unit | None, *, is_running: bool = False) -> Unit | None:
        """Take what is in the folder before the program runs. The newest complete checkpoint, if it is not `resumed`.

        What is older than `resumed` is never committed: after it, it would be the newest checkpoint of the log. Times
        of another machine are compared here and not later, because its clock may be ahead. What is not complete, or has
        no mark, may be half a checkpoint of a program that was killed: it is left alone until it changes, unless the
        program is running.
        """
        newest = None
        for unit in find(look(self._root), self._pattern):
            is_older = resumed is not None and unit.newest <= resumed.newest
            is_same = resumed is not None and unit.signature == resumed.signature
            is_known = is_older or is_same
            is_half = not is_known and (not _has_mark(unit) or not is_marked(self._root, unit))
            if is_known or (is_half and not is_running):
                self._done[unit.name] = unit.signature
            elif not is_half and (newest is None or unit.newest > newest.newest):
                newest = unit
        return newest

    def refuse(self, unit: Unit) -> None:
        """Leave `unit` alone until it changes."""
        self._done[unit.name] = unit.signature

    def next_unit(self, *, is_last: bool = False, clean: bool = False) -> Unit | None:
        """The newest complete checkpoint that is not committed. None if there is none.

        `is_last`: the program has ended, so one look is enough. `clean`: it was not killed.
        """
        started = self._clock()
        try:
            files = look(self._root)
            units = find(files, self._pattern)
        except (OSError, TooManyFilesError) as error:
            self.complaint = f"checkpoint.folder: {self._root} cannot be read: {error}; looking again"
            return None
        self.complaint = ""
        ready = [unit for unit in units if self._is_ready(unit, is_last=is_last, clean=clean)]
        gone = self._seen.keys() - {unit.name for unit in units}
        for name in gone:
            del self._seen[name]
        self.pause = max(LOOK_SECONDS, SHARE * (self._clock() - started))
        found = max(ready, key=_age, default=None)
        if found is not None:
            self._unknown.forget()
        elif not is_last and not self.complaint:
            waiting = max(units, key=_age, default=None)
            if waiting and (self._done.get(waiting.name) == waiting.signature or waiting.newest < self._newest):
                waiting = None
            is_whole = waiting is not None and self._is_whole(waiting)
            self.complaint = self._unknown.said(files, units, waiting, is_whole=is_whole)
        return found

    def _is_whole(self, unit: Unit) -> bool:
        try:
            return is_marked(self._root, unit)
        except OSError:
            return True  # it vanished, or cannot be read: the next look tells

    def _is_ready(self, unit: Unit, *, is_last: bool, clean: bool) -> bool:
        signature, now = unit.signature, self._clock()
        before, since = self._seen.get(unit.name, (None, now))
        if before != signature:
            self._seen[unit.name], since = (signature, now), now
        if self._done.get(unit.name) == signature or unit.newest < self._newest:
            return False
        if not is_last and before != signature:
            return False
        if not _has_mark(unit) and now - since < QUIET_SECONDS and not clean:
            return False
        try:
            return is_marked(self._root, unit)
        except FileNotFoundError:
            return False
        except OSError as error:
            self.complaint = f"checkpoint.folder: {unit.name!r} cannot be read: {error}"
            return False


def _age(unit: Unit) -> tuple[int, str]:
    return unit.newest, unit.name


def _has_mark(unit: Unit) -> bool:
    return unit.layout != "Pattern" or all(file.path.endswith(SUFFIXES) for file in unit.files)
