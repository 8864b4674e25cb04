"""Saving and resuming on a store in memory that misbehaves."""

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.trainer import stores
from tests.support.trainer.attempts import attempt, save
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import orphans
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import (
    CheckpointCorruptError,
    FencedError,
    StateError,
    StorageDeniedError,
)
from holdfast_train.format import manifest
from holdfast_train.format.names import CheckpointName, resolve
from holdfast_train.format.tree import Leaf, Walk
from holdfast_train.storage.folder import FolderStorage

WRITES = ("put", "put_if_absent", "write")


def test_newest_is_resumed() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    assert restore_whole(first) is None
    save(first, 10, 20)
    restored = restore_whole(attempt(storage, identity(2)))
    assert restored is not None
    assert (restored.step, restored.note, restored.ranks) == (20, "", ({"rng": 20},))
    assert restored.state["objects"]["x"].tolist() == [20] * 1000
    assert resolve(restored.uri)[0] == storage.uri


def test_order_of_writes() -> None:
    """The log record comes last: a crash at any point leaves the checkpoint before whole."""
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    writes: list[str] = []
    storage.before = lambda method, key: writes.append(key.split("/")[0]) if method in WRITES else None
    save(first, 10)
    assert writes == ["data", "manifests", "log"]


@pytest.mark.parametrize("number", range(3))
def test_crash_after_each_write(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "ORPHAN_SECONDS", -1.0)
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    save(first, 10)
    writes = 0

    def crash(method: str, key: str) -> None:
        nonlocal writes
        if method in WRITES:
            if writes == number:
                raise KeyboardInterrupt
            writes += 1

    storage.before = crash
    with pytest.raises(KeyboardInterrupt):
        save(first, 20)
    storage.before = lambda method, key: None
    second = attempt(storage, identity(2))
    restored = restore_whole(second)
    assert restored is not None
    assert restored.step == 10
    save(second, 30)
    # What the dead attempt left is swept once there is something newer that holds.
    assert {key.split("/")[1][:12] for key in storage.keys("data/")} == {f"{10:012d}", f"{30:012d}"}


@pytest.mark.parametrize("folder", ["data/000000000001-a1-aa", "manifests", "log"])
def test_what_a_killed_writer_was_just_writing_goes(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder a key is written under another name first: SIGKILL leaves that name, of any key."""
    monkeypatch.setattr(orphans, "ORPHAN_SECONDS", 3600.0)
    storage = FolderStorage(tmp_path / "prefix")
    save(attempt(storage, identity(1)), 10)
    old, young = (tmp_path / "prefix" / folder / f".writing-{name}" for name in ("old", "young"))
    for file in (old, young):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    save(attempt(storage, identity(2)), 20)
    assert (old.exists(), young.exists()) == (False, True)


def test_retention_deletes_after_the_commit() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1), Keep(last=2))
    save(first, 10, 20, 30, 40)
    for folder in ("data/", "manifests/"):
        assert [key.split("/")[1][:12] for key in storage.keys(folder)] == [f"{30:012d}", f"{40:012d}"]
    assert len(storage.keys("log/")) == 6  # the log itself only grows


def test_a_failed_deletion_does_not_fail_the_save() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1), Keep(last=1))
    save(first, 10)

    def refuse(method: str, key: str) -> None:
        if method == "delete":
            raise StorageDeniedError("no delete")

    storage.before = refuse
    save(first, 20)
    storage.before = lambda method, key: None
    save(first, 30)
    assert len(storage.keys("manifests/")) == 1


def test_a_sweep_that_was_stopped_continues_the_next_time() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1), Keep(last=1))
    for step in (10, 20):
        stores.save_each(first, step, [{"objects": {"n": np.ones(10)}}], [{}])
    first.sweep(stop=lambda: True)
    assert len(storage.keys("manifests/")) == 2
    first.sweep(stop=iter([False, True]).__next__)  # after the manifest
    assert [len(storage.keys(folder)) for folder in ("manifests/", "data/")] == [1, 2]
    first.sweep()
    assert [len(storage.keys(folder)) for folder in ("manifests/", "data/")] == [1, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"a": np.ones(1000), "ema": np.ones(10)},
        {"b": np.ones(1000)},
        {"a": np.ones((10, 100))},
        {"a": np.ones(1000, np.float32)},
        {},
    ],
)
def test_ranks_whose_state_differs_in_form_are_refused(other: dict[str, Any]) -> None:
    """Breaks if each rank cuts its share out of its own idea of the whole: all sums hold, and the bytes are others."""
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    states = [{"objects": {"a": np.ones(1000)}}, {"objects": other}]
    with pytest.raises(StateError, match=r"rank 1 has other tensors than rank 0.*per_rank"):
        stores.save_each(first, 10, states, [{}, {}])
    assert not first.log.state.commits
    stores.save_each(first, 11, [states[0]] * 2, [{"own": np.ones(3)}, {}])
    assert [commit.step for commit in first.log.state.commits] == [11]


@pytest.mark.parametrize(("name", "length", "refused"), [("b", 4, True), ("a", 4, False), ("b", 0, False)])
def test_a_rank_with_shards_that_rank_0_does_not_name_is_refused(
    name: str, length: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if the shards of another stage of a pipeline are saved under names that lead nowhere. Where a rank has
    none of a tensor it cannot see which names are tied, so one more of them is no error."""
    shards = {0: ("a", 4), 1: (name, length)}

    def sharded(walk: Walk, tensor: Any, path: str) -> str:
        rank = int(tensor[0])
        called, size = shards[rank]
        value = np.full(size, rank, np.uint8)
        walk.leaves.append(Leaf(called, "numpy", "|u1", (8,), size, value, ((4 * rank,), (size,))))
        return called

    monkeypatch.setattr(Walk, "_array", lambda *args: {"$tensor": sharded(*args)})
    first = attempt(MemoryStorage(), identity(1))
    states = [{"objects": {"m": np.array([rank])}} for rank in (0, 1)]
    with pytest.raises(StateError, match="'b', which rank 0 does not have") if refused else contextlib.nullcontext():
        stores.save_each(first, 10, states, [{}, {}])
    assert len(first.log.state.commits) == (0 if refused else 1)


def test_zombie_saves_and_sweeps_nothing() -> None:
    storage = MemoryStorage()
    zombie = attempt(storage, identity(1))
    save(zombie, 10)
    successor = attempt(storage, identity(2))
    save(successor, 11)
    kept = dict(storage.content)
    with pytest.raises(FencedError):
        save(zombie, 20)
    assert kept.items() <= storage.content.items()


def test_sweep_spares_a_successor_that_is_just_writing() -> None:
    """The successor raises its fence and uploads between the zombie's data and the zombie's commit."""
    storage = MemoryStorage()
    zombie = attempt(storage, identity(5))
    late: list[Checkpoints] = []

    def intrude(method: str, key: str) -> None:
        if method == "put_if_absent" and key.startswith("log/") and not late:
            late.append(Checkpoints(storage, identity(1, uid="uid-2"), Keep()))
            late[0].start("Auto")
            storage.content["data/000000000001-a1-new/r0.0"] = b"in flight"

    storage.before = intrude
    with pytest.raises(FencedError):
        save(zombie, 10)
    assert "data/000000000001-a1-new/r0.0" in storage.content


def test_takeover_never_sets_aside_and_spares() -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(4)), 10)
    again = attempt(storage, identity(1, uid="uid-2"), Keep(last=1), resume="Never")
    assert restore_whole(again) is None
    save(again, 1, 2)
    assert len(storage.keys("manifests/000000000010")) == 1
    later = restore_whole(attempt(storage, identity(2, uid="uid-2"), resume="Never"))
    assert later is not None
    assert later.step == 2  # Never is about the job's beginning, not about each of its attempts


def test_damage_on_the_way_is_found_before_the_commit() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1))

    def shorten(method: str, key: str) -> None:
        if method == "entries" and CheckpointName.of_key(key) is not None:
            for name in [name for name in storage.content if name.startswith(key)]:
                storage.content[name] = storage.content[name][:-1]

    storage.before = shorten
    with pytest.raises(CheckpointCorruptError):
        save(first, 10)
    assert first.log.state.commits == ()


def test_large_state_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PART_BYTES", 1024)
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    save(first, 10)
    assert len(storage.keys("data/")) == 8
    restored = restore_whole(attempt(storage, identity(2)))
    assert restored is not None
    assert restored.state["objects"]["x"].tolist() == [10] * 1000
    assert dataclasses.asdict(restored)["note"] == ""
