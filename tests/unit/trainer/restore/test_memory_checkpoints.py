"""Which copies in memory an attempt may go on from, without a commit."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.trainer.attempts import attempt, save
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_train.commitlog.log import CommitLog
from holdfast_train.commitlog.records import LogState
from holdfast_train.format.copy_note import CopyNote
from holdfast_train.format.fragment import Fragment
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.restore.memory_checkpoints import IN_MEMORY, MemoryCheckpoint, memory_checkpoints, offers

UID = identity(1).job_uid


def manifest(step: int, number: int = 1, uid: str = UID) -> Manifest:
    name = CheckpointName(step, number, f"{step:02x}")
    return Manifest(name, step, number, uid, "2026-01-01T00:00:00+00:00", {}, {}, {}, (), (), {"$dict": []}, ())


def note(step: int, rank: int, ranks: int = 2, **of_fragment: str) -> CopyNote:
    draft = manifest(step)
    part = Part(draft.name.part_key(rank, 0), 4, 4, ("00",))
    found = CopyNote(draft.name, ranks, replace(Fragment(rank, "form", own=(part,)), **of_fragment), has_frozen=True)
    return found if rank else replace(found, draft=draft, fence=2)


def found(*notes: CopyNote) -> list[int]:
    return [one.manifest.step for one in memory_checkpoints([one.encode() for one in notes])]


def test_all_ranks_must_have_a_copy() -> None:
    assert found(note(9, 0), note(9, 1), note(7, 0), note(7, 1), note(11, 0), note(13, 1)) == [9, 7]
    assert found(note(9, 0, 3), note(9, 1, 3)) == []
    assert found(note(9, 0), note(9, 1), note(9, 1)) == [9], "two nodes may have the same"


def test_the_copy_has_the_parts_of_all_ranks() -> None:
    (one,) = memory_checkpoints([note(9, 1).encode(), note(9, 0).encode()])
    assert [part.key for part in one.manifest.parts] == [manifest(9).name.part_key(rank, 0) for rank in range(2)]
    assert one.fence == 2


# Breaks if ranks that a comparison before a commit would refuse train on together.
def test_ranks_that_differ_are_said_and_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert found(note(9, 0), note(9, 1, form="another"), note(7, 0), note(7, 1)) == [7]
    assert "the copy of step 9 in the memory of the nodes is not used" in capsys.readouterr().err


def test_a_damaged_note_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert memory_checkpoints([b"{", note(9, 0).encode()]) == []
    assert "cannot be read" in capsys.readouterr().err


def log_of(number: int, *steps: int, storage: MemoryStorage | None = None) -> MemoryStorage:
    """A storage in which attempt `number` has committed these steps."""
    storage = storage or MemoryStorage()
    checkpoints = attempt(storage, identity(number))
    for step in steps:
        save(checkpoints, step)
    return storage


def state(storage: MemoryStorage, number: int = 2) -> LogState:
    """What attempt `number` finds when it has raised its fence."""
    log = CommitLog(storage, identity(number))
    log.own("Auto")
    log.raise_fence()
    return log.state


def allowed(log: LogState, *copies: Manifest, fence: int = 2) -> list[int]:
    made = offers([MemoryCheckpoint(one, fence) for one in copies], log, "file:///p")
    assert all(one.seq == IN_MEMORY and one.uri.startswith("file:///p/manifests/") for one in made)
    return [one.manifest.step for one in made]


def test_a_copy_after_the_newest_commit_counts() -> None:
    log = state(log_of(1, 3, 5))
    assert allowed(log, manifest(9), manifest(6), manifest(5), manifest(3)) == [9, 6]
    assert allowed(state(log_of(1)), manifest(1)) == [1], "there need be no commit"


def roll_back(storage: MemoryStorage) -> None:
    log = CommitLog(storage, identity(0))
    log.refresh()
    log.roll_back(log.state.commits[0].seq, "by hand", by_person=True)


# Breaks if an attempt goes on from a state that a rollback has left, or that another branch has overtaken.
@pytest.mark.parametrize(
    ("happened", "copy"),
    [
        (roll_back, manifest(9)),
        (lambda storage: log_of(2, 4, storage=storage), manifest(9)),
        (lambda storage: None, manifest(9, uid="another job of this name")),
    ],
    ids=["rollback", "later attempt", "another job"],
)
def test_a_copy_that_does_not_count(happened: Callable[[MemoryStorage], object], copy: Manifest) -> None:
    storage = log_of(1, 3)
    happened(storage)
    assert allowed(state(storage, 3), copy) == []


def test_a_copy_that_was_made_after_a_rollback_counts() -> None:
    storage = log_of(1, 3)
    roll_back(storage)
    fence = state(storage, 2).fence
    assert fence is not None
    assert allowed(state(storage, 3), manifest(9, 2), fence=fence.seq) == [9]


def test_nothing_goes_on_from_memory_when_the_training_is_complete() -> None:
    storage = log_of(1, 3)
    log = CommitLog(storage, identity(2))
    log.own("Auto")
    log.raise_fence()
    log.complete(3)
    assert allowed(log.state, manifest(9)) == []
