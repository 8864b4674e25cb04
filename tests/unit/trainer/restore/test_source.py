"""Reading the checkpoint at an address while another job trains there."""

import pytest
from tests.support.trainer import stores
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Found
from holdfast_train.errors import CheckpointCorruptError, KeyMissingError, NoCheckpointError, StorageError
from holdfast_train.restore.source import read_newest_intact
from holdfast_train.storage.retrying import RetryingStorage


class Training:
    """A job that keeps its newest checkpoint alone, and has saved step 1."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self._checkpoints = Checkpoints(self.storage, identity(), Keep(last=1))
        self._checkpoints.start("Auto")
        self.save(1)

    def save(self, step: int) -> None:
        stores.save(self._checkpoints, step, {"objects": {"x": b"x"}}, [{}])


def test_what_is_deleted_while_it_is_read_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    """Breaks if a reader of a prefix on which a job trains ends with NoCheckpointError."""
    training = Training()
    asked: list[int] = []

    def read(found: Found) -> int:
        asked.append(found.manifest.step)
        if len(asked) < 3:
            training.save(found.manifest.step + 1)
            raise KeyMissingError(f"data/{found.manifest.name}/r0.0 does not exist")
        return found.manifest.step

    assert read_newest_intact(RetryingStorage(training.storage), None, read)[1] == 3
    assert asked == [1, 2, 3]
    told = capsys.readouterr().err
    assert told.count("the log of memory://store has changed") == 2
    assert "is broken" not in told


def test_a_manifest_that_is_deleted_before_it_is_read_is_not_broken() -> None:
    training = Training()
    saved: list[str] = []

    def before(method: str, key: str) -> None:
        if method == "get" and key.startswith("manifests/") and not saved:
            saved.append(key)
            training.save(2)

    training.storage.before = before
    assert read_newest_intact(RetryingStorage(training.storage), None, lambda found: found.manifest.step)[1] == 2


@pytest.mark.parametrize("error", [KeyMissingError, CheckpointCorruptError])
def test_a_broken_checkpoint_is_read_twice_if_no_training_changes_the_prefix(error: type[StorageError]) -> None:
    """Breaks if a checkpoint that lacks something is read for ever."""
    training = Training()
    asked: list[int] = []

    def read(found: Found) -> int:
        asked.append(found.manifest.step)
        raise error("broken")

    with pytest.raises(NoCheckpointError, match="none of the 1 checkpoints in memory://store is intact"):
        read_newest_intact(RetryingStorage(training.storage), None, read)
    assert asked == [1, 1]


def test_what_was_set_aside_meanwhile_is_not_there() -> None:
    """A job of the same name has taken the prefix over, and starts from nothing."""
    training = Training()

    def read(found: Found) -> int:
        Checkpoints(training.storage, identity(1, uid="uid-2"), Keep()).start("Never")
        raise KeyMissingError("gone")

    with pytest.raises(NoCheckpointError, match="contains no checkpoint"):
        read_newest_intact(RetryingStorage(training.storage), None, read)
