"""What another version of holdfast-train wrote is neither damaged nor touched."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.attempts import attempt, save
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.runs import train, verdict
from tests.support.trainer.stores import MemoryStorage, environment, identity

from holdfast_train.commitlog import records
from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError, FencedError
from holdfast_train.format import manifest, names
from holdfast_train.format.version import VERSION, take_version
from holdfast_train.pod import init_container
from holdfast_train.storage.folder import FolderStorage


@contextmanager
def newer(*modules: Any) -> Iterator[None]:
    """Inside, `modules` write as a later version of holdfast-train does."""
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "VERSION", VERSION + 1)
        yield


def test_this_version_is_read() -> None:
    body = {"v": VERSION, "other": 1}
    take_version(body)
    assert body == {"other": 1}


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        ({"v": VERSION + 1}, CheckpointVersionError, "a newer holdfast-train wrote it"),
        ({"v": VERSION - 1}, CheckpointVersionError, "an older holdfast-train wrote it"),
        ({"v": str(VERSION)}, CheckpointCorruptError, "no version"),
        ({"v": True}, CheckpointCorruptError, "no version"),
        ({}, CheckpointCorruptError, "no version"),
    ],
)
def test_other_versions_are_named(body: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        take_version(body)


def test_manifests_and_records_have_one_number() -> None:
    """So a program that cannot read a manifest stops at the newest record, before it has written a fence."""
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10)
    written = [json.loads(body) for key, body in storage.content.items() if key.endswith(".json")]
    assert {body["v"] for body in written} == {VERSION}


def test_a_log_of_a_newer_version_is_not_touched() -> None:
    storage = MemoryStorage()
    with newer(records, manifest):
        save(attempt(storage, identity(1)), 10)
    before = dict(storage.content)
    with pytest.raises(CheckpointVersionError, match=r"memory://store: log/0{11}3\.json: a newer holdfast-train"):
        attempt(storage, identity(2))
    assert storage.content == before


def test_a_manifest_of_a_newer_version_is_not_broken() -> None:
    """Breaks if it is put into quarantine: the newer program would then not resume from it either."""
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    save(first, 10)
    with newer(manifest):
        save(first, 20)
    second = attempt(storage, identity(2))
    with pytest.raises(CheckpointVersionError, match=r"manifests/0{10}20-a1-.*\.json: a newer holdfast-train"):
        restore_whole(second)
    assert [(commit.step, commit.corrupt) for commit in second.log.refresh().commits] == [(10, False), (20, False)]


def test_a_damaged_record_of_a_newer_version_is_damaged() -> None:
    storage = MemoryStorage()
    with newer(records):
        attempt(storage, identity(1))
    key = names.log_key(2)
    storage.content[key] = storage.content[key].replace(b"pod-uid-1-1", b"pod-uid-1-2", 1)
    with pytest.raises(CheckpointCorruptError, match="is damaged"):
        attempt(storage, identity(2))


def test_an_attempt_ends_as_fenced_when_a_newer_version_has_started() -> None:
    storage = MemoryStorage()
    first = attempt(storage, identity(1))
    with newer(records):
        attempt(storage, identity(2))
    with pytest.raises(FencedError, match="with another version of holdfast-train"):
        save(first, 10)


def test_the_init_container_leaves_a_newer_log_to_the_trainer(capsys: pytest.CaptureFixture[str]) -> None:
    """The operator's image may be older than the trainer's."""
    storage = MemoryStorage()
    with newer(records):
        attempt(storage, identity(1))
    init_container.probe(storage, identity(2))
    assert "the owner of the prefix is not checked here" in capsys.readouterr().err


def test_a_run_ends_with_words(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/prefix"
    with newer(records, manifest):
        storage = FolderStorage(tmp_path / "prefix")
        save(attempt(storage, identity(1)), 10)
    before = storage.keys("")
    with pytest.raises(SystemExit) as ended:
        train(environment(uri, 2, HOLDFAST_VERDICT_DIR=str(tmp_path)), 50)
    assert ended.value.code == 78
    found = verdict(tmp_path)
    assert (found["result"], found["reason"]) == ("misconfigured", "CheckpointVersion")
    assert "use an image with a newer holdfast-train" in found["message"]
    assert storage.keys("") == before
