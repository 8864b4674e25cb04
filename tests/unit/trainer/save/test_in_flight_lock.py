"""The lock that is taken while a checkpoint is in flight."""

import fcntl
import os
from pathlib import Path

import pytest

from holdfast_train.save.in_flight_lock import InFlightLock


def is_taken(file: Path) -> bool:
    """As the launcher asks, by another open file."""
    descriptor = os.open(file, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_the_writer_releases_it_after_the_last_checkpoint(tmp_path: Path) -> None:
    trainer = InFlightLock.new(str(tmp_path))
    writer = InFlightLock(os.dup(trainer.descriptor))
    (file,) = tmp_path.iterdir()
    assert not is_taken(file)
    trainer.take()
    writer.take()
    writer.take()
    writer.release()
    trainer.close()
    assert is_taken(file)
    writer.release()
    assert not is_taken(file)
    writer.close()


def test_without_a_launcher_there_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lock = InFlightLock.new(None)
    lock.take()
    lock.release()
    lock.close()
    assert list(tmp_path.iterdir()) == []
