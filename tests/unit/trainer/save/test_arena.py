"""Shared memory between a trainer and its writer."""

import os
from pathlib import Path

import pytest

from holdfast_train.errors import StateError
from holdfast_train.format.names import CheckpointName
from holdfast_train.keeper_memory import KeeperMemory
from holdfast_train.pod.launcher.keeper import Keeper
from holdfast_train.save import arena as module
from holdfast_train.save.arena import Arena, Arenas, Loan


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


def lent(arenas: Arenas, writer: object, step: int) -> Loan:
    """The loan of an arena of 100 bytes."""

    def make(number: int, size: int) -> Arena:
        arenas.by_number[number] = arena = Arena(size)
        return arena

    name = CheckpointName(step, 1, "0f")
    loan = arenas.loans[arenas.take(100, make)] = Loan(name, name, step, writer)
    return loan


def test_an_arena_belongs_to_a_save_until_its_writer_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if two parties own an arena: a save would have the bytes of another step."""
    monkeypatch.setattr(module, "fits", lambda size: True)
    arenas, writer, other = Arenas(), object(), object()
    assert (arenas.has_free, arenas.is_busy) == (True, False)
    one, two = lent(arenas, writer, 1), lent(arenas, writer, 2)
    assert (arenas.has_free, arenas.is_busy, sorted(arenas.loans)) == (False, True, [0, 1])
    arenas.free(one.name, other)
    arenas.mark(one.name, other, "kept")
    assert [loan.state for loan in arenas.of(writer)] == ["uploading", "uploading"]
    for loan in (one, two):
        arenas.mark(loan.name, writer, "kept")
    assert (arenas.has_free, arenas.is_busy) == (False, False)
    assert arenas.names("kept") == [one.name, two.name]
    arenas.mark(two.name, writer, "retrying")
    assert (arenas.is_busy, arenas.names("kept")) == (True, [one.name])
    arenas.free(one.name, writer)
    assert lent(arenas, other, 3) is arenas.loans[0]
    arenas.free_all(writer)
    assert list(arenas.loans) == [0]
    arenas.close()
    assert arenas.by_number == {}


def test_a_second_arena_needs_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fits", lambda size: size < 100)
    arenas = Arenas()
    lent(arenas, object(), 1)
    assert not arenas.has_free
    arenas.close()


# Breaks if two attempts have their arenas at the same time, or if a program has them after its training.
def test_the_launcher_keeps_the_newest_arenas_of_a_rank(tmp_path: Path) -> None:
    keeper, kept = Keeper(str(tmp_path / "keeper")), KeeperMemory(str(tmp_path / "keeper"))

    def sizes() -> dict[int, list[int]]:
        found = {}
        for rank, files in kept.list().files.items():
            found[rank] = [os.fstat(file).st_size for file in files]
            for file in files:
                os.close(file)
        return found

    first, other = Arenas(1, kept, 3), Arenas(1, kept, 30)
    for number, size in ((0, 1 << 20), (1, 2 << 20), (0, 3 << 20)):
        first.make(number, size)
    other.make(0, 1 << 16)
    first.close()  # its process ends
    assert sizes() == {3: [3 << 20, 2 << 20], 30: [1 << 16]}
    Arenas(1, kept, 3)  # the next attempt has restored
    assert sizes() == {30: [1 << 16]}
    other.close(is_complete=True)
    assert sizes() == {}
    keeper.close()
