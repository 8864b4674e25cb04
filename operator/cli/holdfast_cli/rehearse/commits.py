"""`Commits`: what a run has committed, read from its storage while it runs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from holdfast_train.commitlog.checkpoints import find
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.commitlog.records import Commit
from holdfast_train.environment import Identity
from holdfast_train.errors import StorageError
from holdfast_train.folder.index import NotFromFolderError, hash_of, read_index
from holdfast_train.folder.newest import is_in
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage

_READER: Final = Identity("rehearsal", "rehearsal", "reader", 1, "reader")  # it appends nothing


@dataclass(frozen=True, slots=True)
class Made:
    """One commit: its number in the log, the attempt that made it, and its step; None if nothing says it.

    `save`: the path of the newest save in the folder; empty without one, and for a program with `Run`. `is_new`: it
    has a save that the commit before did not have. `uploaded`: bytes that no commit before had. `at`: when it was
    made, as its writer says. `contents`: the hashes of the files that are new since the commit before, of all files;
    empty for a program with `Run`.
    """

    seq: int
    attempt: int
    step: int | None
    save: str
    is_new: bool
    uploaded: int
    at: str = ""
    contents: frozenset[str] = frozenset()


class Commits:
    """Those in the storage of a run. `has_named`: the undisturbed run had saves that are known as such."""

    def __init__(self, storage: Storage, *, has_named: bool = False) -> None:
        self._storage = storage
        self._has_named = has_named
        self._log = CommitLog(self._storage, _READER)
        self._known: list[Made] = []
        self._names: set[CheckpointName] = set()
        self._save: dict[str, str] = {}
        self._contents: frozenset[str] = frozenset()

    def read(self) -> list[Made]:
        """All that were made until now, the oldest first, also those that a later one has taken the place of."""
        with suppress(StorageError):  # another process writes; what is there is read the next time
            self._log.refresh()
            last = self._known[-1].seq if self._known else 0
            for commit in self._log.state.commits:
                if commit.seq > last:
                    self._known.append(self._made(commit))
        return self._known

    def newest(self) -> Commit | None:
        """The newest one, as the log says now. Raises StorageErrors."""
        self._log.refresh()
        commits = self._log.state.commits
        return commits[-1] if commits else None

    def _made(self, commit: Commit) -> Made:
        sizes = {commit.name: commit.own_size, **{use.name: use.size for use in commit.uses}}
        uploaded = sum(size for name, size in sizes.items() if name not in self._names)
        found = find(self._storage, commit.name, commit.seq, commit.sha256)
        try:
            known = read_index(self._storage, found)
        except NotFromFolderError:
            self._names |= sizes.keys()
            return Made(commit.seq, commit.attempt, commit.step, "", is_new=True, uploaded=uploaded, at=commit.at)
        # Without a file that is known as a save, each file may be one.
        files = {path: hash_of("".join(known.content(path)).encode()) for path in known.files}
        save = {path: one for path, one in files.items() if not known.newest or is_in(path, known.newest)}
        is_new = bool(save) and save != self._save and (bool(known.newest) or not self._has_named)
        contents = frozenset(files.values())
        new, self._save, self._contents = contents - self._contents, save, contents
        self._names |= sizes.keys()
        return Made(
            commit.seq,
            commit.attempt,
            known.step,
            known.newest,
            is_new=is_new,
            uploaded=uploaded,
            at=commit.at,
            contents=new,
        )


def new_saves(made: Sequence[Made]) -> Iterator[Made]:
    """The commits that have a new save."""
    return (one for one in made if one.is_new)


def named(made: Sequence[Made]) -> list[Made]:
    """The commits. If a file or folder in them is known as a save, no commit before it has a new one, such as a log."""
    has_named = any(one.save for one in made)
    return [replace(one, is_new=one.is_new and (bool(one.save) or not has_named)) for one in made]


def saves_of(made: Sequence[Made]) -> frozenset[str]:
    """The paths of all saves that were committed."""
    return frozenset(one.save for one in made if one.save)
