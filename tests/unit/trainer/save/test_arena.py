"""Shared memory between a trainer and its writer."""

import os

import pytest

from holdfast_train.errors import StateError
from holdfast_train.save.arena import Arena


def test_a_descriptor_gives_another_process_the_same_memory() -> None:
    one = Arena(10_000)
    other = Arena(10_000, os.dup(one.descriptor))
    one.populate()
    one.view[9_000:9_003] = b"abc"
    assert bytes(other.view[9_000:9_003]) == b"abc"
    other.close_descriptor()
    one.close_descriptor()
    assert bytes(other.view[9_000:9_003]) == b"abc"


def test_memory_that_the_kernel_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("os.ftruncate", refuse)
    with pytest.raises(StateError, match=r"no shared memory for 2.00 GiB of state \(Cannot allocate memory\)"):
        Arena(2 << 30)
