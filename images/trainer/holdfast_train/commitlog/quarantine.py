"""Broken checkpoints: which one a starting attempt reads next, and what it writes into the log of what it has found.

A checkpoint that does not hold is read once more, for a store may have answered wrongly. If it does not hold then
either, a record says so at once, before anything else is read: an attempt that is lost a moment later leaves the
knowledge behind, and no later one reads the same gigabytes to find the same. What is in quarantine is read again only
where nothing else holds. It stays there: an attempt reads what it needs, not all. A person takes it back, with
`holdfast checkpoints verify --take-back`.
"""

from collections.abc import Callable
from typing import Final

from holdfast_train.commitlog import records
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.errors import CheckpointCorruptError, KeyMissingError, StorageError

__all__ = ["BROKEN", "Quarantine"]

BROKEN: Final = (CheckpointCorruptError, KeyMissingError)  # what says that a checkpoint does not hold


class Quarantine:
    """The order in which one attempt reads checkpoints. Commits go by their numbers in `commits`.

    Records are written only where the attempt holds the fence: from another job's prefix it only reads. FencedError if
    a newer attempt has started meanwhile, StorageError if a record cannot be written.
    """

    def __init__(self, commits: CommitLog, say: Callable[[str], None]) -> None:
        self._log = commits
        self._say = say
        self._doubted: set[int] = set()  # found broken once
        self._broken: set[int] = set()  # and once more
        self.passed: list[str] = []  # in words, newest first

    def next(self) -> records.Commit | None:
        """What to read next: the newest that may hold, in the end what was in quarantine before. None: all were."""
        left = [c for c in reversed(self._log.state.commits) if c.seq not in self._broken]
        return next((c for c in left if not c.corrupt), None) or next(iter(left), None)

    def broken(self, commit: records.Commit, error: StorageError) -> None:
        """`commit` was read, and does not hold: for the second time, it is passed over."""
        what = f"checkpoint of step {commit.step} does not hold ({error})"
        if commit.seq not in self._doubted:
            self._doubted.add(commit.seq)
            self._say(f"the {what}; reading it once more")
            return
        self._say(f"the {what}; trying another one")
        self.passed.append(what)
        self._broken.add(commit.seq)
        if not commit.corrupt and self._log.fence is not None:
            self._log.quarantine((commit.seq,))

    def holds(self, commit: records.Commit) -> str:
        """What was read of `commit` holds. What was passed over on the way to it, for people; empty if nothing was."""
        if commit.corrupt:
            self._say(note := f"the checkpoint of step {commit.step} is in quarantine, and holds; no other one does")
            return note
        newer = [c for c in self._log.state.commits if c.seq > commit.seq and c.seq not in self._broken]
        passed = [*self.passed, *(f"checkpoint of step {c.step} is in quarantine" for c in reversed(newer))]
        return f"the {passed[0]}; resumed from the one of step {commit.step}" if passed else ""
