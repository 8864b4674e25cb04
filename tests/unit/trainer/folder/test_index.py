"""The index: how files are cut into parts, and that no index leads out of the folder."""

import json
import os
from pathlib import Path

import pytest
from tests.support.trainer.folders import hugging_face

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.folder import index
from holdfast_train.folder.layouts import Unit, find
from holdfast_train.folder.look import File, look
from holdfast_train.format.manifest import PART_BYTES, Part


def parts_of(unit: Unit) -> list[Part]:
    return [Part(f"data/{number}", piece.size, 1, ()) for number, piece in enumerate(index.cut(unit.files))]


def test_cut() -> None:
    files = (File("a", 5, 0, 0), File("b", PART_BYTES + 1, 0, 0), File("c", 7, 0, 0), File("d", 0, 0, 0))
    files += (File("e", 0, 0, 0, link="a"),)
    pieces = index.cut(files)
    assert [piece.spans for piece in pieces] == [
        (("b", 0, PART_BYTES),),
        (("b", PART_BYTES, 1),),
        (("a", 0, 5), ("c", 0, 7)),
    ]
    assert [piece.is_shareable for piece in pieces] == [True, True, False]


def test_there_and_back(tmp_path: Path) -> None:
    path = hugging_face(tmp_path, 500)
    (path / os.fsdecode(b"odd \xff")).write_text("content")
    (unit,) = find(look(tmp_path))
    parts = parts_of(unit)
    assert index.decode(index.encode(unit), parts).unit == unit
    with pytest.raises(CheckpointCorruptError, match="does not fit"):
        index.decode(index.encode(unit), parts[1:])


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "checkpoint-1/../../x", "checkpoint-1//x", "other/x"])
def test_paths_out_of_the_folder(path: str) -> None:
    unit = Unit("checkpoint-1", "HuggingFace", 1, (File(path, 0, 0, 0o644),), True)
    with pytest.raises(CheckpointCorruptError, match="outside"):
        index.decode(index.encode(unit), [])


# Breaks if the checkpoint of a stranger ends the writer with an error of Python, or makes a program run as its owner.
@pytest.mark.parametrize(("size", "time"), [(-1, 0), (0, 2**63), (0, -(2**64)), ("0", 0), (0, 1.5), (None, 0)])
def test_files_that_no_file_system_has(size: object, time: object) -> None:
    body = {
        "name": "a-1",
        "layout": "Files",
        "step": 1,
        "isFolder": True,
        "files": [["a-1/x", size, time, 0o644, None]],
        "pointers": [],
    }
    with pytest.raises(CheckpointCorruptError, match="cannot be read"):
        index.decode(json.dumps(body).encode(), [])


def test_a_mode_is_rights_alone() -> None:
    unit = Unit("checkpoint-1", "HuggingFace", 1, (File("checkpoint-1/x", 0, 0, 0o6755),), True)
    assert [file.mode for file in index.decode(index.encode(unit), []).unit.files] == [0o755]


def test_not_an_index() -> None:
    for data in (b"", b"[]", b"{}", json.dumps({"files": [1]}).encode()):
        with pytest.raises(CheckpointCorruptError):
            index.decode(data, [])


@pytest.mark.parametrize(
    ("link", "escapes"), [("model", False), ("../sub/model", False), ("../../x", True), ("/etc", True), ("../..", True)]
)
def test_links(link: str, escapes: bool) -> None:
    unit = Unit("run/checkpoint-1", "HuggingFace", 1, (File("run/checkpoint-1/sub/l", 0, 0, 0, link=link),), True)
    assert (index.escapes(unit) is not None) == escapes
