"""A writer that fails, crashes or is late does no harm to training or to later saves."""

import contextlib
import gc
import math
import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.trainer.runs import Training
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.errors import StateError, StorageFullError, WriterLostError
from holdfast_train.format.names import CheckpointName
from holdfast_train.save.arena import Arena, Arenas
from holdfast_train.save.capture import Capture
from holdfast_train.save.messages import Finished
from holdfast_train.save.training_state import TrainingState, no_garbage_collection
from holdfast_train.save.upload import Upload
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.rate_limit import RateLimit
from holdfast_train.storage.retrying import RetryingStorage


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    found = Training(tmp_path)
    yield found
    found.saver.close()


class Gate:
    """Delays the copy of what an optimizer guards until `open` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        original = Arena.copy_from

        def copy_from(arena: Arena, offset: int, address: int, size: int) -> None:
            if threading.current_thread().name == "holdfast-capture":
                self.reached.set()
                assert self.open.wait(30)
            original(arena, offset, address, size)

        monkeypatch.setattr(Arena, "copy_from", copy_from)


def full(*_: Any, **__: Any) -> None:
    raise StorageFullError("no space")


def test_the_writer_starts_after_the_first_step(training: Training) -> None:
    """Breaks if the start of a process delays the first step of each attempt, or if the first save waits for it."""
    assert training.saver._writer is None
    training.saver.prepare()
    assert training.saver._writer is not None
    training.saver.prepare(free=0)
    assert isinstance(training.save(1), Saved)


def test_an_upload_that_fails_before_its_state_is_copied(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a message about the copy of a failed checkpoint ends the writer."""
    gate = Gate(monkeypatch)
    with monkeypatch.context() as broken:
        broken.setattr(Checkpoints, "prepare", full)
        training.begin(1)
        assert gate.reached.wait(30)
        assert training.saver.wait(lambda: 30)
        assert isinstance(training.results[-1], StorageFullError)
    gate.open.set()
    assert isinstance(training.save(2), Saved)
    assert len(training.results) == 2


def test_an_arena_is_not_used_again_while_a_capture_still_copies_into_it(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if an arena is free when its upload has failed: two states would be mixed, with correct checksums."""
    gate = Gate(monkeypatch)
    with monkeypatch.context() as broken:
        broken.setattr(Checkpoints, "prepare", full)
        training.begin(1)
        assert training.saver.wait(lambda: 30)
    second = threading.Thread(target=training.begin, args=(2,))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    gate.open.set()
    second.join(30)
    assert training.saver.wait(lambda: 30)
    assert isinstance(training.results[-1], Saved)


def test_a_writer_that_crashes_is_replaced(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if an unexpected error leaves a writer that receives messages and answers none."""
    unhandled: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    with monkeypatch.context() as broken:
        broken.setattr(Upload, "_draft", lambda *_: 1 / 0)
        assert isinstance(training.save(1), WriterLostError)
    assert isinstance(training.save(2), Saved)
    assert [one.exc_type for one in unhandled] == [ZeroDivisionError]


def test_the_upload_is_not_limited_while_training_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the last save of a pod that has to leave is limited to `uploadRate`."""
    paused = threading.Event()
    original = RateLimit._until_lifted

    def until_lifted(rate: RateLimit, seconds: float) -> None:
        paused.set()
        original(rate, seconds)

    monkeypatch.setattr(RateLimit, "_until_lifted", until_lifted)
    training = Training(tmp_path, upload_rate=1)  # a byte a second
    training.model.register_buffer("much", torch.zeros(4 << 20, dtype=torch.uint8))
    with contextlib.closing(training.saver):
        for step in (1, 2):  # the limit applies again after the first one
            paused.clear()
            training.begin(step)
            assert paused.wait(30)
            assert len(training.results) == step - 1
            assert training.saver.wait(lambda: math.inf)
            assert isinstance(training.results[-1], Saved)


def test_a_writer_that_dies_while_a_save_is_prepared_leaves_no_arena_behind(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if an arena is reserved without a writer: it would be busy for ever, and a wait for it would hang."""
    original = Arenas.take

    def late(arenas: Arenas, *which: Any) -> int:
        number = original(arenas, *which)
        training.saver._writer = None  # as `_forget_writer` does
        return number

    assert isinstance(training.save(1), Saved)
    with monkeypatch.context() as broken:
        broken.setattr(Arenas, "take", late)
        with pytest.raises(WriterLostError, match="before it received step 2"):
            training.begin(2)
    assert not training.saver.is_busy
    assert isinstance(training.save(3), Saved)


def test_an_error_in_the_receiving_thread_of_a_writer_ends_it(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if it goes on without receiving: the trainer would block as soon as the socket is full."""
    unhandled: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    gate = Gate(monkeypatch)
    with monkeypatch.context() as broken:
        broken.setattr(RateLimit, "limit", property(lambda _: None, lambda *_: 1 / 0))
        training.begin(1)
        assert training.saver.wait(lambda: 30)
    gate.open.set()
    assert isinstance(training.results[-1], WriterLostError)
    assert isinstance(training.save(2), Saved)
    assert [one.exc_type for one in unhandled] == [ZeroDivisionError]


def test_an_arena_is_busy_until_its_writer_has_ended(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if an arena is free once the channel is closed: the writer may still upload it, and commit what it read.

    That commit would have the bytes of a later step, with correct checksums.
    """
    unhandled: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    reached, may_write, write = threading.Event(), threading.Event(), FolderStorage.write

    def write_late(*args: Any, **more: Any) -> None:
        reached.set()
        assert may_write.wait(30)
        write(*args, **more)

    with monkeypatch.context() as broken:
        broken.setattr(FolderStorage, "write", write_late)
        training.begin(1)
        assert reached.wait(30)
        broken.setattr(RateLimit, "limit", property(lambda _: None, lambda *_: 1 / 0))
        training.begin(2)  # the receiving thread of the writer fails, while its other thread uploads step 1
        wait_for(lambda: training.saver._is_losing_writer, 30, "the trainer to notice")
        assert training.saver.is_busy
        assert not training.saver.can_begin
        assert not training.saver.wait(lambda: 0.0)
        assert training.results == []
        may_write.set()
        assert training.saver.wait(lambda: 30)
    assert isinstance(training.results[-1], WriterLostError)
    assert isinstance(training.save(3), Saved)
    assert [one.exc_type for one in unhandled] == [ZeroDivisionError]


def test_an_arena_is_freed_only_by_the_save_that_has_it(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a message about an earlier save, or of another writer, frees the arena of a save in flight."""
    gate = Gate(monkeypatch)
    training.begin(1)
    assert gate.reached.wait(30)
    (upload,) = training.saver._arenas.loans.values()
    writer = training.saver._writer
    assert writer is upload.writer is not None
    training.saver._handle(writer, Finished(CheckpointName(1, 1, "ffffffffffff"), None))
    training.saver._handle(replace(writer), Finished(upload.name, None))
    assert training.saver.is_busy
    gate.open.set()
    assert training.saver.wait(lambda: 30)


def test_a_copy_that_cannot_begin_gives_its_arena_back(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the writer waits for ever for bytes that will not come."""
    with monkeypatch.context() as broken:
        broken.setattr(Capture, "_begin", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            training.begin(1)
        assert training.saver.wait(lambda: 30)
    assert "the copy of the state could not begin: ZeroDivisionError" in str(training.results[-1])
    assert isinstance(training.save(2), Saved)


def test_any_error_of_a_copy_gives_its_arena_back(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    unhandled: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    with monkeypatch.context() as broken:
        broken.setattr(Capture, "_copy_rest", lambda *_: 1 / 0)
        training.begin(1)
        assert training.saver.wait(lambda: 30)
    assert "the state could not be copied: ZeroDivisionError" in str(training.results[-1])
    assert isinstance(training.save(2), Saved)
    assert [one.exc_type for one in unhandled] == [ZeroDivisionError]  # a bug is seen: `begin` waited for the thread


def no_thread(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As in a container that is at its limit of processes."""
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)


@pytest.mark.parametrize("name", ["holdfast-capture", "holdfast-arena"])
def test_a_save_without_a_thread_for_its_copy(training: Training, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Breaks if a container at its limit of processes ends a training that could go on."""
    no_thread(monkeypatch, name)
    training.saver.prepare()
    assert isinstance(training.save(1), Saved)


def test_a_writer_whose_answers_cannot_be_received_is_lost(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(training.save(1), Saved)
    assert training.saver._writer is not None
    training.saver._writer.channel.finish()
    wait_for(lambda: training.saver._writer is None, 30, "the writer to end")
    with monkeypatch.context() as broken:
        no_thread(broken, "holdfast-saver")
        with pytest.raises(WriterLostError, match="cannot be heard"):
            training.begin(2)
    assert not training.saver.is_busy
    assert isinstance(training.save(3), Saved)


def test_only_the_training_process_saves(training: Training) -> None:
    """Breaks if a process that the program has forked copies its own state into the arenas that it shares."""
    training.saver._process += 1
    with pytest.raises(StateError, match="was forked from the training process"):
        training.begin(1)
    training.saver._process -= 1


@pytest.mark.parametrize("enabled", [True, False])
def test_a_save_does_not_wait_for_garbage_collection(training: Training, enabled: bool) -> None:
    """Breaks if a state of 100,000 tensors stops training for seconds: each new object may start a collection."""
    collections: list[str] = []

    def count(phase: str, _: object) -> None:
        if threading.current_thread() is threading.main_thread():
            collections.append(phase)

    before, was_enabled = gc.get_threshold(), gc.isenabled()
    gc.callbacks.append(count)
    try:
        gc.set_threshold(1)
        (gc.enable if enabled else gc.disable)()
        with no_garbage_collection():
            collections.clear()
            training.saver._state.walk(0)
            assert collections == []
        training.begin(1)
        assert gc.isenabled() is enabled
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*before)
        (gc.enable if was_enabled else gc.disable)()
    assert training.saver.wait(lambda: 30)


def test_the_state_is_read_without_garbage_collection(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    walk = TrainingState.walk

    def watched(state: TrainingState, *which: Any) -> Any:
        seen.append(gc.isenabled())
        return walk(state, *which)

    monkeypatch.setattr(TrainingState, "walk", watched)
    training.saver.prepare()
    training.save(1)
    assert seen == [False, False]
    assert gc.isenabled()


def test_a_commit_is_reported_before_old_checkpoints_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a last save is committed in time but reported too late: there may be thousands of objects to delete."""
    may_delete, original = threading.Event(), FolderStorage.delete

    def delete(storage: FolderStorage, keys: Iterable[str]) -> None:
        assert may_delete.wait(30)
        original(storage, keys)

    monkeypatch.setattr(FolderStorage, "delete", delete)
    training = Training(tmp_path, keep=Keep(1))
    for step in (1, 2):
        assert isinstance(training.save(step), Saved)
    manifests = tmp_path / "prefix" / "manifests"
    assert len(list(manifests.iterdir())) == 2
    may_delete.set()
    training.saver.close()
    wait_for(lambda: len(list(manifests.iterdir())) == 1, 30, "the first checkpoint to be deleted")


def test_a_pod_that_has_to_leave_does_not_wait_for_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if the grace is spent on deletes, which the next attempt does anyway."""
    shortened, shorten_deadline, publish = threading.Event(), RetryingStorage.shorten_deadline, Checkpoints.publish

    def shorten_and_tell(storage: RetryingStorage, seconds: float) -> None:
        shorten_deadline(storage, seconds)
        shortened.set()

    def publish_late(*args: Any, **more: Any) -> Saved:
        assert shortened.wait(30)
        return publish(*args, **more)

    monkeypatch.setattr(RetryingStorage, "shorten_deadline", shorten_and_tell)
    before = set(threading.enumerate())
    training = Training(tmp_path, keep=Keep(1))
    assert isinstance(training.save(1), Saved)
    shortened.clear()
    monkeypatch.setattr(Checkpoints, "publish", publish_late)
    training.begin(2)
    assert training.saver.wait(lambda: 30.0)
    assert isinstance(training.results[-1], Saved)
    training.saver.close()
    wait_for(lambda: set(threading.enumerate()) <= before, 30, "the writer to end")
    assert len(list((tmp_path / "prefix" / "manifests").iterdir())) == 2


def test_close_frees_the_memory(tmp_path: Path) -> None:
    """Breaks if a Run keeps a copy of the state until its process ends."""
    training = Training(tmp_path)
    training.save(1)
    arena = weakref.ref(training.saver._arenas.by_number[0])
    descriptor = training.saver._arenas.by_number[0].descriptor
    training.saver.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert arena() is None


def test_a_saver_is_freed_while_its_writer_uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if an upload keeps the model in memory, and its process group: the other ranks would see no end of it."""
    release, upload, others = threading.Event(), Upload.run, set(threading.enumerate())
    monkeypatch.setattr(Upload, "run", lambda self, job: release.wait(60) and upload(self, job))
    training = Training(tmp_path)
    training.begin(1)
    saver, model = weakref.ref(training.saver), weakref.ref(training.model)
    training.saver.close()
    del training
    gc.collect()
    assert (saver(), model()) == (None, None)
    release.set()
    for thread in set(threading.enumerate()) - others:
        if thread.name == "holdfast-saver":
            thread.join(60)
            assert not thread.is_alive()
