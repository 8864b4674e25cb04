"""The init container: faults of the storage are found before a GPU waits for it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.pod_settings import pod_variables
from tests.support.trainer.stores import MemoryStorage, identity, variables

from holdfast_protocol.dependencies import Dependencies, Package
from holdfast_protocol.document import to_text
from holdfast_train.code.store import list_key_of, send
from holdfast_train.code.tree import Entry, content_hash, tree_hash
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.errors import (
    EnvironmentVariableError,
    FencedError,
    StorageDeniedError,
    StorageNotAtomicError,
    StoragePrefixInUseError,
)
from holdfast_train.pod import init_container
from holdfast_train.pod.launcher_file import launcher_file
from holdfast_train.storage.folder import FolderStorage


def test_good_store_is_left_clean() -> None:
    storage = MemoryStorage()
    init_container.probe(storage, identity())
    assert storage.content == {}


def test_store_that_lets_several_win_is_refused() -> None:
    """SeaweedFS before 4.x and versitygw 1.7 do: two attempts would both believe that they had committed."""
    storage = MemoryStorage()
    storage.atomic = False
    with pytest.raises(StorageNotAtomicError, match="8 of 8"):
        init_container.probe(storage, identity())
    assert storage.content == {}


def test_store_that_does_not_delete() -> None:
    storage = MemoryStorage()

    def before(method: str, key: str) -> None:
        if method == "delete":
            raise StorageDeniedError("no delete")

    storage.before = before
    with pytest.raises(StorageDeniedError):
        init_container.probe(storage, identity())


def test_prefix_of_another_job() -> None:
    storage = MemoryStorage()
    CommitLog(storage, identity(1, uid="u", job="other")).own("Auto")
    with pytest.raises(StoragePrefixInUseError):
        init_container.probe(storage, identity())


def test_pod_of_a_job_that_was_created_anew() -> None:
    storage = MemoryStorage()
    CommitLog(storage, identity(1)).own("Auto")
    CommitLog(storage, identity(1, uid="uid-2")).own("Auto")
    with pytest.raises(FencedError):
        init_container.probe(storage, identity(2))


def test_launcher_is_copied_whole(tmp_path: Path) -> None:
    target = init_container.copy_launcher(tmp_path)
    assert target.read_bytes() == launcher_file()
    assert os.access(target, os.X_OK)
    assert [path.name for path in tmp_path.iterdir()] == ["holdfast-run"]
    with pytest.raises(EnvironmentVariableError, match="HOLDFAST_LAUNCHER_DIR"):
        init_container.copy_launcher(tmp_path / "missing")


def run(tmp_path: Path, *options: str, **more: Any) -> tuple[int, dict[str, object]]:
    log = tmp_path / "termination-log"
    more = {"HOLDFAST_LAUNCHER_DIR": str(tmp_path), "HOLDFAST_TERMINATION_LOG": str(log)} | more
    command = [sys.executable, "-m", "holdfast_train.pod.init_container", *options]
    found = subprocess.run(
        command, env=pod_variables({**os.environ, **variables(None)}, **more), check=False, timeout=60
    )
    return found.returncode, json.loads(log.read_text()) if log.exists() else {}


def test_main_on_a_folder(tmp_path: Path) -> None:
    assert run(tmp_path, checkpoint_uri=f"file://{tmp_path}/prefix") == (0, {})
    assert (tmp_path / "holdfast-run").exists()


@pytest.mark.parametrize(
    ("uri", "code", "outcome", "reason"),
    [
        ("gs://bucket/x", 78, "misconfigured", "StorageInvalid"),
        ("s3://bucket/x", 75, "failed", "StorageUnreachable"),
    ],
)
def test_main_says_what_is_wrong(tmp_path: Path, uri: str, code: int, outcome: str, reason: str) -> None:
    found, verdict = run(
        tmp_path,
        "--patience=0",
        checkpoint_uri=uri,
        checkpoint_endpoint="http://127.0.0.1:9",
        HOLDFAST_CHECKPOINT_ACCESS_KEY_ID="a",
        HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY="b",
    )
    assert (found, verdict["outcome"], verdict["reason"], verdict["exitCode"]) == (code, outcome, reason, code)


# Breaks if a node with a full disk ends the job at once: another node may have room.
def test_a_node_that_cannot_take_the_program(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "train.py").write_text("1")
    entry = Entry("train.py", "file", 1, content_hash(b"1"))
    send(FolderStorage(str(tmp_path / "prefix")), root, [entry])
    more = {"checkpoint_uri": f"file://{tmp_path}/prefix", "code": tree_hash([entry])}
    found, verdict = run(tmp_path, **more, HOLDFAST_CODE_DIR=str(tmp_path / "missing"))
    assert (found, verdict["outcome"], verdict["reason"]) == (1, "failed", "CodeNotWritten")
    (tmp_path / "missing").mkdir()
    (tmp_path / "termination-log").unlink()
    assert run(tmp_path, **more, HOLDFAST_CODE_DIR=str(tmp_path / "missing")) == (0, {})
    assert (tmp_path / "missing" / "train.py").read_text() == "1"


# Breaks if a pod starts without the packages that its job names, or hides which object is missing.
def test_packages(tmp_path: Path) -> None:
    root, storage = tmp_path / "root", FolderStorage(str(tmp_path / "prefix"))
    root.mkdir()
    (root / "extra.py").write_text("1")
    entry = Entry("extra.py", "file", 1, content_hash(b"1"))
    send(storage, root, [entry])
    content = to_text(Dependencies("3.11", packages=(Package("extra", "1.0", tree_hash([entry]), 1),))).encode()
    place = tmp_path / "dependencies"
    place.mkdir()
    more = {"checkpoint_uri": f"file://{tmp_path}/prefix", "dependencies": content_hash(content)}
    found, verdict = run(tmp_path, **more, HOLDFAST_DEPENDENCIES_DIR=str(place))
    assert (found, verdict["reason"]) == (78, "CodeMissing")
    storage.put(list_key_of(content_hash(content)), content)
    (tmp_path / "termination-log").unlink()
    assert run(tmp_path, **more, HOLDFAST_DEPENDENCIES_DIR=str(place)) == (0, {})
    assert (place / "extra.py").read_text() == "1"


def test_a_program_that_was_not_sent(tmp_path: Path) -> None:
    more = {"checkpoint_uri": f"file://{tmp_path}/prefix", "code": "0" * 64}
    found, verdict = run(tmp_path, **more, HOLDFAST_CODE_DIR=str(tmp_path))
    assert (found, verdict["outcome"], verdict["reason"]) == (78, "misconfigured", "CodeMissing")
