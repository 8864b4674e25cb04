"""Checkpoints: save, commit, resume, retention. The order of writes is the design: data, manifest, then the log."""

import hashlib
import platform
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from holdfast_train import log, manifest
from holdfast_train.commits import CommitLog, now
from holdfast_train.environment import Identity
from holdfast_train.errors import (
    CheckpointCorruptError,
    KeyMissingError,
    NoCheckpointError,
    StorageError,
)
from holdfast_train.manifest import Manifest, Part, manifest_key, part_key
from holdfast_train.state import Packer, segments, unpack
from holdfast_train.storage import Storage, join_uri

__all__ = ["Checkpoints", "Restored", "Saved", "load", "resolve"]

THREADS: Final = 4


@dataclass(frozen=True)
class Saved:
    """A committed checkpoint: `size` in bytes, `seconds` from start to commit."""

    step: int
    uri: str
    size: int
    seconds: float
    committed_at: str


@dataclass(frozen=True)
class Restored:
    """What to resume from. `state` and `ranks` are as they were saved; `note` says what was passed over, if any."""

    step: int
    uri: str
    note: str
    state: Any
    ranks: tuple[Any, ...]


class Checkpoints:
    """Checkpoints of one job in one storage. `say` gets one line for people where something is worth a line."""

    def __init__(
        self, storage: Storage, identity: Identity, keep: log.Keep, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._storage = storage
        self._identity = identity
        self._keep = keep
        self._say = say
        self._corrupt: set[int] = set()
        self._sweep = True
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
            return Restored(restored.step, restored.uri, note, restored.state, restored.ranks)
        if commits:
            raise NoCheckpointError(
                f"none of the {len(commits)} checkpoints in {self._storage.uri} holds: {passed[0]}; "
                f"create the job anew with checkpoint.resume: Never to start from nothing, or with a good one's address"
            )
        return None

    def save(self, step: int, state: Any, ranks: Sequence[Any]) -> Saved:
        """Write a checkpoint and commit it. FencedError if a newer attempt has started.

        Other StorageErrors leave the log as it was; what was written until then is swept later.
        """
        started = time.monotonic()
        name = f"{step:012d}-a{self._identity.attempt}-{uuid.uuid4().hex[:12]}"
        # Listed before the commit and deleted after it: whoever would need these bytes had to raise a fence first, and
        # then the commit between the two would have failed.
        candidates = self._names() if self._sweep else frozenset()
        self._sweep = True
        written = self._write(name, step, state, ranks)
        data = manifest.encode(written)
        self._storage.put(manifest_key(name), data)
        self._verify(written, len(data))
        commit = log.Commit(
            seq=0,
            step=step,
            attempt=self._identity.attempt,
            at=now(),
            name=name,
            sha256=hashlib.sha256(data).hexdigest(),
            size=written.size,
        )
        before = self.log.state.commits
        record = self.log.commit(commit, self._keep, frozenset(self._corrupt))
        self._sweep = False
        seconds = time.monotonic() - started
        retired = frozenset(c.name for c in before if c.seq in record.retired)
        in_use = {c.name for c in self.log.state.commits} | set(self.log.state.set_aside)
        self._delete((candidates | retired) - in_use)
        return Saved(step, join_uri(self._storage.uri, manifest_key(name)), written.size, seconds, commit.at)

    def hand_over(self) -> None:
        """Append the record that lets a successor go on: nothing is committed after it."""
        self.log.hand_over()

    def complete(self, step: int) -> None:
        """Append the record that ends the training."""
        self.log.complete(step)

    def _write(self, name: str, step: int, state: Any, ranks: Sequence[Any]) -> Manifest:
        packer = Packer()
        tree = packer.pack(state)
        trees = tuple(packer.pack(rank, f"ranks/{number}") for number, rank in enumerate(ranks))
        with ThreadPoolExecutor(THREADS, "holdfast-put") as pool:
            pending: list[Any] = []
            parts: list[Part] = []
            for piece in segments(packer.buffers, manifest.PART_BYTES):
                if len(pending) >= THREADS:  # no more pieces in memory than are on their way
                    parts.append(pending.pop(0).result())
                pending.append(pool.submit(self._put_part, part_key(name, 0, len(parts) + len(pending)), piece))
            parts.extend(future.result() for future in pending)
        return Manifest(
            name=name,
            step=step,
            attempt=self._identity.attempt,
            job_uid=self._identity.job_uid,
            at=now(),
            versions=_versions(),
            program={},
            metrics={},
            parts=tuple(parts),
            tensors=tuple(packer.tensors),
            state=tree,
            ranks=trees,
        )

    def _put_part(self, key: str, piece: bytearray) -> Part:
        sums = manifest.chunk_sums(piece)  # before the bytes leave: what is damaged on the way cannot pass
        self._storage.put(key, piece)
        return Part(key, len(piece), manifest.CHUNK_BYTES, sums)

    def _verify(self, written: Manifest, manifest_bytes: int) -> None:
        wanted = {part.key: part.size for part in written.parts}
        wanted[manifest_key(written.name)] = manifest_bytes
        for key, size in wanted.items():
            found = self._storage.size(key)
            if found != size:
                raise CheckpointCorruptError(f"{key} has {found} bytes after it was written, not {size}")

    def _names(self) -> frozenset[str]:
        data = {key.split("/")[1] for key in self._storage.keys("data/")}
        manifests = {key.split("/")[1].removesuffix(".json") for key in self._storage.keys("manifests/")}
        return frozenset(data | manifests)

    def _delete(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            try:
                self._storage.delete([manifest_key(name)])
                self._storage.delete(self._storage.keys(f"data/{name}/"))
            except StorageError as error:  # what stays is swept by a later save
                self._say(f"an old checkpoint could not be deleted: {error}")
                self._sweep = True
                return


def load(storage: Storage, data: bytes, name: str) -> Restored:
    """The checkpoint with the manifest `data`, all checked. CheckpointCorruptError, KeyMissingError if not whole."""
    try:
        found = manifest.decode(data)
    except CheckpointCorruptError as error:
        raise CheckpointCorruptError(f"{manifest_key(name)}: {error}") from error
    content = bytearray(found.size)
    view = memoryview(content)
    starts = [sum(part.size for part in found.parts[:number]) for number in range(len(found.parts))]

    def fetch(part: Part, start: int) -> None:
        piece = storage.get(part.key)
        manifest.check_part(part, piece)
        view[start : start + part.size] = piece

    with ThreadPoolExecutor(THREADS, "holdfast-get") as pool:
        for future in [pool.submit(fetch, part, start) for part, start in zip(found.parts, starts, strict=True)]:
            future.result()
    return Restored(
        step=found.step,
        uri=join_uri(storage.uri, manifest_key(name)),
        note="",
        state=unpack(found.state, found.tensors, view),
        ranks=tuple(unpack(tree, found.tensors, view) for tree in found.ranks),
    )


def resolve(uri: str) -> tuple[str, str | None]:
    """The prefix and the checkpoint's name in `uri`: that of a manifest, or that of a whole prefix (then None)."""
    prefix, separator, rest = uri.rpartition("/manifests/")
    return (prefix, rest.removesuffix(".json")) if separator else (uri, None)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy"):
        if name in sys.modules:
            found[name] = str(getattr(sys.modules[name], "__version__", ""))
    return found
