"""Broken checkpoints: which checkpoint a starting attempt reads next, and what it records in the log.

A broken checkpoint is read once more, because a store may have answered wrongly. If it is broken again, the attempt
appends a record at once, before it reads anything else. If the attempt dies a moment later, the next one does not read
the same gigabytes again. A checkpoint in quarantine is read again only if no other one is intact, and it stays in
quarantine: an attempt reads the state that it needs, not all bytes. A person takes it out with `holdfast checkpoints
verify --take-back`.
"""

from collections.abc import Callable
from typing import Final

from holdfast_train.commitlog import records
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.errors import CheckpointCorruptError, KeyMissingError, StorageError

BROKEN: Final = (CheckpointCorruptError, KeyMissingError)  # errors that mean that a checkpoint is broken


class Quarantine:
    """The order in which one attempt reads checkpoints.

    It appends records only if the attempt has raised its fence; in another job's prefix it only reads. FencedError if a
    newer attempt has started since, StorageError if a record cannot be written.
    """

    def __init__(self, log: CommitLog, say: Callable[[str], None]) -> None:
        self._log = log
        self._say = say
        self._doubted: set[int] = set()  # found broken once, by number of the commit
        self._broken: set[int] = set()  # found broken twice
        self.passed_over: list[str] = []  # descriptions for people, newest first

    def next_commit(self) -> records.Commit | None:
        """The newest commit that may be intact, then those in quarantine. None if all were found broken."""
        left = [c for c in reversed(self._log.state.commits) if c.seq not in self._broken]
        return next((c for c in left if not c.corrupt), None) or next(iter(left), None)

    def report_broken(self, commit: records.Commit, error: StorageError) -> None:
        """Report that `commit` was read and is broken. The second report passes it over."""
        what = f"checkpoint {_of_step(commit)} is broken ({error})"
        if commit.seq not in self._doubted:
            self._doubted.add(commit.seq)
            self._say(f"the {what}; reading it once more")
            return
        self._say(f"the {what}; trying another one")
        self.passed_over.append(what)
        self._broken.add(commit.seq)
        if not commit.corrupt and self._log.fence is not None:
            self._log.quarantine((commit.seq,))

    def accept(self, commit: records.Commit) -> str:
        """Take `commit`, which is intact. Return which newer ones were passed over, for people; empty if none."""
        if commit.corrupt:
            self._say(note := f"the checkpoint {_of_step(commit)} is in quarantine but intact; no other one is")
            return note
        newer = [c for c in self._log.state.commits if c.seq > commit.seq and c.seq not in self._broken]
        passed = [*self.passed_over, *(f"checkpoint {_of_step(c)} is in quarantine" for c in reversed(newer))]
        return f"the {passed[0]}; resumed from the one {_of_step(commit)}" if passed else ""


def _of_step(commit: records.Commit) -> str:
    """`of step 10`; the name if the program's own name of the checkpoint says no step."""
    return f"of step {commit.step}" if commit.step else f"named {commit.name}"
