"""Putting back: whole or not at all, and never over what the program has finished since."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from tests.support.trainer.folders import SavedFolder, archive, content, hugging_face

from holdfast_train.errors import CheckpointCorruptError, EnvironmentVariableError, StorageFullError
from holdfast_train.folder.index import Index
from holdfast_train.folder.layouts import find
from holdfast_train.folder.look import look
from holdfast_train.folder.put_back import (
    NotFromFolderError,
    make_folder,
    put_back,
    read_index,
    set_aside_incomplete,
)


def committed(place: SavedFolder) -> Index:
    place.commits.commit(find(look(place.root))[-1])
    found = place.checkpoints.newest()
    assert found is not None
    return read_index(place.storage, found)


def test_folder(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    path = hugging_face(place.root, 7)
    (path / "latest").symlink_to("sub/small.txt")
    (path / "run.sh").write_text("true")
    (path / "run.sh").chmod(0o755)
    known, before, files = committed(place), content(place.root), look(place.root)
    assert not put_back(place.storage, known, place.root)  # it is there
    shutil.rmtree(place.root)
    place.root.mkdir()
    assert put_back(place.storage, known, place.root)
    assert content(place.root) == before
    assert {f.signature for f in look(place.root).values()} == {f.signature for f in files.values()}
    assert (place.root / "checkpoint-7" / "run.sh").stat().st_mode & 0o777 == 0o755


# Breaks if a broken checkpoint leaves half of itself in the folder.
def test_broken(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    hugging_face(place.root, 7)
    known = committed(place)
    damaged = tmp_path / "store" / known.parts[-1].key
    damaged.write_bytes(bytes(damaged.stat().st_size))
    shutil.rmtree(place.root)
    place.root.mkdir()
    with pytest.raises(CheckpointCorruptError):
        put_back(place.storage, known, place.root)
    assert not list(place.root.iterdir())


# Breaks if half a checkpoint stays under its name, or if a finished one is replaced.
def test_what_is_there(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    path = hugging_face(place.root, 7)
    known = committed(place)
    (path / "model.safetensors").write_bytes(b"of a later run")
    assert not put_back(place.storage, known, place.root)
    (path / "trainer_state.json").unlink()
    hugging_face(place.root, 8)
    (place.root / "checkpoint-8" / "trainer_state.json").write_text("{")
    (place.root / "checkpoint-9").mkdir()
    (place.root / "checkpoint-9" / "mine.txt").write_text("not of the Trainer")
    assert sorted(set_aside_incomplete(place.root)) == ["checkpoint-7", "checkpoint-8"]
    assert put_back(place.storage, known, place.root)
    names = sorted(p.name.partition(".incomplete")[0] for p in place.root.iterdir())
    assert names == ["checkpoint-7", "checkpoint-7", "checkpoint-8", "checkpoint-9"]
    assert (place.root / "checkpoint-7" / "model.safetensors").read_bytes() == b"w" * 1_500_000


def test_files(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    last = archive(place.root / "last.ckpt")
    archive(place.root / "step=5.ckpt")
    known, before = committed(place), content(place.root)
    last.write_bytes(b"half")
    (place.root / "step=5.ckpt").unlink()
    assert put_back(place.storage, known, place.root)
    assert content(place.root) == before


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentVariableError, match=r"checkpoint\.folder: cannot write to"):
        make_folder(tmp_path / "file" / "outputs")


def test_checkpoint_of_the_library(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    hugging_face(place.root, 7)
    committed(place)
    found = place.checkpoints.newest()
    assert found is not None
    found.manifest.program.clear()  # type: ignore[attr-defined]
    with pytest.raises(NotFromFolderError, match="leave out"):
        read_index(place.storage, found)


# Breaks if a volume without room looks like a broken checkpoint, or keeps half of one.
def test_full_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = SavedFolder(tmp_path)
    hugging_face(place.root, 7)
    known = committed(place)
    shutil.rmtree(place.root)
    place.root.mkdir()
    write, room = os.pwrite, [1_000_000]

    def pwrite(descriptor: int, data: memoryview, at: int) -> int:
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(StorageFullError, match="no room for the checkpoint checkpoint-7 of"):
        put_back(place.storage, known, place.root)
    assert not list(place.root.iterdir())


# Breaks if what a killed put-back left is taken for a checkpoint, or stays.
def test_killed_put_back(tmp_path: Path) -> None:
    hugging_face(tmp_path / ".holdfast-put-back-1", 7)
    assert not find(look(tmp_path))
    make_folder(tmp_path)
    assert not list(tmp_path.iterdir())
