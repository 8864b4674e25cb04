"""What must hold for the checkpoints of one prefix, after any process was killed at any moment."""

import hashlib
from dataclasses import dataclass

from tests.support.trainer.restores import read_whole
from tests.torture.state import differences, expected

from holdfast_train.commitlog import records
from holdfast_train.commitlog.checkpoints import found_in
from holdfast_train.errors import KeyMissingError, StorageError
from holdfast_train.format import manifest, names
from holdfast_train.format.names import CheckpointName, resolve
from holdfast_train.storage.base import Storage


class BrokenError(Exception):
    """Something that must hold does not. The text says what."""


@dataclass(frozen=True)
class _Checked:
    """A commit whose every bit was compared once: the sizes of its objects."""

    sizes: dict[str, int]


class Chain:
    """The log of a prefix, read record by record, and the checkpoints that it names."""

    def __init__(self, storage: Storage, seed: str) -> None:
        self.storage = storage
        self.state = records.LogState()
        self.committed: set[CheckpointName] = set()
        self.compared = 0
        self._seed = seed
        self._bytes: list[bytes] = []
        self._newest: list[CheckpointName | None] = [None]  # name of the newest commit after the record of that number
        self._checked: dict[CheckpointName, _Checked] = {}

    def read(self) -> None:
        """Read what is new in the log: the state in each record is that of all records, and only the fenced commit."""
        while True:
            seq = self.state.seq + 1
            try:
                data = self.storage.get(names.log_key(seq))
            except KeyMissingError:
                return
            record, after = records.decode(data, seq)
            before, self.state = self.state, records.apply(self.state, record)
            if self.state != after:
                raise BrokenError(f"the state in log record {seq} is not the one of all records up to it")
            if record.commit is not None:
                if before.fence is None or record.identity.attempt != before.fence.attempt or before.handed_over:
                    raise BrokenError(
                        f"log record {seq} is a commit of attempt {record.identity.attempt}, without fence"
                    )
                self.committed.add(record.commit.name)
            if record.corrupt:
                raise BrokenError(f"log record {seq} puts checkpoint {record.corrupt[0]} into quarantine")
            self._bytes.append(data)
            self._newest.append(self.state.commits[-1].name if self.state.commits else None)

    def check_acknowledged(self, uri: str) -> None:
        """A trainer was told that the checkpoint `uri` is committed."""
        if resolve(uri)[1] not in self.committed:
            raise BrokenError(f"{uri} was acknowledged and is not in the log: a commit is lost")

    def check_restored(self, uri: str | None, note: str, fence: int) -> None:
        """A trainer has resumed from `uri` with the fence number `fence`: it must be what was newest then."""
        newest = self._newest[fence]
        found = None if uri is None else resolve(uri)[1]
        if note or found != newest:
            raise BrokenError(f"the newest checkpoint was {newest}; resumed from {found} {note}")

    def check_live(self, *, again: bool = False) -> None:
        """Every commit that the log names can be restored, and is what it should be.

        One that has been compared is only looked for, unless `again`. Others may commit meanwhile: one that they retire
        may go.
        """
        for commit in self.state.commits:
            try:
                known = self._checked.get(commit.name)
                if known is None or again:
                    self._checked[commit.name] = self._compare(commit)
                else:
                    self._look_for(known)
            except StorageError as error:
                self.read()
                if commit.name in {c.name for c in self.state.commits}:
                    raise BrokenError(
                        f"commit {commit.seq} (step {commit.step}) cannot be restored: {error}"
                    ) from error

    def check_end(self) -> None:
        """After a run that has completed with nobody else alive: the log is as it was, and nothing is left over."""
        self.read()
        self.check_live(again=True)
        for seq, data in enumerate(self._bytes, 1):
            if self.storage.get(names.log_key(seq)) != data:
                raise BrokenError(f"log record {seq} has changed")
        if self.state.complete is None:
            raise BrokenError("the log does not say that training is complete")
        needed = {key for checked in self._checked.values() for key in checked.sizes}
        live = self.state.names_in_use
        for key in (*self.storage.keys("data/"), *self.storage.keys("manifests/")):
            if key not in needed or CheckpointName.of_key(key) not in live:
                raise BrokenError(f"{key} is an orphan, and was not swept")

    def _compare(self, commit: records.Commit) -> _Checked:
        data = self.storage.get(commit.name.manifest_key)
        if hashlib.sha256(data).hexdigest() != commit.sha256:
            raise BrokenError(f"the manifest of commit {commit.seq} is another one")
        found = read_whole(self.storage, found_in(str(commit.name), data))
        wanted = expected(self._seed, commit.step)
        wrong = differences({"objects": found.state["objects"], "own": found.ranks[0]}, wanted)
        if wrong or found.step != commit.step:
            raise BrokenError(f"commit {commit.seq} (step {commit.step}) is not that step: {'; '.join(wrong[:3])}")
        self.compared += 1
        parts = manifest.decode(data).parts
        return _Checked({part.key: part.size for part in parts} | {commit.name.manifest_key: len(data)})

    def _look_for(self, known: _Checked) -> None:
        for key, size in known.sizes.items():
            if (found := self.storage.size(key)) != size:
                raise StorageError(f"{key} has {found} bytes, not {size}")
