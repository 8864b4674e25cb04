"""What the trainer's tests share: a store in memory that misbehaves on demand, identities, pod environments."""

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.trainer.pod_settings import pod_variables

from holdfast_protocol.settings import Every
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.environment import Environment, Identity
from holdfast_train.errors import CheckpointCorruptError, KeyMissingError, StorageUnreachableError
from holdfast_train.format.assembly import merge_entries
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.program import versions
from holdfast_train.format.tree import TensorEntry, Tree, Walk
from holdfast_train.pod.init_container import copy_launcher
from holdfast_train.restore.lazy_tensors import materialise, outline
from holdfast_train.save.arena import Arena
from holdfast_train.save.capture import Capture
from holdfast_train.save.channel import Channel, ClosedError
from holdfast_train.save.in_flight_lock import InFlightLock
from holdfast_train.save.job import ArrivingBytes, Job
from holdfast_train.save.messages import Save
from holdfast_train.save.plan import make_plan
from holdfast_train.save.upload import Upload
from holdfast_train.save.writer import Writer
from holdfast_train.save.writer_process import WriterProcess
from holdfast_train.storage.base import Entry
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.rate_limit import RateLimit

REPOSITORY = Path(__file__).resolve().parents[3]
_FOLDER = tempfile.TemporaryDirectory(prefix="holdfast-launcher-")
LAUNCHER = copy_launcher(_FOLDER.name)  # as the init container does


def identity(attempt: int = 1, *, uid: str = "uid-1", pod: str | None = None, job: str = "job") -> Identity:
    """One writer of the job `ns/job`."""
    return Identity("ns", job, uid, attempt, pod or f"pod-{uid}-{attempt}")


def variables(uri: str | None, attempt: int = 1, /, **more: Any) -> dict[str, str]:
    """The environment variables of a pod. `more`: see pod_variables."""
    found = {
        "HOLDFAST_NAMESPACE": "ns",
        "HOLDFAST_JOB": "job",
        "HOLDFAST_JOB_UID": "uid-1",
        "HOLDFAST_ATTEMPT": str(attempt),
        "HOLDFAST_POD_UID": f"pod-{attempt}",
    }
    own = {"every": Every(1_000_000), "grace": 20, "checkpoint_uri": uri}
    return pod_variables(found, **(own | more))


def environment(uri: str | None, attempt: int = 1, /, **more: Any) -> Environment:
    """The same, read."""
    found = Environment.read(variables(uri, attempt, **more))
    assert found is not None
    return found


class MemoryStorage:
    """A Storage in a dict. `before` is called with the method's name and the key, and may raise or change things."""

    def __init__(self, uri: str = "memory://store") -> None:
        self.uri = uri
        self.content: dict[str, bytes] = {}
        self.modified_at: dict[str, datetime] = {}
        self.before: Callable[[str, str], None] = lambda method, key: None
        self.lose_answers = 0
        self.atomic = True
        self._lock = threading.Lock()

    def put_if_absent(self, key: str, body: bytes) -> bool:
        self.before("put_if_absent", key)
        with self._lock:
            if key in self.content and self.atomic:
                return False
            self.content[key] = bytes(body)
            if self.lose_answers:
                self.lose_answers -= 1
                raise StorageUnreachableError("the answer was lost")
            return True

    def put(self, key: str, body: bytes | bytearray | memoryview) -> None:
        self.before("put", key)
        self.content[key] = bytes(body)

    def write(self, key: str, data: memoryview, *, sums: Sequence[str] = (), rate: RateLimit | None = None) -> None:
        self.before("write", key)
        self.content[key] = bytes(data)

    def read_into(self, key: str, start: int, *views: memoryview, version: str = "") -> None:
        self.before("read_into", key)
        if key not in self.content:
            raise KeyMissingError(key)
        for view in views:
            found = self.content[key][start : start + len(view)]
            if len(found) < len(view):
                raise CheckpointCorruptError(f"{key} has {len(self.content[key])} bytes")
            view[:] = found
            start += len(view)

    def copy_from(self, uri: str, key: str) -> bool:
        self.before("copy_from", key)
        return False

    def get(self, key: str) -> bytes:
        self.before("get", key)
        if key not in self.content:
            raise KeyMissingError(key)
        return self.content[key]

    def size(self, key: str) -> int | None:
        self.before("size", key)
        return len(self.content[key]) if key in self.content else None

    def keys(self, prefix: str, after: str = "") -> list[str]:
        self.before("keys", prefix)
        return sorted(key for key in self.content if key.startswith(prefix) and key > after)

    def entries(self, prefix: str) -> list[Entry]:
        """Keys that `modified_at` does not name were changed just now."""
        self.before("entries", prefix)
        return [
            Entry(key, len(self.content[key]), self.modified_at.get(key, datetime.now(UTC)))
            for key in sorted(self.content)
            if key.startswith(prefix)
        ]

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.before("delete", key)
            self.content.pop(key, None)

    def drop_unfinished(self, prefix: str, before: datetime) -> int:
        self.before("drop_unfinished", prefix)
        return 0


def stub_command(*options: str) -> list[str]:
    """The torch-free trainer under the launcher, as a pod runs it."""
    return [sys.executable, str(LAUNCHER), "--", sys.executable, "-m", "holdfast_train.examples.stub", *options]


def writer_in_thread(lock: InFlightLock) -> WriterProcess:
    """A writer in this process instead of one of its own: quick to start, and what tests break is broken for it too."""
    ours, theirs = (Channel(end) for end in socket.socketpair())
    its = InFlightLock(os.dup(lock.descriptor))

    def serve() -> None:
        try:
            opened, _ = theirs.receive()
            Writer(theirs, opened, its).serve()
        except ClosedError:  # the run ended before it began
            return
        finally:
            theirs.close()
            its.close()

    thread = threading.Thread(target=serve, name="writer", daemon=True)
    thread.start()
    return WriterProcess(ours, thread.join)  # a thread cannot be killed, but its end is certain all the same


def packed(value: Any) -> tuple[Tree, tuple[TensorEntry, ...], memoryview]:
    """A value as a checkpoint holds it: its tree, its tensors, and their bytes."""
    walk = Walk()
    tree = walk.tree(value, "state")
    made = make_plan(walk.leaves, len(walk.leaves), 0, 1)
    arena = Arena(made.size)
    told: list[int | str] = []
    Capture(arena, made, walk.leaves, guarded=frozenset(), on_copied=told.append, on_failed=told.append).wait()
    assert told == [made.size]
    return tree, (*made.common, *merge_entries([(made.own_tensors, made.share)])), arena.view


def unpacked(tree: Tree, tensors: Sequence[TensorEntry], data: memoryview) -> Any:
    """The value that was `packed`."""
    storage = MemoryStorage()
    storage.content["data"] = bytes(data)
    part = Part("data", len(data), CHUNK_BYTES, chunk_sums(data))
    found = Manifest(CheckpointName(1, 1, "0"), 1, 1, "u", "t", {}, {}, {}, (part,), tuple(tensors), tree, ())
    return materialise(storage, found, outline(tree, found))


def save(checkpoints: Checkpoints, step: int, state: Any, ranks: Sequence[Any]) -> None:
    """Write and commit one checkpoint, here and now, as `ranks` writers would, and delete what it makes superfluous."""
    save_each(checkpoints, step, [state] * len(ranks), ranks)
    checkpoints.sweep()


def save_each(checkpoints: Checkpoints, step: int, states: Sequence[Any], ranks: Sequence[Any]) -> None:
    """As `save`, with what each rank takes for the state that all have alike."""
    storage = checkpoints._storage
    name = CheckpointName.new(step, checkpoints.identity.attempt)
    for rank in reversed(range(len(ranks))):
        walk, state = Walk(), states[rank]
        tree: Tree = {
            "$dict": [[key, walk.tree(value, "" if key == "objects" else key)] for key, value in state.items()]
        }
        alike = len(walk.leaves)
        own = walk.tree(ranks[rank], f"@{rank}")
        made = make_plan(walk.leaves, alike, rank, len(ranks))
        arena = Arena(made.size)
        source = ArrivingBytes(arena.view[: made.size])
        Capture(
            arena, made, walk.leaves, guarded=frozenset(), on_copied=source.mark_ready, on_failed=source.abandon
        ).wait()
        order = Save(name, step, 0, made, tree, own, versions(), {}, {}, time.monotonic(), 0.0, 0.0)
        Upload(checkpoints, storage, rank, len(ranks)).run(Job(order, made, source))
