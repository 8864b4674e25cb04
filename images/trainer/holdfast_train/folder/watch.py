"""Which checkpoint of a folder is committed next: the newest one that is complete and does not change any more."""

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast_train.folder.layouts import Unit, find
from holdfast_train.folder.look import TooManyFilesError, look
from holdfast_train.folder.marks import has_mark, is_marked
from holdfast_train.folder.unknown import Unknown

LOOK_SECONDS: Final = 2.0  # between two looks,
SHARE: Final = 20.0  # or so many times what a look takes
QUIET_SECONDS: Final = 30.0  # without a change, for a checkpoint whose layout has no mark
_DIGITS: Final = re.compile(r"\d+")


class Watch:
    """Looks at the folder `root`. `pattern`: the only paths that are checkpoints; None for the known layouts."""

    def __init__(self, root: Path, pattern: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._pattern = pattern
        self._clock = clock
        # By name: the signature of what was seen there, and since when it is this one.
        self._seen: dict[str, tuple[tuple[object, ...], float]] = {}
        self._done: dict[str, tuple[object, ...]] = {}  # committed, or refused
        self._newest = 0  # the time of the newest commit's youngest file
        self._shape: Counter[str] = Counter()  # the files of the newest commit,
        self._lacking_since: float | None = None  # and since when newer ones lack some of these
        # When the first one was seen of which nothing tells how many files it has.
        self._first_since: float | None = None
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
        self._shape, self._lacking_since = _shape(unit), None

    def begin(self, resumed: Unit | None, *, is_running: bool = False) -> Unit | None:
        """Take what is in the folder before the program runs. The newest complete checkpoint, if it is not `resumed`.

        What is older than `resumed` is never committed: after it, it would be the newest checkpoint of the log. Times
        of another machine are compared here and not later, because its clock may be ahead. What is not complete, or has
        no mark, may be half a checkpoint of a program that was killed: it is left alone until it changes, unless the
        program is running.
        """
        newest = None
        if resumed is not None:
            self._shape = _shape(resumed)
        for unit in find(look(self._root), self._pattern):
            is_older = resumed is not None and unit.newest <= resumed.newest
            is_same = resumed is not None and unit.signature == resumed.signature
            is_known = is_older or is_same
            is_half = not is_known and not self._is_whole_by_itself(unit)
            if is_known or (is_half and not is_running):
                self._done[unit.name] = unit.signature
            elif not is_half and (newest is None or unit.newest > newest.newest):
                newest = unit
        return newest

    def _is_whole_by_itself(self, unit: Unit) -> bool:
        """True if what a program left is whole, without a second look."""
        is_sure = has_mark(self._root, unit) and is_marked(self._root, unit)
        return is_sure and not self._lacks(unit, is_last=True)

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
        try:
            is_quiet = clean or now - since >= QUIET_SECONDS
            if not is_quiet and (not has_mark(self._root, unit) or (self._is_first_of_many(unit) and not is_last)):
                return False
            return is_marked(self._root, unit) and (clean or not self._lacks(unit, is_last=is_last))
        except FileNotFoundError:
            return False
        except OSError as error:
            self.complaint = f"checkpoint.folder: {unit.name!r} cannot be read: {error}"
            return False

    def _is_first_of_many(self, unit: Unit) -> bool:
        """True if nothing tells how many files a checkpoint of this program has, and it may be more than there are.

        A program may delete each checkpoint soon after, so this counts for QUIET_SECONDS.
        """
        if not unit.is_folder or self._shape or not _shape(unit):
            return False
        now = self._clock()
        self._first_since = now if self._first_since is None else self._first_since
        return now - self._first_since < QUIET_SECONDS

    def _lacks(self, unit: Unit, *, is_last: bool) -> bool:
        """True if `unit` has not all files that the checkpoint before it had: its program has not written them yet.

        A program may write fewer files from now on, so this counts for QUIET_SECONDS.
        """
        shape = _shape(unit)
        is_alike = bool(shape & self._shape)
        if not is_alike or not self._shape - shape:
            return False
        now = self._clock()
        self._lacking_since = now if self._lacking_since is None else self._lacking_since
        return is_last or now - self._lacking_since < QUIET_SECONDS


def _age(unit: Unit) -> tuple[int, str]:
    return unit.newest, unit.name


def _shape(unit: Unit) -> Counter[str]:
    """The names of the files of `unit`, without the numbers in them; empty if a mark of its own is its last file."""
    if unit.layout not in ("Files", "Pattern", "Distributed"):
        return Counter()
    return Counter(_DIGITS.sub("0", file.path) for file in unit.files)
