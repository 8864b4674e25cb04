"""What a starting attempt writes and reads before it has anything to train."""

from dataclasses import replace

import pytest
from tests.support.trainer import stores
from tests.support.trainer.stores import MemoryStorage, environment, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import CheckpointCorruptError, EnvironmentVariableError, StorageUnreachableError
from holdfast_train.format.names import CheckpointName
from holdfast_train.restore.candidates import Candidates, start
from holdfast_train.restore.memory_checkpoints import IN_MEMORY, MemoryCheckpoint
from holdfast_train.storage.retrying import RetryingStorage


def test_a_store_that_is_away_when_one_goes_into_quarantine_is_waited_for() -> None:
    """Breaks if a single 503 for that record ends the start, and costs the attempt."""
    storage = MemoryStorage()
    first = Checkpoints(storage, identity(1), Keep())
    first.start("Auto")
    for step in (10, 20):
        stores.save(first, step, {"objects": {}}, [{}])
    waits: list[float] = []
    patient = RetryingStorage(storage, sleep=waits.append)
    checkpoints = Checkpoints(patient, identity(2), Keep())
    checkpoints.start("Auto")
    candidates = Candidates(environment("memory://store", 2), patient, checkpoints)

    def before(method: str, key: str) -> None:
        if method == "put_if_absent" and not waits:
            raise StorageUnreachableError("503 SlowDown")

    storage.before = before
    for _ in range(2):
        found = candidates.newest()
        assert found is not None
        assert found.manifest.step == 20
        candidates.report_broken(found, CheckpointCorruptError("broken"))
    assert len(waits) == 1
    assert [(commit.step, commit.corrupt) for commit in checkpoints.log.state.commits] == [(10, False), (20, True)]


@pytest.mark.parametrize("address", ["memory://store", "memory://store/"])
def test_the_own_prefix_as_the_source_is_refused_before_anything_is_set_aside(address: str) -> None:
    """Breaks if a job that is created again with its own prefix in `resume` loses all checkpoints that it has there."""
    storage = MemoryStorage()
    first = Checkpoints(storage, identity(1), Keep())
    first.start("Auto")
    stores.save(first, 10, {"objects": {}}, [{}])
    before = dict(storage.content)
    again = environment("memory://store", 1, HOLDFAST_JOB_UID="created again", resume=address)
    with pytest.raises(EnvironmentVariableError, match="prefix of this job itself; set it to Auto"):
        start(again, RetryingStorage(storage))
    assert storage.content == before


def test_copies_in_memory_come_first_and_a_broken_one_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Breaks if a copy that is not whole goes into quarantine, where only commits belong, or ends the start."""
    storage = MemoryStorage()
    first = Checkpoints(storage, identity(1), Keep())
    first.start("Auto")
    stores.save(first, 10, {"objects": {}}, [{}])
    committed = first.newest()
    assert committed is not None
    fence = first.log.fence
    assert fence is not None
    copies = [
        MemoryCheckpoint(replace(committed.manifest, name=CheckpointName(step, 1, "aa"), step=step), fence.seq)
        for step in (30, 20, 10)
    ]
    checkpoints = Checkpoints(storage, identity(2), Keep())
    checkpoints.start("Auto")
    retrying = RetryingStorage(storage)
    candidates = Candidates.own(environment("memory://store", 2), retrying, checkpoints, copies)
    found = candidates.newest()
    assert found is not None
    assert (found.manifest.step, found.seq) == (30, IN_MEMORY)
    assert "no checkpoint of this step was committed" in candidates.accept(found)
    seen = []
    for _ in range(2):
        found = candidates.newest()
        assert found is not None
        seen.append(found.manifest.step)
        candidates.report_broken(found, CheckpointCorruptError("a part is missing"))
    assert seen == [30, 20]
    assert "the copy of step 20 in the memory of the nodes is not whole: a part is missing" in capsys.readouterr().err
    found = candidates.newest()
    assert found is not None
    assert (found.manifest.step, found.seq) == (10, committed.seq), "the commit, and not the copy of its step"
    assert candidates.accept(found) == ""
    assert not any(commit.corrupt for commit in checkpoints.log.state.commits)
