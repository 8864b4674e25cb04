"""When the folder is committed: when nothing says that the program is in the middle of a save.

The first rule is quiet: no file changed for a short while. A file that changes in each look, such as a log, does not
count. The second rule are formats and markers (`formats`, `unfinished`): a file that is not whole, or a folder that
lacks its last file. Such a thing holds a commit up only while it changes, and for TORN_SECONDS after that. What changes
for longer than STORM_SECONDS, such as a download, is left out then, and the rest is committed.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast_train.folder.formats import is_state, whole
from holdfast_train.folder.look import LARGE, File
from holdfast_train.folder.newest import is_in
from holdfast_train.folder.unfinished import lacking, unfinished

QUIET_SECONDS: Final = 2.0  # without a change, if the formats of all files that changed say that they are whole;
UNKNOWN: Final = 3  # so many times that if a file of LARGE bytes or more has no format that says so
RESTLESS_LOOKS: Final = 5  # that have all seen a file change,
RESTLESS_SECONDS: Final = 8.0  # for as long: it does so all the time
MOVING_SECONDS: Final = 60.0  # between two commits of files of which only such ones have changed
TORN_SECONDS: Final = 60.0  # after its last change, what is not whole stays as it is
NOISE_SECONDS: Final = 30.0  # after which changes of small files hold nothing up,
STORM_SECONDS: Final = 300.0  # and changes of any files
TEXT_BYTES: Final = 1 << 20  # of a small file that says what belongs to a save


@dataclass(frozen=True)
class Due:
    """What to commit: `files`, of which those that are `moving` change all the time.

    `torn`: path -> why it is not whole, of what is committed as it is. `is_storm`: some file or other changes all the
    time, so no moment is better than this one.
    """

    files: Mapping[str, File]
    moving: frozenset[str]
    torn: Mapping[str, str]
    is_storm: bool = False


class Moment:
    """Learns from looks at the folder `root`. `on_change` is called with each path that has changed.

    `quiet`: seconds without a change in which a save is over. All times are by `clock`.
    """

    def __init__(
        self,
        root: Path,
        on_change: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        *,
        quiet: float = QUIET_SECONDS,
        is_named: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._quiet = quiet
        self._is_named = is_named
        self._root = root
        self._on_change = on_change
        self._clock = clock
        self._files: Mapping[str, File] = {}
        self._changed_at: dict[str, float] = {}  # and since when it is as it is; not of what was there at the beginning
        self._in_a_row: dict[str, tuple[int, float]] = {}  # looks that have all seen it change, and the first of them
        self._committed: Mapping[str, tuple[int, int, str | None]] = {}
        self._committed_at = -float("inf")
        self._quiet_since = -float("inf")
        self._loud_since: float | None = None
        self._held_since: float | None = None  # by what is not whole
        self._is_storm = False
        self._formats: dict[str, tuple[object, bool | None]] = {}
        self.changes = 0
        """How many looks have seen a change, other than of a file that changes all the time."""
        self.elsewhere: frozenset[str] = frozenset()
        """Paths that are known to be in the folder of another node."""
        self.waits_for = ""
        """Why nothing is committed although something has changed; empty if nothing has."""

    def begin(self, files: Mapping[str, File], committed: Mapping[str, File], *, beside_program: bool = False) -> None:
        """What is there before the program runs, or when this process begins beside it, and what is committed of it."""
        self._files = files
        if beside_program:  # which may have written just now
            self._quiet_since = self._clock()
        self._committed = {path: file.signature for path, file in committed.items()}

    @property
    def files(self) -> Mapping[str, File]:
        """Those of the last look."""
        return self._files

    def note_committed(self, files: Mapping[str, File]) -> None:
        """The folder is committed with these files."""
        self._committed = {path: file.signature for path, file in files.items()}
        self._committed_at = self._clock()
        self._loud_since = self._held_since = None  # what is never quiet is committed now and then, not at each look

    def see(self, files: Mapping[str, File]) -> None:
        """One look."""
        now = self._clock()
        before, self._files = self._files, files
        changed = {p for p, file in files.items() if p not in before or before[p].signature != file.signature}
        gone = before.keys() - files.keys()
        for path in gone:
            self._changed_at.pop(path, None)
        known = {path: self._in_a_row.get(path, (0, now)) for path in changed}
        self._in_a_row = {path: (looks + 1, since) for path, (looks, since) in known.items()}
        for path in changed:
            self._changed_at[path] = now
            self._on_change(path)
        loud = [path for path in (*changed, *gone) if not self._is_restless(path)]
        self._is_storm = False
        if loud:
            self.changes += 1
            self._quiet_since = now
            self._loud_since = now if self._loud_since is None else self._loud_since
            is_small = all(path in gone or files[path].size < LARGE for path in loud)
            self._is_storm = now - self._loud_since >= (NOISE_SECONDS if is_small else STORM_SECONDS)
        elif now - self._quiet_since >= UNKNOWN * self._quiet:
            self._loud_since = None

    def _is_restless(self, path: str) -> bool:
        looks, since = self._in_a_row.get(path, (0, self._clock()))
        is_long = looks >= RESTLESS_LOOKS and self._clock() - since >= RESTLESS_SECONDS
        return is_long and self._whole(self._files[path]) is not False

    @property
    def has_new_state(self) -> bool:
        """True if the newest commit lacks something other than the newest lines of logs."""
        changed = self._changed()
        return changed != self._moving(changed)

    @property
    def quiet_seconds(self) -> float:
        """How long no file has changed, other than those that change all the time."""
        return self._clock() - self._quiet_since

    def lacks(self) -> set[str]:
        """Files that would end a save that is under way, if another node had them."""
        return lacking(self._files, self._text)

    def due(self, *, joins: bool = False) -> Due | None:
        """What to commit now; None if nothing is new, or if the program may be in the middle of a save.

        `joins`: another node has something new, so what this one has goes with it, whether it is new or not.
        """
        self.waits_for = ""
        now, changed = self._clock(), self._changed()
        moving = self._moving(changed)
        restless = frozenset(path for path in moving if path in self._files and self._is_restless(path))
        is_due = bool(changed) and (changed != moving or now - self._committed_at >= MOVING_SECONDS)
        if not is_due and not joins:
            return None
        torn = self.torn(changed)
        due: Due | None = Due(self._files, moving, torn, self._is_storm)
        busy = {path: why for path, why in torn.items() if now - self._last_change(path) < TORN_SECONDS}
        if busy:
            path, why = next(iter(busy.items()))
            self.waits_for = f"{path!r} {why}"
            self._held_since = now if self._held_since is None else self._held_since
            due = self._without(busy, changed, torn, moving) if now - self._held_since >= STORM_SECONDS else None
        is_sure = all(self._is_sure(path) for path in changed - restless if path in self._files)
        if (
            due is not None
            and not self._is_storm
            and now - self._quiet_since < (1 if is_sure else UNKNOWN) * self._quiet
        ):
            self.waits_for = self.waits_for or "files change at each look"
            return None
        return due

    def _moving(self, changed: frozenset[str]) -> frozenset[str]:
        restless = frozenset(path for path in changed if path in self._files and self._is_restless(path))
        return restless | {path for path in changed - restless if self._is_log(path)}

    def _without(
        self, torn: Collection[str], changed: frozenset[str], named: Mapping[str, str], moving: frozenset[str]
    ) -> Due | None:
        """All but what is `torn`. None if that is all, or is in the place of a commit's: the rest may belong to it."""
        left_out = {path for path in changed if any(is_in(path, one) for one in torn)}
        if left_out & self._committed.keys() or left_out >= changed:
            return None
        kept = {path: file for path, file in self._files.items() if path not in left_out}
        named = {path: why for path, why in named.items() if path not in torn}
        return Due(kept, moving - left_out, named, self._is_storm)

    def _is_log(self, path: str) -> bool:
        """True if the file at `path` is as committed, but for what was appended. No program resumes from it."""
        file, before = self._files.get(path), self._committed.get(path)
        if file is None or before is None or file.link is not None or not 0 <= file.size - before[0] < LARGE:
            return False
        if self._is_named(path):
            return False
        try:
            return not is_state(self._root / path)
        except OSError:
            return False  # it is gone, or cannot be read: the next look tells

    def last(self, *, clean: bool, joins: bool = False) -> Due | None:
        """What to commit when the program has ended. `clean`: it was not killed, so its files are as it wants them.

        Otherwise what is not whole and new is left out. If it is in the place of what is committed, nothing is: the
        rest may belong to it. `joins`: as in `due`.
        """
        if not (changed := self._changed()) and not joins:
            return None
        torn = self.torn(changed)
        if clean or not torn:
            return Due(self._files, frozenset(), torn)
        return self._without(torn, changed, torn, frozenset())

    def _changed(self) -> frozenset[str]:
        """The paths at which there is not what is committed."""
        there = {path: file.signature for path, file in self._files.items()}
        return frozenset(p for p in there.keys() | self._committed.keys() if there.get(p) != self._committed.get(p))

    def torn(self, changed: Collection[str]) -> dict[str, str]:
        """Of what has changed: path of a file or a folder -> why it is not whole."""
        there = [path for path in changed if path in self._files]
        found = {
            path: why
            for path, why in unfinished(self._files, self._text, self.elsewhere).items()
            if any(is_in(one, path) for one in there)
        }
        for path in there:
            if self._whole(self._files[path]) is False:
                found.setdefault(path, "is not whole, as its format says")
        return found

    def _last_change(self, path: str) -> float:
        inside = (at for one, at in self._changed_at.items() if is_in(one, path))
        return max(inside, default=-float("inf"))

    def _is_sure(self, path: str) -> bool:
        file = self._files[path]
        return file.link is not None or file.size < LARGE or self._whole(file) is True

    def _whole(self, file: File) -> bool | None:
        signature, known = self._formats.get(file.path, (None, None))
        if signature != file.signature:
            try:
                known = None if file.link is not None else whole(self._root / file.path, file.size)
            except OSError:
                known = None  # it is gone, or cannot be read: the next look tells
            self._formats[file.path] = file.signature, known
        return known

    def _text(self, path: str) -> str | None:
        file = self._files.get(path)
        if file is None or file.link is not None or file.size > TEXT_BYTES:
            return None
        try:
            return (self._root / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
