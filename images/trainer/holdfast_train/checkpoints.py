"""Checkpoints: commit, resume, retention. The order of writes is the design: data, manifest, then the log."""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast_train import log, manifest, sweep
from holdfast_train.commits import CommitLog, now
from holdfast_train.environment import Identity
from holdfast_train.errors import (
    CheckpointCorruptError,
    KeyMissingError,
    NoCheckpointError,
    StorageError,
)
from holdfast_train.manifest import Manifest, Part, manifest_key
from holdfast_train.messages import Saved
from holdfast_train.program import Program
from holdfast_train.state import unpack
from holdfast_train.storage import Storage, join_uri

__all__ = ["Checkpoints", "Restored", "load", "resolve"]

THREADS: Final = 4  # ranges that are read at once,
RANGE_BYTES: Final = 64 << 20  # and how long they are: a request costs a millisecond of CPU


@dataclass(frozen=True)
class Restored:
    """What to resume from. `state` and `ranks` are as they were saved; `note` says what was passed over, if any.

    `program` is what the checkpoint says of the program that made it.
    """

    step: int
    uri: str
    note: str
    state: Any
    ranks: tuple[Any, ...]
    program: Program


class Checkpoints:
    """Checkpoints of one job in one storage. `say` gets one line for people where something is worth a line."""

    def __init__(
        self, storage: Storage, identity: Identity, keep: log.Keep, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._storage = storage
        self.identity = identity
        self._keep = keep
        self._say = say
        self._corrupt: set[int] = set()
        self._dropped: frozenset[str] = frozenset()
        self._ages: dict[str, float] = {}
        self._list_at = 0.0
        self.log = CommitLog(storage, identity)

    def start(self, resume: str) -> None:
        """Own the prefix and raise the fence. After this no older attempt can commit any more."""
        self.log.own(resume)
        self.log.raise_fence()

    def restore(self) -> Restored | None:
        """The newest checkpoint that holds, None if there is none at all.

        NoCheckpointError if there are some and none holds: starting from nothing is a person's decision.
        """
        passed: list[str] = []
        commits = self.log.state.commits
        for commit in reversed(commits):
            try:
                data = self._storage.get(manifest_key(commit.name))
                if hashlib.sha256(data).hexdigest() != commit.sha256:
                    raise CheckpointCorruptError("the manifest is not the one that was committed")  # noqa: TRY301
                restored = load(self._storage, data, commit.name)
            except (CheckpointCorruptError, KeyMissingError) as error:
                passed.append(f"checkpoint of step {commit.step} does not hold ({error})")
                self._say(f"the {passed[-1]}; trying the one before it")
                self._corrupt.add(commit.seq)
                continue
            note = f"the {passed[0]}; resumed from the one of step {restored.step}" if passed else ""
            return Restored(restored.step, restored.uri, note, restored.state, restored.ranks, restored.program)
        if commits:
            raise NoCheckpointError(
                f"none of the {len(commits)} checkpoints in {self._storage.uri} holds: {passed[0]}; "
                f"create the job anew with checkpoint.resume: Never to start from nothing, or with a good one's address"
            )
        return None

    def go_on(self, fence: log.Fence | None, corrupt: Iterable[int]) -> None:
        """Commit under the fence that another process of this attempt has raised, knowing what it found `corrupt`."""
        self.log.fence = fence
        self._corrupt.update(corrupt)

    @property
    def corrupt(self) -> frozenset[int]:
        """Numbers of the commits that `restore` found broken."""
        return frozenset(self._corrupt)

    def prepare(self) -> None:
        """Before any data of a checkpoint is written: see what there is. See `sweep` for why it is listed now."""
        if self.log.state.seq == 0:
            self.log.refresh()  # another process of this attempt has written the log so far
        if time.monotonic() >= self._list_at:
            self._ages = self._list()
            self._list_at = time.monotonic() + sweep.ORPHAN_SECONDS

    def discard(self, name: str) -> None:
        """The checkpoint `name` of this attempt is given up: what is there of it goes after the next commit."""
        self._dropped |= {name}

    def publish(self, written: Manifest, begun: float) -> Saved:
        """Commit a checkpoint whose data is in the storage; `begun` is when it was, in seconds of time.monotonic().

        FencedError if a newer attempt has started. Other StorageErrors leave the log as it was; what was written until
        then is swept later.
        """
        data = manifest.encode(written)
        self._storage.put(manifest_key(written.name), data)
        self._verify(written, len(data))
        commit = log.Commit(
            seq=0,
            step=written.step,
            attempt=self.identity.attempt,
            at=now(),
            name=written.name,
            sha256=hashlib.sha256(data).hexdigest(),
            size=written.size,
        )
        before, dropped = self.log.state.commits, self._dropped
        record = self.log.commit(log.with_metric(commit, written.metrics, self._keep), self._keep, self.corrupt)
        seconds = time.monotonic() - begun
        dropped |= frozenset(c.name for c in before if c.seq in record.retired)
        self._sweep(dropped)
        uri = join_uri(self._storage.uri, manifest_key(written.name))
        return Saved(written.step, uri, written.size, seconds, commit.at)

    def hand_over(self) -> None:
        """Append the record that lets a successor go on: nothing is committed after it."""
        self.log.refresh()  # the writer has appended commits that this process has not read
        self.log.hand_over()

    def complete(self, step: int) -> None:
        """Append the record that ends the training."""
        self.log.refresh()
        self.log.complete(step)

    def _verify(self, written: Manifest, manifest_bytes: int) -> None:
        wanted = {part.key: part.size for part in written.parts}
        wanted[manifest_key(written.name)] = manifest_bytes
        for key, size in wanted.items():
            found = self._storage.size(key)
            if found != size:
                raise CheckpointCorruptError(f"{key} has {found} bytes after it was written, not {size}")

    def _list(self) -> dict[str, float]:
        """Every name under data/ and manifests/, with the seconds since something was last written there."""
        ages: dict[str, float] = {}
        at = datetime.now(UTC)
        for entry in (*self._storage.entries("data/"), *self._storage.entries("manifests/")):
            name = entry.key.split("/")[1].removesuffix(".json")
            age = (at - entry.modified_at).total_seconds()
            ages[name] = min(age, ages.get(name, age))
        return ages

    def _sweep(self, dropped: frozenset[str]) -> None:
        """After a commit: delete what nobody needs."""
        assert self.log.fence is not None
        listed, limit = self._ages, sweep.ORPHAN_SECONDS
        ages = listed | dict.fromkeys(dropped, 0.0)
        self._ages, self._dropped = {}, frozenset()
        self._delete(sweep.orphans(ages, self.log.state, self.log.fence, dropped=dropped, limit=limit))
        if listed:  # once an hour
            try:
                self._storage.drop_unfinished("data/", datetime.now(UTC) - timedelta(seconds=max(limit, 0.0)))
            except StorageError as error:
                self._say(f"unfinished uploads could not be dropped: {error}")

    def _delete(self, names: frozenset[str]) -> None:
        for number, name in enumerate(ordered := sorted(names)):
            try:
                self._storage.delete([manifest_key(name)])
                self._storage.delete(self._storage.keys(f"data/{name}/"))
            except StorageError as error:
                self._say(f"an old checkpoint could not be deleted: {error}; tried again with the next save")
                self._dropped |= frozenset(ordered[number:])
                return


def load(storage: Storage, data: bytes, name: str) -> Restored:
    """The checkpoint with the manifest `data`, all checked. CheckpointCorruptError, KeyMissingError if not whole."""
    try:
        found = manifest.decode(data)
    except CheckpointCorruptError as error:
        raise CheckpointCorruptError(f"{manifest_key(name)}: {error}") from error
    content = memoryview(bytearray(found.size))
    read(storage, found.parts, content)
    tensors = {entry.name: entry for entry in found.tensors}
    return Restored(
        step=found.step,
        uri=join_uri(storage.uri, manifest_key(name)),
        note="",
        state=unpack(found.state, tensors, content),
        ranks=tuple(unpack(tree, tensors, content) for tree in found.ranks),
        program=Program(found.versions, found.program),
    )


def read(storage: Storage, parts: Sequence[Part], into: memoryview) -> None:
    """Read `parts`, one behind the other, straight into memory, and check each chunk. Errors: see `load`."""

    def fetch(part: Part, first: int, view: memoryview) -> None:
        storage.read_into(part.key, first * part.chunk, view)
        manifest.check_chunks(part, first, view)

    with ThreadPoolExecutor(THREADS, "holdfast-get") as pool:
        pending, at = [], 0
        for part in parts:
            chunks = max(1, RANGE_BYTES // part.chunk)
            for first in range(0, len(part.crc64nvme), chunks):
                start, stop = first * part.chunk, min((first + chunks) * part.chunk, part.size)
                pending.append(pool.submit(fetch, part, first, into[at + start : at + stop]))
            at += part.size
        try:
            for future in pending:
                future.result()
        except StorageError:
            pool.shutdown(cancel_futures=True)
            raise


def resolve(uri: str) -> tuple[str, str | None]:
    """The prefix and the checkpoint's name in `uri`: that of a manifest, or that of a whole prefix (then None)."""
    prefix, separator, rest = uri.rpartition("/manifests/")
    return (prefix, rest.removesuffix(".json")) if separator else (uri, None)
