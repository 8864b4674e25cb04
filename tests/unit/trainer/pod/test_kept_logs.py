"""Which logs of pods stay in a storage."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.support.trainer.stores import MemoryStorage

from holdfast_train.pod import kept_logs
from holdfast_train.storage.base import Entry


class Sized(MemoryStorage):
    """A storage that knows when keys were written, and says of some that they are larger than they are."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[str, int] = {}

    def put(self, key: str, body: bytes | bytearray | memoryview) -> None:
        super().put(key, body)
        self.modified_at[key] = datetime.now(UTC)

    def entries(self, prefix: str) -> list[Entry]:
        return [replace(one, size=self.sizes.get(one.key, one.size)) for one in super().entries(prefix)]


@pytest.fixture
def storage() -> Sized:
    return Sized()


def key(pod: int) -> str:
    return f"pod-logs/uid/a1-n0of1-{pod}.gz"


# Breaks if a storage grows without a bound, or if the oldest logs are not the first to go.
def test_the_newest_stay(storage: Sized, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_logs, "MOST", 3)
    for pod in range(5):
        kept_logs.keep(storage, key(pod), b"x")
    assert [log.pod_uid for log in kept_logs.kept_logs(storage, "uid")] == ["2", "3", "4"]
    kept_logs.keep(storage, key(2), b"again")
    assert [log.pod_uid for log in kept_logs.kept_logs(storage, "uid")] == ["2", "3", "4"]


# Breaks if an object that is larger than all logs may be takes the logs of others along.
def test_one_that_is_too_large_goes_alone(storage: Sized) -> None:
    for pod in range(4):
        kept_logs.keep(storage, key(pod), b"x")
    storage.put("pod-logs/other", b"x")
    storage.sizes["pod-logs/other"] = kept_logs.ALL_BYTES + 1
    kept_logs.keep(storage, key(4), b"x")
    assert sorted(storage.content) == [key(pod) for pod in range(5)]
