"""Checkpoints that are damaged: what is resumed instead, and what becomes of them."""

import pytest
from tests.support.trainer.attempts import attempt, data_key, save
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import FencedError, NoCheckpointError, StorageUnreachableError


@pytest.mark.parametrize("damage", ["data bit", "data short", "data gone", "manifest bit", "manifest gone"])
def test_damaged_newest_falls_back_and_says_so(damage: str) -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10, 20)
    what, how = damage.split()
    key = data_key(storage, 20) if what == "data" else storage.keys("manifests/000000000020")[0]
    if how == "gone":
        del storage.content[key]
    elif how == "short":
        storage.content[key] = storage.content[key][:-1]
    else:
        changed = bytearray(storage.content[key])
        changed[len(changed) // 2] ^= 1
        storage.content[key] = bytes(changed)
    said: list[str] = []
    second = Checkpoints(storage, identity(2), Keep(last=3), said.append)
    second.start("Auto")
    restored = restore_whole(second)
    assert restored is not None
    assert restored.step == 10
    assert "step 20 is broken" in restored.note
    assert said
    save(second, 15)
    assert [(c.step, c.corrupt) for c in second.log.state.commits] == [(10, False), (20, True), (15, False)]


def reads_of(storage: MemoryStorage) -> list[int]:
    """Steps whose manifests are read from now on."""
    steps: list[int] = []

    def note(method: str, key: str) -> None:
        if method == "get" and key.startswith("manifests/"):
            steps.append(int(key.removeprefix("manifests/")[:12]))

    storage.before = note
    return steps


def damage(storage: MemoryStorage, *steps: int) -> dict[str, bytes]:
    """Other bytes in the data of these steps; what was there before."""
    before = {data_key(storage, step): storage.content[data_key(storage, step)] for step in steps}
    storage.content |= {key: b"x" * len(content) for key, content in before.items()}
    return before


def test_a_broken_one_is_in_quarantine_before_anything_else_is_read() -> None:
    """Breaks if an attempt that is lost before its next commit leaves it to the next one to find the same."""
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10, 20, 30)
    damage(storage, 20, 30)
    second = attempt(storage, identity(2))

    def lost(method: str, key: str) -> None:
        if method == "get" and key.startswith("manifests/000000000020"):
            raise KeyboardInterrupt

    storage.before = lost
    with pytest.raises(KeyboardInterrupt):
        restore_whole(second)
    steps = reads_of(storage)
    third = attempt(storage, identity(3))
    restored = restore_whole(third)
    assert restored is not None
    assert steps == [20, 20, 10]
    assert "step 20 is broken" in restored.note
    steps.clear()
    again = restore_whole(attempt(storage, identity(4)))
    assert again is not None
    assert (steps, again.step) == ([10], 10)
    assert again.note == "the checkpoint of step 30 is in quarantine; resumed from the one of step 10"
    assert len(storage.keys("data/")) == 3


def test_one_bad_answer_of_the_storage_is_not_damage() -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10, 20)
    before, answers = damage(storage, 20), len(storage.keys("log/"))
    reads = 0

    def recover(method: str, key: str) -> None:
        nonlocal reads
        if method == "get" and key.startswith("manifests/"):
            reads += 1
            storage.content.update(before if reads == 2 else {})

    second = attempt(storage, identity(2))
    storage.before = recover
    restored = restore_whole(second)
    assert restored is not None
    assert (restored.step, restored.note, reads) == (20, "", 2)
    assert len(storage.keys("log/")) == answers + 1  # its fence, and nothing more


def test_what_holds_again_is_read_before_all_is_given_up() -> None:
    """Breaks if a store that was mounted wrongly for a day costs the training."""
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10, 20)
    before = damage(storage, 10, 20)
    for number in (2, 3):
        with pytest.raises(NoCheckpointError, match="checkpoint of step 20 is broken"):
            restore_whole(attempt(storage, identity(number)))
    storage.content.update(before)
    restored = restore_whole(attempt(storage, identity(4)))
    assert restored is not None
    assert (restored.step, restored.note) == (
        20,
        "the checkpoint of step 20 is in quarantine but intact; no other one is",
    )
    fifth = attempt(storage, identity(5))  # an attempt need not have read all of it, so it stays there
    assert [(c.step, c.corrupt) for c in fifth.log.state.commits] == [(10, True), (20, True)]


def test_a_broken_one_stays_until_enough_others_are_there() -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10, 20)
    damage(storage, 20)
    second = attempt(storage, identity(2), Keep(last=2))
    assert restore_whole(second) is not None
    save(second, 30)
    assert [c.step for c in second.log.state.commits] == [10, 20, 30]
    save(second, 40)
    assert [c.step for c in second.log.state.commits] == [30, 40]
    assert {key.split("/")[1][:12] for key in storage.keys("data/")} == {f"{30:012d}", f"{40:012d}"}


def test_another_jobs_prefix_is_only_read() -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10, 20)
    damage(storage, 20)
    elsewhere = Checkpoints(storage, identity(1, uid="uid-2", job="other"), Keep())
    elsewhere.log.refresh()
    records = len(storage.keys("log/"))
    restored = restore_whole(elsewhere)
    assert restored is not None
    assert restored.step == 10
    assert len(storage.keys("log/")) == records


def test_a_zombie_that_finds_damage_is_out() -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10, 20)
    damage(storage, 20)
    zombie = attempt(storage, identity(2))
    attempt(storage, identity(3))
    with pytest.raises(FencedError, match="attempt 3"):
        restore_whole(zombie)


def test_none_that_holds_is_for_a_person_to_decide() -> None:
    """Weeks of training must not start from nothing because a bucket was damaged."""
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10, 20)
    for key in storage.keys("data/"):
        storage.content[key] = b"x" * len(storage.content[key])
    with pytest.raises(NoCheckpointError, match=r"none of the 2 checkpoints .*resume: Never"):
        restore_whole(attempt(storage, identity(2)))


def test_an_unreachable_storage_is_not_corruption() -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10, 20)
    second = attempt(storage, identity(2))

    def down(method: str, key: str) -> None:
        raise StorageUnreachableError("down")

    storage.before = down
    with pytest.raises(StorageUnreachableError):
        restore_whole(second)


def test_a_broken_one_whose_name_says_no_step_is_called_by_its_name() -> None:
    """Breaks if step 0 is said of it."""
    storage, said = MemoryStorage(), list[str]()
    save(attempt(storage, identity(1)), 0)
    damage(storage, 0)
    second = Checkpoints(storage, identity(2), Keep(last=3), said.append)
    second.start("Auto")
    with pytest.raises(NoCheckpointError, match=r"checkpoint named 0{12}-a1-\w+ is broken"):
        restore_whole(second)
    assert said
    assert not any("step 0" in text for text in said)
