"""Many objects are checked with few requests, and deleted several at a time."""

import threading

import pytest
from tests.support.trainer.stores import MemoryStorage

from holdfast_train.errors import StorageDeniedError
from holdfast_train.storage.parallel import BATCH, THREADS, delete_all, sizes

KEYS = [f"data/a/{number}" for number in range(3 * BATCH)]


@pytest.fixture
def storage() -> MemoryStorage:
    found = MemoryStorage()
    for number, key in enumerate(KEYS):
        found.content[key] = bytes(number)
    return found


def test_sizes_come_from_one_listing(storage: MemoryStorage) -> None:
    """Breaks if every object costs a request: 64 ranks of 4 GiB have 4,096 of them."""
    asked: list[str] = []
    storage.before = lambda method, key: asked.append(f"{method} {key}")
    found = sizes(storage, KEYS, ["data/a/"])
    assert found == {key: number for number, key in enumerate(KEYS)}
    assert asked == ["entries data/a/"]


def test_what_a_listing_lacks_is_asked_for(storage: MemoryStorage) -> None:
    """The listing of some stores is late."""
    storage.content["manifests/a.json"] = b"12"
    found = sizes(storage, [KEYS[1], "manifests/a.json", "data/b/0"], ["data/a/", "data/b/"])
    assert found == {KEYS[1]: 1, "manifests/a.json": 2, "data/b/0": None}


def test_objects_are_deleted_several_at_a_time(storage: MemoryStorage) -> None:
    together = threading.Barrier(THREADS, timeout=30)  # breaks if fewer deletions run at once
    storage.before = lambda method, key: together.wait() and None
    assert delete_all(storage, KEYS[:THREADS], lambda: False)
    assert list(storage.content) == KEYS[THREADS:]


def test_a_deletion_ends_between_batches(storage: MemoryStorage) -> None:
    assert not delete_all(storage, KEYS, iter([False, True]).__next__)
    assert list(storage.content) == KEYS[BATCH:]
    assert delete_all(storage, KEYS, lambda: False)
    assert storage.content == {}


def test_a_deletion_that_is_refused_is_an_error(storage: MemoryStorage) -> None:
    def refuse(method: str, key: str) -> None:
        raise StorageDeniedError("no delete")

    storage.before = refuse
    with pytest.raises(StorageDeniedError):
        delete_all(storage, KEYS, lambda: False)
