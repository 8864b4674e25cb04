"""The moment at which a program begins to write a save."""

import os
from pathlib import Path

import pytest

from holdfast_cli.rehearse.save_watch import SaveWatch


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def replace(path: Path) -> None:
    beside = path.with_name(".new")
    beside.write_bytes(path.read_bytes())
    beside.replace(path)


def write_in_place(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(1, 1))


# Breaks if a log that grows is taken for a save, or if one kind of save is not seen.
@pytest.mark.parametrize(
    ("change", "is_save"),
    [
        (lambda folder: None, False),
        (lambda folder: append(folder / "train.log"), False),
        (lambda folder: (folder / "train.log").unlink(), False),
        (lambda folder: (folder / "new").mkdir(), False),
        (lambda folder: (folder / ".holdfast-folder.json").write_text("x"), False),
        (lambda folder: (folder / "last.pt").write_bytes(b""), True),
        (lambda folder: replace(folder / "last.pt"), True),
        (lambda folder: write_in_place(folder / "last.pt"), True),
        (lambda folder: append(folder / "below" / "new.pt"), True),
        (lambda folder: (folder / "below" / "link").symlink_to("last.pt"), False),
    ],
)
def test_what_begins_a_save(tmp_path: Path, change: "object", is_save: bool) -> None:
    (tmp_path / "below").mkdir()
    for name in ("train.log", "last.pt"):
        (tmp_path / name).write_bytes(b"some bytes")
    watch = SaveWatch(tmp_path)
    assert not watch.has_begun()
    assert callable(change)
    change(tmp_path)
    assert bool(watch.has_begun()) is is_save
    assert not watch.has_begun(), "it has not begun since"


# Breaks if a folder that is not there yet is an error.
def test_a_folder_that_comes(tmp_path: Path) -> None:
    watch = SaveWatch(tmp_path / "later")
    assert not watch.has_begun()
    (tmp_path / "later").mkdir()
    append(tmp_path / "later" / "save")
    assert watch.has_begun() == str(tmp_path / "later" / "save")
