"""A rank whose upload takes long shows that it goes on; one that sends nothing shows nothing."""

import pytest
from tests.support.trainer.stores import MemoryStorage

from holdfast_train.errors import StorageUnreachableError
from holdfast_train.format.names import CheckpointName
from holdfast_train.save import heartbeat
from holdfast_train.save.heartbeat import Heartbeat

FIRST, SECOND = (CheckpointName(step, 1, "0123456789ab") for step in (1, 2))


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 3600.0)


def test_it_beats_for_each_save_that_waits_while_bytes_are_sent() -> None:
    storage, sent = MemoryStorage(), [0]
    one = Heartbeat(storage, 3, lambda: sent[0])
    one.begin(FIRST)
    one.begin(SECOND)
    one.beat()
    assert storage.keys("") == []  # nothing was sent
    sent[0] = 5
    one.beat()
    one.beat()
    one.end(FIRST)
    sent[0] = 6
    one.beat()
    assert storage.keys("data/") == sorted([FIRST.beat_key(3, 1), SECOND.beat_key(3, 1), SECOND.beat_key(3, 2)])
    assert all(key.startswith(name.part_prefix(3)) for name in (FIRST,) for key in storage.keys(str(name)))
    one.end(SECOND)


def test_a_storage_that_fails_ends_no_thread() -> None:
    storage, sent = MemoryStorage(), [1]

    def fail(method: str, key: str) -> None:
        raise StorageUnreachableError("down")

    one = Heartbeat(storage, 1, lambda: sent[0])
    one.begin(FIRST)
    storage.before = fail
    one.beat()
    storage.before = lambda method, key: None
    sent[0] = 2
    one.beat()
    assert len(storage.keys("")) == 1
    one.end(FIRST)
