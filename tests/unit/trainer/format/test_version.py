"""What another version of holdfast-train wrote is neither damaged nor touched."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer import earlier_format
from tests.support.trainer.attempts import attempt, save
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.runs import train, verdict
from tests.support.trainer.stores import MemoryStorage, environment, identity
from tests.support.waiting import wait_for

from holdfast_train import Run
from holdfast_train.commitlog import records
from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError, FencedError
from holdfast_train.format import manifest, names
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.sealed_json import sealed
from holdfast_train.format.version import EARLIER, VERSION, take_version
from holdfast_train.pod import init_container
from holdfast_train.storage.folder import FolderStorage


@contextmanager
def newer(*modules: Any) -> Iterator[None]:
    """Inside, `modules` write as a later version of holdfast-train does."""
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "VERSION", VERSION + 1)
        yield


@pytest.mark.parametrize("version", [VERSION, EARLIER])
def test_this_version_and_the_one_before_it_are_read(version: int) -> None:
    body = {"v": version, "other": 1}
    assert take_version(body) == version
    assert body == {"other": 1}


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        ({"v": VERSION + 1}, CheckpointVersionError, "a newer holdfast-train wrote it"),
        ({"v": EARLIER - 1}, CheckpointVersionError, "an older holdfast-train wrote it"),
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


def test_a_run_goes_on_from_a_checkpoint_of_the_version_before(tmp_path: Path) -> None:
    """The code of that version wrote the prefix. New records follow the old ones, and retention counts both."""
    prefix = tmp_path / "prefix"
    shutil.copytree(earlier_format.FOLDER, prefix)
    uri, last = f"file://{prefix}", earlier_format.STEPS[-1]
    wanted, found = earlier_format.make(), earlier_format.make()
    for step in range(last):
        earlier_format.train(wanted, step + 1)
    with Run(**found, environment=environment(uri, 2, HOLDFAST_CHECKPOINT_KEEP_LAST="2")) as run:
        assert run.resumed_from == last
        assert found["model"].weight.tolist() == wanted["model"].weight.tolist()
        assert found["model"].bias.tolist() == wanted["model"].bias.tolist()
        moments = [
            [state["momentum_buffer"].tolist() for state in objects["optimizer"].state.values()]
            for objects in (found, wanted)
        ]
        assert moments[0] == moments[1]
        notes, of_old = found["notes"].value, wanted["notes"].value
        assert notes["array"].tolist() == of_old["array"].tolist()
        assert (notes["blob"], notes["pair"]) == (of_old["blob"], of_old["pair"])
        for step in run.steps(last + 1):
            earlier_format.train(found, step + 1)
    storage = FolderStorage(prefix)
    newest = max(seq for key in storage.keys("log/") if (seq := names.log_seq(key)) is not None)
    _, state = records.decode(storage.get(names.log_key(newest)), newest)
    assert [commit.step for commit in state.commits] == [last, last + 1]

    def data() -> set[int]:
        return {name.step for key in storage.keys("data/") if (name := CheckpointName.of_key(key))}

    wait_for(lambda: data() == {last, last + 1}, 30, "the writer to delete what is not kept")


# Breaks if a record of this version that was written before the history existed cannot be read.
def test_a_commit_without_segments_is_read() -> None:
    storage = MemoryStorage()
    save(attempt(storage, identity(1)), 10)
    key = storage.keys("log/")[-1]
    body = json.loads(storage.content[key])
    del body["sha256"], body["commit"]["series"]
    for commit in body["state"]["commits"]:
        del commit["series"]
    _, state = records.decode(sealed(body), body["seq"])
    assert [(commit.step, commit.series) for commit in state.commits] == [(10, ())]
