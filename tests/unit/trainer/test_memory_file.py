"""Files in memory, also on Pythons that lack os.memfd_create."""

import errno
import mmap
import os
from pathlib import Path

import pytest

from holdfast_train import memory_file as tested
from holdfast_train.errors import StateError
from holdfast_train.memory_file import memory_file
from holdfast_train.save.arena import Arena
from holdfast_train.save.in_flight_lock import InFlightLock


@pytest.fixture(params=["with os.memfd_create", "without os.memfd_create"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without os.memfd_create":
        monkeypatch.delattr(os, "memfd_create")
        monkeypatch.delattr(os, "MFD_CLOEXEC")


@pytest.mark.usefixtures("python")
def test_two_mappings_of_one_file_share_its_memory() -> None:
    descriptor = memory_file("a-name")
    try:
        assert "memfd:a-name" in str(Path(f"/proc/self/fd/{descriptor}").readlink())
        assert not os.get_inheritable(descriptor)
        os.ftruncate(descriptor, mmap.PAGESIZE)
        one, other = (mmap.mmap(descriptor, mmap.PAGESIZE) for _ in range(2))
        one[:5] = b"bytes"
        assert other[:5] == b"bytes"
    finally:
        os.close(descriptor)


@pytest.mark.usefixtures("python")
def test_arenas_and_locks_need_nothing_else() -> None:
    arena = Arena(10)
    assert bytes(arena.view[:10]) == bytes(10)
    arena.close()
    InFlightLock.new(None).close()


def test_a_machine_on_which_it_is_not_possible_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tested.platform, "machine", lambda: "vax")
    with pytest.raises(OSError, match="vax is not a known machine"):
        memory_file("a-name")
    with pytest.raises(StateError, match="vax is not a known machine"):
        Arena(10)


def test_an_error_of_the_system_call_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tested.platform, "machine", lambda: "x86_64")
    monkeypatch.setitem(tested._NUMBERS, "x86_64", 1_000_000)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
        memory_file("a-name")
