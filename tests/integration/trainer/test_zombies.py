"""An old attempt that comes back at every point of its successor's life: it commits nothing and damages nothing.

Both attempts are real, on a real storage. The old one stops before one of its storage operations and goes on when the
new one is before one of its own: every pair of such points is tried. And once with processes, stopped and woken.
"""

import contextlib
import itertools
import os
import random
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pytest
from tests.support.http.s3_server import S3Server
from tests.support.trainer import stores
from tests.support.trainer.pods import Pod
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import environment, identity, stub_command, variables
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Every, Keep
from holdfast_train.commitlog import orphans
from holdfast_train.commitlog import records as log
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import AlreadyCompleteError, FencedError, StorageError
from holdfast_train.storage.base import Storage
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.opening import open_retrying

KEEP: Final = Keep(last=3)
FIRST, OLD, LATE, NEW = (
    (4, 5),
    (10,),
    20,
    (11, 12),
)  # steps of: the first attempt, the old one, the old one as a zombie, the new one
SECONDS: Final = 30.0


class Stopping:
    """A storage that calls `then` before its operation number `at`, counted from 0."""

    def __init__(self, storage: Storage, at: int | None, then: Callable[[], None]) -> None:
        self.uri = storage.uri
        self.operations = 0
        self._storage, self._at, self._then = storage, at, then

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)

        def counted(*args: Any, **more: Any) -> Any:
            number, self.operations = self.operations, self.operations + 1
            if number == self._at:
                self._then()
            return found(*args, **more)

        return counted


def state(step: int) -> dict[str, Any]:
    return {"objects": {"x": np.full(100, step)}}


def save(checkpoints: Checkpoints, step: int) -> None:
    stores.save(checkpoints, step, state(step), [{"rng": step}])


def last_save(old: Checkpoints) -> None:
    save(old, LATE)


def hand_over(old: Checkpoints) -> None:
    old.hand_over()


def complete(old: Checkpoints) -> None:
    old.complete(LATE)


ACTS: Final = (last_save, hand_over, complete)


@dataclass
class Zombie:
    """An attempt with some commits, in a thread. It does `act` and is stopped before its operation number `at`."""

    storage: Storage
    act: Callable[[Checkpoints], None]
    at: int | None
    error: Exception | None = None
    operations: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _go: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Return when the attempt is stopped or done."""
        first = Checkpoints(self.storage, identity(1), KEEP)
        first.start("Auto")
        for step in FIRST:
            save(first, step)
        old = Checkpoints(self.storage, identity(2), KEEP)
        old.start("Auto")
        for step in OLD:
            save(old, step)
        self.storage.write("data/000000000006-a1-0f/r0.0", memoryview(b"an orphan"))
        watched = Stopping(self.storage, self.at, self._stop)
        old._storage = old.log._storage = watched  # type: ignore[assignment]
        old._list_at = 0.0  # the next save lists the storage again, and sweeps

        def live() -> None:
            try:
                try:
                    self.act(old)
                except StorageError:  # the new attempt has swept its data: the next try finds the fence
                    self.act(old)
            except (FencedError, AlreadyCompleteError) as error:
                self.error = error
            finally:
                self.operations = watched.operations
                self._stopped.set()

        self._thread = threading.Thread(target=live, daemon=True)
        self._thread.start()
        assert self._stopped.wait(SECONDS)

    def _stop(self) -> None:
        self._stopped.set()
        assert self._go.wait(SECONDS)

    def finish(self) -> None:
        """Let the attempt go on, and return when it is done."""
        assert self._thread is not None
        self._go.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def succeed(storage: Storage, zombie: Zombie, at: int | None) -> int:
    """Run a new attempt, in which the zombie goes on before operation number `at`. The number of its operations."""

    def meet() -> None:
        zombie.finish()
        whole(storage)

    watched = Stopping(storage, at, meet)
    new = Checkpoints(watched, identity(3), KEEP)  # type: ignore[arg-type]
    try:
        new.start("Auto")
    except AlreadyCompleteError:  # the old attempt completed before the new one began
        assert (zombie.act, zombie.error) == (complete, None)
        return watched.operations
    restored = restore_whole(new)
    assert restored is not None
    assert restored.note == ""
    assert restored.step == new.log.state.commits[-1].step
    for step in NEW:
        save(new, step)
    new.complete(NEW[-1])
    return watched.operations


def whole(storage: Storage) -> log.LogState:
    """The state of the log, after every commit in it was restored and compared."""
    records = [log.decode(storage.get(key), seq)[0] for seq, key in enumerate(storage.keys("log/"), 1)]
    found = log.replay(records)
    reader = Checkpoints(storage, identity(4), KEEP)
    for commit in found.commits:
        reader.log.state = log.LogState(commits=(commit,))
        restored = restore_whole(reader)
        assert restored is not None
        assert restored.state["objects"]["x"].tobytes() == state(commit.step)["objects"]["x"].tobytes()
        assert restored.ranks == ({"rng": commit.step},)
    return found


def check(storage: Storage, zombie: Zombie) -> None:
    """Every commit of the log can be restored, and the old attempt appended nothing after the new fence."""
    after = whole(storage)
    records = [log.decode(storage.get(key), seq)[0] for seq, key in enumerate(storage.keys("log/"), 1)]
    assert after.fence is not None
    # A quarantine of no commits changes nothing: it shows that what was found before it is not needed.
    kinds = [record.kind for record in records if record.identity.attempt == 2 and record.kind != "quarantine"]
    late = kinds[1 + len(OLD) :]
    assert (zombie.error is None) == (late != []), late
    if after.fence.attempt == 2:
        assert (zombie.act, late) == (complete, ["complete"])
        return
    fence = [(record.kind, record.identity.attempt) for record in records].index(("fence", 3))
    assert {record.identity.attempt for record in records[fence:]} == {3}
    steps = [*FIRST, *OLD, *([LATE] if zombie.act is last_save and late else []), *NEW]
    assert [commit.step for commit in after.commits] == steps[-KEEP.last :]


def run(
    storage: Storage, act: Callable[[Checkpoints], None], old_at: int | None, new_at: int | None
) -> tuple[int, int]:
    """One history. The numbers of operations of the old and of the new attempt."""
    zombie = Zombie(storage, act, old_at)
    zombie.begin()
    operations = succeed(storage, zombie, new_at)
    zombie.finish()  # unless it has finished already
    check(storage, zombie)
    return zombie.operations, operations


def points(storage: Callable[[], Storage], act: Callable[[Checkpoints], None]) -> Sequence[tuple[int, int]]:
    """Every pair of an operation of the old attempt and one of the new. At 0, 0 the two run one after the other."""
    old, _ = run(storage(), act, None, None)
    _, new = run(storage(), act, 0, None)
    assert old > (10 if act is last_save else 1)
    assert new > 20
    return list(itertools.product(range(old), range(new + 1)))


@pytest.fixture
def swept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orphans of any age are deleted: the clock must not be what protects data. No fsync: no machine crashes here."""
    monkeypatch.setattr(orphans, "ORPHAN_SECONDS", -1.0)
    monkeypatch.setattr(os, "fsync", lambda _: None)


# A last save has some hundred points: `make test` tries a part of them, the same in each run.
@pytest.mark.usefixtures("swept_at_once")
@pytest.mark.parametrize(
    ("act", "most"),
    [(last_save, 60), pytest.param(last_save, None, marks=pytest.mark.thorough), (hand_over, None), (complete, None)],
)
def test_a_zombie_at_every_point_of_its_successors_life(
    tmp_path: Path, act: Callable[[Checkpoints], None], most: int | None
) -> None:
    """Breaks if it can commit, hand over or complete after the new fence, or deletes data that the log names."""

    def storage() -> FolderStorage:
        return FolderStorage(tmp_path / uuid.uuid4().hex)

    tried = points(storage, act)
    for old_at, new_at in random.Random(3).sample(tried, most or len(tried)):
        with explained(f"stopped before its operation {old_at}, goes on before operation {new_at} of the new one"):
            run(storage(), act, old_at, new_at)


@pytest.mark.usefixtures("swept_at_once")
@pytest.mark.thorough
@pytest.mark.parametrize("act", ACTS)
def test_a_zombie_on_an_s3_server(s3: S3Server, act: Callable[[Checkpoints], None]) -> None:
    """The same as above, at some of the points."""

    def storage() -> Storage:
        uri = f"s3://{s3.bucket}/zombies/{uuid.uuid4().hex}"
        return open_retrying(environment(uri, **s3.variables), uri)

    for old_at, new_at in random.Random(3).sample(points(storage, act), 12):
        with explained(f"stopped before its operation {old_at}, goes on before operation {new_at} of the new one"):
            run(storage(), act, old_at, new_at)


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        error.add_note(what)
        raise


# Processes


@pytest.fixture
def frozen() -> Iterator[list[psutil.Process]]:
    """Processes that a test stops. They go on at its end in any case."""
    stopped: list[psutil.Process] = []
    yield stopped
    for process in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


@pytest.mark.parametrize("place", ["folder", "s3"])
def test_a_pod_that_is_stopped_and_woken_ends_fenced(
    tmp_path: Path, s3: S3Server, place: str, frozen: list[psutil.Process]
) -> None:
    """Launcher, trainer and writer are stopped at any point. The trainer and its pod report that they were fenced, and
    the commits of the successor stay intact."""
    prefix = f"file://{tmp_path}/prefix" if place == "folder" else f"s3://{s3.bucket}/zombies/{uuid.uuid4().hex}"
    more = {"every": Every(2), "keep": Keep(3)} | s3.variables
    command = stub_command("--steps=100000", "--step-seconds=0.01")
    old = Pod(tmp_path, command, **variables(prefix, 1, **more))
    wait_for(lambda: old.output.count("saved step ") > KEEP.last, 60, "commits, and one that is swept")
    frozen += [psutil.Process(old.process.pid), *psutil.Process(old.process.pid).children(recursive=True)]
    assert any("holdfast_train.save.writer" in process.cmdline() for process in frozen)
    for process in frozen:
        process.suspend()
    new = Pod(tmp_path, command, **variables(prefix, 2, **more))
    wait_for(lambda: new.output.count("saved step ") > KEEP.last, 60, "commits of the successor")
    for process in frozen:
        process.resume()
    verdict = old.end()
    assert (verdict["outcome"], verdict["reason"], old.process.returncode) == ("fenced", "Fenced", 76), old.output
    new.terminate()
    saved = new.end()
    assert saved["reason"] == "SavedAndLeft", new.output
    storage = open_retrying(environment(prefix, 3, **s3.variables), prefix)
    records = [log.decode(storage.get(key), seq)[0] for seq, key in enumerate(storage.keys("log/"), 1)]
    fence = [(record.kind, record.identity.attempt) for record in records].index(("fence", 2))
    assert {record.identity.attempt for record in records[fence:]} == {2}
    reader = Checkpoints(storage, identity(3), KEEP)
    reader.log.refresh()
    restored = restore_whole(reader)
    assert restored is not None
    assert (restored.step, restored.note) == (saved["savedStep"], "")
    total = restored.state["objects"]["counter"]["total"]
    assert total == restored.step * (restored.step + 1) // 2
