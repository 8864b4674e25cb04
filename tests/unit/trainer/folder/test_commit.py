"""Commits of a folder: what is uploaded again, what retention deletes, and what a failure leaves."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.folders import SavedFolder, hugging_face, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import FencedError
from holdfast_train.folder.put_back import put_back, read_index
from holdfast_train.folder.reading import UnitChangedError


# Breaks if an unchanged file is uploaded with each checkpoint, if it keeps whole old checkpoints, or is deleted in use.
def test_unchanged_files(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    uploaded = []
    for step in range(1, 7):
        hugging_face(place.root, step, bytes([step]) * 3_000_000)
        uploaded.append(place.commits.commit(place.unit(step)).uploaded)
    assert [round(size / 100_000) for size in uploaded] == [42, 42, 30, 30, 30, 30]
    assert 7_200_000 < place.stored < 7_210_000
    assert [c.step for c in place.checkpoints.log.state.commits] == [5, 6]
    found = place.checkpoints.newest()
    assert found is not None
    assert found.manifest.metrics == {"loss": "1.25"}
    other = tmp_path / "other"
    other.mkdir()
    assert put_back(place.storage, read_index(place.storage, found), other)
    assert (other / "checkpoint-6" / "tokenizer.json").read_bytes() == b"t" * 1_200_000


def test_all_unchanged(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    for step in (1, 2, 3):
        hugging_face(place.root, step, b"frozen" * 1_000_000)
        uploaded = place.commits.commit(place.unit(step)).uploaded
    assert uploaded < 10_000
    assert place.stored < 7_210_000  # one copy of the large files


# Breaks if a checkpoint is committed that changed during its upload, or if its bytes stay.
def test_change_during_the_upload(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    path = hugging_face(place.root, 1)
    unit = place.unit(1)
    (path / "trainer_state.json").write_text("{}")
    with pytest.raises(UnitChangedError):
        place.commits.commit(unit)
    assert not place.checkpoints.log.state.commits
    place.commits.commit(place.unit(1))
    assert place.stored < 2_710_000


# Breaks if a program that keeps one checkpoint is never saved, because it deletes each during its upload.
def test_deletion_during_the_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = SavedFolder(tmp_path)
    path = hugging_face(place.root, 1)
    unit, write = place.unit(1), place.storage.write

    def delete_and_write(*arguments: Any, **more: Any) -> None:
        shutil.rmtree(path, ignore_errors=True)
        write(*arguments, **more)

    monkeypatch.setattr(place.storage, "write", delete_and_write)
    place.commits.commit(unit)
    found = place.checkpoints.newest()
    assert found is not None
    assert put_back(place.storage, read_index(place.storage, found), place.root)
    assert (path / "model.safetensors").read_bytes() == b"w" * 1_500_000


def test_fenced(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    hugging_face(place.root, 1)
    newer = Checkpoints(place.storage, identity(2), Keep())
    newer.start("Auto")
    with pytest.raises(FencedError):
        place.commits.commit(place.unit(1))
    newer.log.refresh()
    assert not newer.log.state.commits
