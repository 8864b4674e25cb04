"""The evidence of hangs in a storage: bounded, and the newest job's counts."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.stores import MemoryStorage, variables

from holdfast_train.pod import evidence
from holdfast_train.pod.launcher.library import ANSWER
from holdfast_train.storage.folder import FolderStorage

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def document(attempt: int, node: int = 0, job: str = "uid-1", **more: Any) -> dict[str, Any]:
    return {"attempt": attempt, "node": node, "jobUID": job, **more}


def keep(storage: MemoryStorage, *documents: dict[str, Any]) -> None:
    for one in documents:
        storage.modified_at[evidence.keep(storage, one)] = BEGIN + timedelta(minutes=len(storage.modified_at))


def test_the_oldest_is_deleted_and_nothing_else() -> None:
    """Breaks if a job that hangs for ever fills its storage, or a checkpoint goes with the evidence."""
    storage = MemoryStorage()
    storage.content["data/x"] = b"1"
    keep(storage, *(document(number) for number in range(1, evidence.MOST + 4)))
    left = [key for key in storage.content if key.startswith("evidence/")]
    assert len(left) == evidence.MOST
    assert not any(key.startswith(("evidence/a1-", "evidence/a2-", "evidence/a3-")) for key in left)
    assert "data/x" in storage.content


def test_the_nodes_of_the_newest_hang_are_read() -> None:
    """Breaks if attempt 10 comes before attempt 9, or a job that was created again shows the hang of the job before."""
    storage = MemoryStorage()
    assert evidence.read(storage) == []
    old = document(3, 1, "uid-0"), document(9, 0)
    keep(storage, *old, document(10, 1), document(10, 0), document(3, 0, n=1), document(3, 0, n=2))
    assert evidence.read(storage, 10) == [document(10, 0), document(10, 1)]
    assert evidence.read(storage) == [document(3, 0, n=2)]
    assert evidence.read(storage, 4) == []


# Breaks if what a stranger put into the storage fills the memory of the reader, such as that of holdfast ui.
@pytest.mark.parametrize("limit", ["MOST_BYTES", "ALL_BYTES"])
def test_what_is_larger_than_a_launcher_writes_is_not_read(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    monkeypatch.setattr(storage, "get", lambda key: pytest.fail(f"{key} is read"))
    keep(storage, document(3, text="x" * 1000))
    monkeypatch.setattr(evidence, limit, 1000)
    with pytest.raises(ValueError, match=r"has 1\d\d\d bytes"):
        evidence.read(storage)


def test_of_each_node_the_newest_object_alone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if somebody who writes thousands of objects decides how much is read."""
    storage, read = MemoryStorage(), list[str]()
    keep(storage, *(document(3, number % 2, n=number) for number in range(40)))
    get = storage.get
    monkeypatch.setattr(storage, "get", lambda key: read.append(key) or get(key))
    assert evidence.read(storage) == [document(3, 0, n=38), document(3, 1, n=39)]
    assert len(read) == 2


def test_the_command_stores_what_it_is_given_and_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {"HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY": "s3cret", "MY_TOKEN": "s3cret"}
    for name, value in {**variables(f"file://{tmp_path}/job", 7), **keys}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"v": 1, "node": 2, "ranks": []})))
    assert evidence.main() == 0
    storage = FolderStorage(tmp_path / "job")
    (found,) = evidence.read(storage)
    (key,) = storage.keys("evidence/")
    assert capsys.readouterr().out == f"{ANSWER}{storage.uri}/{key}\n"
    assert {name: found[name] for name in ("job", "attempt", "node", "podUID")} == {
        "job": "job", "attempt": 7, "node": 2, "podUID": "pod-7",
    }  # fmt: skip
    assert b"s3cret" not in storage.get(key)
