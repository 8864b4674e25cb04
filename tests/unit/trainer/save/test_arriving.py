"""Bytes that are uploaded while later ones are still being copied."""

import threading

import pytest

from holdfast_train.errors import StorageError
from holdfast_train.save.arriving import ArrivingBytes


def test_a_wait_ends_when_the_bytes_are_copied() -> None:
    arriving = ArrivingBytes(memoryview(bytes(10)))
    waiting = threading.Thread(target=arriving.wait_for, args=(6,), daemon=True)
    waiting.start()
    arriving.mark_ready(5)
    waiting.join(0.1)
    assert waiting.is_alive()
    arriving.mark_ready(6)
    waiting.join(30)
    assert not waiting.is_alive()


def test_the_end_of_the_trainer_matters_only_before_the_copy_is_complete() -> None:
    complete, cut_off = ArrivingBytes(memoryview(bytes(10))), ArrivingBytes(memoryview(bytes(10)))
    complete.mark_ready(10)
    cut_off.mark_ready(9)
    for arriving in (complete, cut_off):
        arriving.mark_trainer_ended()
    complete.wait_for(10)
    with pytest.raises(StorageError, match="given up: the training process ended before its state was copied"):
        cut_off.wait_for(9)
