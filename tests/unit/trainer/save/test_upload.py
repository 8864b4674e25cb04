"""Rank 0 waits for the parts of the other ranks, and compares what they have alike."""

import time
from typing import Any

import numpy as np
import pytest
from tests.support.trainer.attempts import attempt
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.errors import RanksDifferError, StorageUnreachableError
from holdfast_train.format.alike import ALL_ALIKE, Apart, Sample, draw_of
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.tree import Tree, Walk
from holdfast_train.save import upload
from holdfast_train.save.arena import Arena
from holdfast_train.save.arriving import ArrivingBytes
from holdfast_train.save.messages import Failed, Save
from holdfast_train.save.plan import make_plan
from holdfast_train.save.upload import Upload

NAME = CheckpointName(7, 1, "0123456789ab")


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def run(storage: MemoryStorage, rank: int, state: dict[str, Any], apart: Apart = ALL_ALIKE) -> Saved | None:
    """The upload of one of two ranks that has `state`, whose bytes do not matter here."""
    checkpoints = attempt(storage, identity(1)) if rank == 0 else attempt(MemoryStorage(), identity(1))
    walk = Walk()
    tree: Tree = {"$dict": [["objects", walk.tree(state, "")]]}
    plan = make_plan(walk.leaves, len(walk.leaves), rank, 2)
    arriving = ArrivingBytes(Arena(plan.size).view[: plan.size])
    arriving.mark_ready(plan.size, Sample(walk.leaves, draw_of(NAME)).sums())
    save = Save(NAME, NAME.step, 0, plan, tree, None, {}, {}, {}, time.monotonic(), 0.0, 60.0, apart=apart)
    return Upload(checkpoints, storage, rank, 2).run(save, plan, arriving)


def state(value: int = 1, plain: int = 1) -> dict[str, Any]:
    return {"model": {"weight": np.full(3, value)}, "clip": {"mean": plain}}


def test_a_slow_rank_is_waited_for_as_long_as_it_writes(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if a rank that is slower than rank 0 by a fixed time never gets a checkpoint."""
    monkeypatch.setattr(upload, "FRAGMENT_SECONDS", -1.0)  # its time is up at each look
    run(storage, 1, state())
    key, beats = NAME.fragment_key(1), [0]
    fragment = storage.content.pop(key)

    def slowly(method: str, prefix: str) -> None:
        if (method, prefix) == ("keys", NAME.part_prefix(1)):
            beats[0] += 1
            storage.content[NAME.beat_key(1, beats[0])] = b""
            if beats[0] == 5:
                storage.content[key] = fragment

    storage.before = slowly
    assert isinstance(run(storage, 0, state()), Saved)
    assert beats == [5]


def test_a_rank_that_writes_nothing_is_given_up(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "FRAGMENT_SECONDS", -1.0)
    with pytest.raises(StorageUnreachableError, match="rank 1 has written nothing for step 7"):
        run(storage, 0, state())


@pytest.mark.parametrize(("other", "what"), [(state(value=2), "model/weight"), (state(plain=2), "clip")])
def test_ranks_with_other_values_get_no_checkpoint(storage: MemoryStorage, other: dict[str, Any], what: str) -> None:
    run(storage, 1, other)
    with pytest.raises(RanksDifferError, match=f"step 7 is not saved: rank 1 has other values of '{what}'") as error:
        run(storage, 0, state())
    again = Failed.of(7, error.value).to_error()  # as the trainer gets it
    assert isinstance(again, RanksDifferError)
    assert (again.what, str(again)) == (what, str(error.value))


def test_what_is_saved_for_each_rank_may_differ(storage: MemoryStorage) -> None:
    apart = Apart(objects=frozenset({"clip"}))
    run(storage, 1, state(plain=2), apart)
    assert isinstance(run(storage, 0, state(), apart), Saved)
