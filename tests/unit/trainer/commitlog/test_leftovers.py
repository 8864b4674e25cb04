"""What failed saves have left: it goes as soon as no commit can name it, and before the next save needs the room."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support.trainer import stores
from tests.support.trainer.attempts import attempt, save
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import StorageDeniedError, StorageError, StorageFullError, StorageUnreachableError
from holdfast_train.format import manifest
from holdfast_train.format.names import CheckpointName
from holdfast_train.save.job import ArrivingBytes, Job
from holdfast_train.save.messages import Save
from holdfast_train.save.plan import make_plan
from holdfast_train.save.upload import Upload
from holdfast_train.storage.folder import FolderStorage


class Volume(MemoryStorage):
    """A store with room for `free` bytes under data/."""

    def __init__(self, free: int) -> None:
        super().__init__()
        self.size_of_all = free
        self._one_write = threading.Lock()

    @property
    def free(self) -> int:
        return self.size_of_all - sum(len(body) for key, body in self.content.items() if key.startswith("data/"))

    def write(self, key: str, data: memoryview, **more: object) -> None:
        with self._one_write:
            if len(data) > self.free:
                raise StorageFullError("no space left on device")
            super().write(key, data)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint has several parts: a full volume holds some of them."""
    monkeypatch.setattr(manifest, "PART_BYTES", 4096)


def raising(method: str, error: StorageError, folder: str = "") -> Callable[[str, str], None]:
    def before(called: str, key: str) -> None:
        if called == method and key.startswith(folder):
            raise error

    return before


def try_to_save(checkpoints: Checkpoints, step: int) -> None:
    """A save that fails, and the sweep after it."""
    with pytest.raises(StorageError):
        save(checkpoints, step)
    checkpoints.sweep()


def test_a_volume_that_was_full_for_a_moment_is_usable_again() -> None:
    """Breaks if the parts of failed saves take the room that the next save needs."""
    volume = Volume(40_000)
    first = attempt(volume, identity(1), Keep(last=1))
    save(first, 10)
    before = volume.free
    volume.content["data/of-somebody-else"] = bytes(before - 5000)
    for step in (20, 30, 40):
        try_to_save(first, step)
        assert volume.free == 5000
    del volume.content["data/of-somebody-else"]
    save(first, 50)
    assert volume.free == before
    restored = restore_whole(attempt(volume, identity(2)))
    assert restored is not None
    assert restored.step == 50


def test_the_next_attempt_deletes_before_it_saves() -> None:
    """Breaks if what an attempt left when its node died takes the room of every later save."""
    volume = Volume(40_000)
    save(attempt(volume, identity(1)), 10)
    name = CheckpointName(20, 1, "aa")
    volume.content[f"{name.part_key(0, 0)}"] = bytes(volume.free)
    second = attempt(volume, identity(2), Keep(last=1))
    save(second, 20)
    assert not volume.keys(name.data_prefix)


def test_a_prefix_without_leftovers_gets_no_record_for_them() -> None:
    storage = MemoryStorage()
    for number in (1, 2, 3):
        save(attempt(storage, identity(number)), 10 * number)
    assert len(storage.keys("log/")) == 7  # an owner, and a fence and a commit of each


def test_data_whose_commit_may_still_come_stays_until_a_record_shows_that_it_has_not() -> None:
    """Breaks if the bytes of a commit whose answer was lost are deleted."""
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    save(first, 10)
    storage.before = raising("put_if_absent", StorageUnreachableError("no answer"))
    try_to_save(first, 20)
    storage.before = lambda method, key: None
    assert storage.keys(f"data/{20:012d}")
    events: list[str] = []
    storage.before = lambda method, key: events.append(f"{method} {key[:17]}")
    save(first, 30)
    assert not storage.keys(f"data/{20:012d}")
    assert events.index("delete data/000000000020") < events.index("write data/000000000030")


def test_data_whose_commit_has_come_unnoticed_stays() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    save(first, 10)
    storage.lose_answers = 1
    try_to_save(first, 20)
    save(first, 30)
    assert [commit.step for commit in first.log.state.commits] == [10, 20, 30]
    assert storage.keys(f"data/{20:012d}")


@pytest.mark.parametrize("has_come", [True, False])
def test_what_a_dead_writer_of_this_attempt_was_saving(has_come: bool) -> None:
    """Breaks if a writer that is killed again and again fills the volume, or if its last commit loses its bytes."""
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    save(first, 10, 20)
    name = first.log.state.commits[-1].name if has_come else CheckpointName(20, 1, "aa")
    storage.content.setdefault(name.part_key(0, 0), b"part of a checkpoint")
    second = Checkpoints(storage, identity(1), Keep(last=3))
    second.use_fence(first.log.fence)
    second.discard(name, by_dead_writer=True)
    second.sweep()
    assert storage.keys(name.data_prefix)
    save(second, 30)
    assert bool(storage.keys(name.data_prefix)) is has_come


def test_parts_that_other_ranks_write_late_go_with_the_next_save() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    storage.before = raising("write", StorageFullError("no space"))
    try_to_save(first, 10)
    storage.before = lambda method, key: None
    (name,) = first._dropped
    for _ in range(2):
        storage.content[name.part_key(1, 0)] = b"late"
        storage.before = raising("put", StorageFullError("no space"), "manifests/")
        try_to_save(first, 20)
        storage.before = lambda method, key: None
        assert not storage.keys("data/")


def test_a_pod_that_has_to_leave_saves_before_it_deletes() -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10)
    left = CheckpointName(20, 1, "aa").part_key(0, 0)
    storage.content[left] = b"left"
    second = attempt(storage, identity(2))
    second.prepare(stop=lambda: True)
    assert left in storage.content
    assert len(storage.keys("log/")) == 4


def test_a_storage_that_is_down_for_long_gets_one_line() -> None:
    storage, said = MemoryStorage(), list[str]()
    first = Checkpoints(storage, identity(1), Keep(), said.append)
    first.start("Auto")
    storage.before = raising("delete", StorageDeniedError("no delete"))
    for step in (10, 20, 30):
        first.discard(CheckpointName(step, 1, "aa"))
        storage.content[CheckpointName(step, 1, "aa").part_key(0, 0)] = b"x"
        first.sweep()
    assert len(said) == 1
    storage.before = lambda method, key: None
    first.sweep()
    assert storage.keys("data/") == []


def test_a_rank_that_fails_deletes_its_own_parts() -> None:
    """Breaks if a full volume stays full until rank 0 gets the fragment of the failed save, which needs room itself."""
    volume = Volume(6000)
    checkpoints = attempt(volume, identity(1))
    name = CheckpointName(10, 1, "aa")
    volume.content[name.part_key(0, 0)] = b"of rank 0"
    walk = stores.Walk()
    tree = walk.tree({"x": np.zeros(4096, np.uint8)}, "")
    own = walk.tree({"y": np.zeros(4096, np.uint8)}, "@1")
    plan = make_plan(walk.leaves, 1, 1, 2)
    source = ArrivingBytes(memoryview(bytearray(plan.size)))
    source.mark_ready(plan.size)
    order = Save(name, 10, 0, plan, tree, own, {}, {}, {}, 0.0, 0.0, 0.0)
    with pytest.raises(StorageFullError):
        Upload(checkpoints, volume, 1, 2).run(Job(order, plan, source))  # type: ignore[arg-type]
    assert volume.keys("data/") == [name.part_key(0, 0), name.fragment_key(1)]


def test_nothing_is_left_in_a_folder(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "prefix")
    first = attempt(storage, identity(1))
    name = CheckpointName(10, 1, "aa")
    unfinished = tmp_path / "prefix" / name.data_prefix / ".writing-aa"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"half a part")
    first.discard(name)
    first.sweep()
    assert not unfinished.parent.exists()
    first.discard(CheckpointName(20, 1, "aa"))
    first.sweep()  # nothing was written at all
