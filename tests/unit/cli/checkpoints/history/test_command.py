"""`holdfast checkpoints history`, on a folder."""

import json
import math
import os
from pathlib import Path

import pytest
from tests.support.trainer import stores
from tests.support.trainer.stores import identity
from typer.testing import CliRunner, Result

from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.series.rows import Row
from holdfast_train.series.segment import Header, encode, new_key
from holdfast_train.storage.folder import FolderStorage


def history(*args: str) -> Result:
    return CliRunner().invoke(app, ["checkpoints", "history", *args])


@pytest.fixture
def folder(tmp_path: Path) -> FolderStorage:
    """Attempt 1 of five steps, and attempt 2, which went on from step 3; one segment is damaged."""
    storage = FolderStorage(tmp_path / "job")
    for number, first, last, resumed in ((1, 1, 5, None), (2, 4, 8, 3)):
        rows = [Row(step, 100.0 + step, {"loss": 1 / step, "accuracy": math.nan}) for step in range(first, last + 1)]
        storage.put(new_key(first, number), encode(Header("uid", number, f"r{number}", number, resumed), rows))
    storage.put("series/000000000009-a2-ab.jsonl.gz", b"damaged")
    return storage


def test_attempts_are_shown_with_what_was_lost(folder: FolderStorage) -> None:
    result = history(folder.uri)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["1", "1-5", "2", "5", "1", "0.2", "accuracy"] in lines
    assert ["2", "4-8", "0", "5", "0.25", "0.125", "accuracy"] in lines
    assert "series/000000000009-a2-ab.jsonl.gz is damaged" in result.stderr


# Breaks if -o json is not strict JSON because a value is not finite.
def test_json(folder: FolderStorage) -> None:
    found = json.loads(history(folder.uri, "-o", "json").stdout, parse_constant=pytest.fail)
    assert [(one["attempt"], one["keptThrough"]) for one in found["attempts"]] == [(1, 3), (2, 8)]
    assert found["attempts"][0]["rows"][0] == {"step": 1, "at": 101.0, "values": {"loss": 1, "accuracy": "nan"}}
    assert len(found["gaps"]) == 1


def test_csv(folder: FolderStorage, tmp_path: Path) -> None:
    target = tmp_path / "curve.csv"
    result = history(folder.uri, "--csv", str(target), "--most", "6")
    assert result.exit_code == 0, result.output
    assert [line.split(",")[:2] for line in target.read_text().splitlines()[1:]] == [
        ["1", "1"],
        ["1", "5"],
        ["2", "4"],
        ["2", "8"],
    ]
    refused = history(folder.uri, "--csv", str(tmp_path / "no" / "curve.csv"))
    assert (refused.exit_code, "cannot be written" in refused.output) == (1, True)


# Breaks if prune takes the history for something that no checkpoint needs.
def test_prune_leaves_the_history(folder: FolderStorage) -> None:
    made = Checkpoints(folder, identity(1), Keep(9))
    made.start("Auto")
    for step in (10, 20):
        stores.save(made, step, {"objects": {}}, [None])
    made.complete(20)
    for file in Path(folder.uri.removeprefix("file://")).rglob("*.gz"):
        os.utime(file, (0, 0))
    before = folder.keys("series/")
    pruned = CliRunner().invoke(app, ["checkpoints", "prune", folder.uri, "--keep-last", "1", "--yes"])
    assert (pruned.exit_code, len(folder.keys("manifests/"))) == (0, 1)
    assert folder.keys("series/") == before


def test_no_history(tmp_path: Path) -> None:
    refused = history(f"file://{tmp_path}/nothing")
    assert refused.exit_code == ExitCode.NOT_FOUND
    assert "there is no history below" in refused.output
